/** Limits on calls that ask: how many are parked, and how often one may ask. */
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { startTestGateway } from '../../../fixtures/gateways/gateway.ts';
import { askName } from '../../../fixtures/servers/legacy-server.ts';
import { accept, callTool } from '../../../fixtures/clients/modern-client.ts';
import { eventStream, json, legacyServer } from '../../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';
import {
  greet,
  greetDeaf,
  legacyGateway,
  text,
} from '../../../fixtures/gateways/legacy-gateway.ts';

describe('limits', () => {
  // Rule time-and-room-3.
  test('a request that is sent after its client was told to retry is sent whole', async () => {
    const opened = Promise.withResolvers<void>();
    let isHeld = false;
    const server = await legacyServer(
      ({ body }, response) => {
        const content = [{ type: 'text', text: body.params.arguments.name }];
        json(response, 200, { jsonrpc: '2.0', id: body.id, result: { content } });
      },
      {
        onNotification: async (_received, response) => {
          if (isHeld) await opened.promise;
          response.writeHead(202).end();
        },
      },
    );
    stopAfterTest(() => server.stop());
    const gateway = await startTestGateway(server.url, { calls: { maxHoldMs: 20 } });
    stopAfterTest(() => gateway.close());
    isHeld = true;
    const args = { arguments: { name: 'Ada' } };
    const first = await callTool(gateway.url, 'greet', args);
    const { requestState } = first.response.result;
    expect(first.response.result.resultType).toBe('input_required');
    opened.resolve();
    await server.saw(({ body }) => body?.method === 'tools/call');
    const done = await callTool(gateway.url, 'greet', { ...args, requestState });
    expect(text(done)).toBe('Ada');
  });

  // Rule time-and-room-6: A call beyond `limits.maxParkedCalls` or `limits.maxParkedCallsPerPrincipal` is cancelled,
  // with -32603 and `data.reason` `too_many_parked_calls`.
  test('a caller beyond its number of parked calls gets a clear error, and upstream is cancelled', async () => {
    const { url, legacy } = await legacyGateway(
      { tools: greetDeaf },
      { limits: { maxParkedCallsPerPrincipal: 1 } },
    );
    const first = await callTool(url, 'greet');
    const second = await callTool(url, 'greet');
    expect(second.response.error).toMatchObject({
      code: -32603,
      data: { reason: 'too_many_parked_calls' },
    });
    const closedOut = await legacy.saw('response');
    expect(closedOut.body.result).toEqual({ action: 'cancel' });
    const other = await callTool(url, 'greet', {}, { headers: { authorization: 'Bearer other' } });
    expect(other.response.result.resultType).toBe('input_required');
    const done = await callTool(url, 'greet', {
      requestState: first.response.result.requestState,
      inputResponses: { 'elicitation-1': accept({ name: 'Ada' }) },
    });
    expect(text(done)).toBe('Hello Ada');
    const third = await callTool(url, 'greet');
    expect(third.response.result.resultType).toBe('input_required');
  });

  test('anonymous callers share a limit of their own, and the log says when it is reached', async () => {
    const { gateway, url } = await legacyGateway(
      { tools: greet },
      {
        limits: { maxParkedCalls: 6, maxParkedCallsPerPrincipal: 1 },
        // Nobody here is the user of this machine.
        edge: { trustedProxies: ['10.0.0.1'] },
      },
    );
    const parked = await Promise.all([1, 2, 3].map(() => callTool(url, 'greet')));
    expect(parked.map(({ response }) => response.result.resultType)).toEqual(
      Array(3).fill('input_required'),
    );
    for (const attempt of [1, 2]) {
      const refused = await callTool(url, 'greet');
      expect(refused.response.error.data.reason, `${attempt}`).toBe('too_many_parked_calls');
    }
    expect(gateway.log.named('call.parking_limit')).toEqual([
      { limit: 'limits.maxParkedCalls', refused: 1 },
    ]);
    const other = await callTool(url, 'greet', {}, { headers: { authorization: 'Bearer other' } });
    expect(other.response.result.resultType).toBe('input_required');
  });

  // Rule time-and-room-6.
  test('a client that would be told to retry keeps waiting while no further call can be parked', async () => {
    const held = Promise.withResolvers<void>();
    const tools = { late: async () => held.promise.then(() => 'done') };
    const limits = { maxParkedCallsPerPrincipal: 1 };
    const { url } = await legacyGateway({ tools }, { limits, calls: { maxHoldMs: 20 } });
    const first = await callTool(url, 'late');
    const second = callTool(url, 'late');
    // So late that the time of the second one is over as well.
    setTimeout(() => held.resolve(), 500);
    expect(text(await second)).toBe('done');
    const { requestState } = first.response.result;
    expect(text(await callTool(url, 'late', { requestState }))).toBe('done');
  });

  // Rule time-and-room-6.
  test('the gateway as a whole parks no more calls than it may', async () => {
    const { url } = await legacyGateway({ tools: greet }, { limits: { maxParkedCalls: 2 } });
    const answers = [await callTool(url, 'greet'), await callTool(url, 'greet')];
    expect(answers.every(({ response }) => response.result !== undefined)).toBe(true);
    const refused = await callTool(url, 'greet', {}, { headers: { authorization: 'Bearer x' } });
    expect(refused.response.error.data).toEqual({
      reason: 'too_many_parked_calls',
      mayHaveActed: 'yes',
      help: 'mrtr-gateway/docs/operate/errors.md#too_many_parked_calls',
    });
  });

  // Rule time-and-room-6.
  test.each([
    ['are taken', 'maxParkedCalls', 202, 'input_required', 'other'],
    ['are refused', 'maxParkedCalls', 503, 'upstream_unavailable', 'other'],
    ['are taken', 'maxParkedCallsPerPrincipal', 202, 'input_required', 'ada'],
    ['are refused', 'maxParkedCallsPerPrincipal', 503, 'upstream_unavailable', 'ada'],
  ] as const)(
    'a call whose answers are on their way keeps its place, for when they %s, among limits.%s',
    async (_what, limit, status, told, caller) => {
      const arrived = Promise.withResolvers<ServerResponse>();
      let questions = 0;
      const server = await legacyServer(
        (_received, response) => {
          const stream = eventStream(response);
          const requestedSchema = { type: 'object', properties: { name: { type: 'string' } } };
          const params = { message: 'Your name?', requestedSchema };
          for (let asked = 0; asked < 2; asked += 1) {
            questions += 1;
            stream.send({ jsonrpc: '2.0', id: questions, method: 'elicitation/create', params });
          }
        },
        { onResponse: (_received, response) => arrived.resolve(response) },
      );
      stopAfterTest(() => server.stop());
      const gateway = await startTestGateway(server.url, { limits: { [limit]: 1 } });
      stopAfterTest(() => gateway.close());
      const { url } = gateway;
      const as = (user: string) => ({ headers: { authorization: `Bearer ${user}` } });
      const { requestState } = (await callTool(url, 'greet', {}, as('ada'))).response.result;
      const inputResponses = { 'elicitation-1': accept({ name: 'Ada' }) };
      const retried = callTool(url, 'greet', { requestState, inputResponses }, as('ada'));
      const answering = await arrived.promise;
      const refused = await callTool(url, 'greet', {}, as(caller));
      expect(refused.response.error?.data.reason).toBe('too_many_parked_calls');
      answering.writeHead(status).end();
      const { result, error } = (await retried).response;
      expect(result?.resultType ?? error.data.reason).toBe(told);
      const { body } = await server.saw(({ body }) => body?.result?.action === 'cancel');
      expect(body.id).toBeGreaterThan(2);
    },
  );

  // Rule shown-7.
  test('a server that never stops asking is stopped', async () => {
    const { url } = await legacyGateway(
      {
        tools: {
          endless: async (call) => {
            for (;;) await askName(call);
          },
        },
      },
      { parking: { maxRounds: 2 } },
    );
    let answer = await callTool(url, 'endless');
    for (let round = 1; round <= 2; round += 1) {
      answer = await callTool(url, 'endless', {
        requestState: answer.response.result.requestState,
        inputResponses: { [`elicitation-${round}`]: accept({ name: 'x' }) },
      });
    }
    expect(answer.response.error).toMatchObject({
      code: -32603,
      data: { reason: 'too_many_rounds' },
    });
  });
});
