/** Calls that go on in another process, from where their stream stopped. */
import { randomBytes } from 'node:crypto';
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import { advanceUntil, ManualClock, turnsUntil } from '../../../fixtures/manual-clock.ts';
import { callTool, send } from '../../../fixtures/clients/modern-client.ts';
import { eventStream, json } from '../../../fixtures/servers/scripted-server.ts';
import { scriptedGateway } from '../../../fixtures/gateways/scripted-gateway.ts';
import {
  INVALID_STATE,
  answered,
  done,
  question,
  textOf,
} from '../../../fixtures/wire/asked-calls.ts';

describe('a call that is read on from where it stopped', () => {
  const HEADERS = { identity: { source: 'header', header: 'x-user' } } as const;
  const RELEASED = { ...HEADERS, parking: { release: 'when-resumable' } } as const;
  const as = (token: string) => ({ headers: { 'x-user': 'ada', authorization: token } });

  // Rule reattach-2: The stream is open before the answers go out. No credentials are in a pointer.
  test('has its stream back before its answers go out, both with the credentials of the retry', async () => {
    let callId: unknown;
    let resumed: ReturnType<typeof eventStream> | undefined;
    const { url, server, gateway } = await scriptedGateway(
      ({ body }, response) => {
        callId = body.id;
        eventStream(response).send(question('one'), 'event-1');
      },
      RELEASED,
      {
        onGet: ({ headers }, response) => {
          const stream = eventStream(response);
          if (headers['last-event-id'] === 'event-1') resumed = stream;
        },
        onResponse: (_received, response) => {
          response.writeHead(202).end();
          resumed?.send(done(callId), 'event-2');
        },
      },
    );
    const asked = await callTool(url, 'ask', {}, as('Bearer first'));
    await gateway.log.saw('call.ended');
    const before = server.received.length;
    const retried = await callTool(url, 'ask', answered(asked, 'one'), as('Bearer later'));
    expect(textOf(retried)).toBe('done');
    const since = server.received.slice(before);
    const taking = since.findIndex(({ headers }) => headers['last-event-id'] === 'event-1');
    const answering = since.findIndex(({ body }) => body?.id === 'one');
    expect(taking).toBeGreaterThanOrEqual(0);
    expect(answering).toBeGreaterThan(taking);
    for (const { headers } of [since[taking]!, since[answering]!]) {
      expect(headers.authorization).toBe('Bearer later');
      expect(headers['mcp-session-id']).toBe('session-1');
    }
  });

  // Rule wire-9.
  test.each([
    ['comes before the stream is opened', false],
    ['comes while the server refuses the old ones', true],
  ])('has its stream back with the credentials of a retry that %s', async (_when, isUnderWay) => {
    const clock = new ManualClock();
    const opening = Promise.withResolvers<void>();
    const allowed = Promise.withResolvers<void>();
    let callId: unknown;
    const { url, gateway } = await scriptedGateway(
      ({ body }, response) => {
        callId = body.id;
        const stream = eventStream(response);
        stream.raw('retry: 5000\n\n');
        stream.send(question('one'), 'event-1');
        stream.end();
      },
      { ...HEADERS, clock },
      {
        onGet: async ({ headers }, response) => {
          if (headers['last-event-id'] === undefined) return void response.writeHead(405).end();
          opening.resolve();
          await allowed.promise;
          if (headers.authorization !== 'Bearer later') return void response.writeHead(401).end();
          eventStream(response).send(done(callId), 'event-2');
        },
      },
    );
    const asked = await advanceUntil(clock, callTool(url, 'ask', {}, as('Bearer first')));
    const moved = (by: string) =>
      turnsUntil(() => gateway.log.named('call.moved').some(({ rule }) => rule === by));
    await moved('stream-broken');
    const open = () => (clock.advance(5_000), opening.promise);
    if (isUnderWay) await open();
    const retried = callTool(url, 'ask', answered(asked, 'one'), as('Bearer later'));
    await moved('retry-awaits-stream');
    if (!isUnderWay) await open();
    allowed.resolve();
    expect(textOf(await retried)).toBe('done');
  });

  // Rule time-and-room-1.
  test('goes on with the time of the call, which does not start again', async () => {
    const clock = new ManualClock();
    const { url, server, gateway } = await scriptedGateway(
      ({ body }, response) => {
        if (body.method === 'ping') return json(response, 200, done(body.id, {}));
        eventStream(response).send(question('one'), 'event-1');
      },
      {
        ...HEADERS,
        clock,
        parking: { release: 'when-resumable', ttlMs: 60_000, callTtlMs: 100_000 },
      },
      { onGet: (_received, response) => void eventStream(response) },
    );
    const first = await advanceUntil(clock, callTool(url, 'ask', {}, as('Bearer ada')));
    await gateway.log.saw('call.ended');
    clock.advance(50_000);
    const second = await callTool(url, 'ask', answered(first), as('Bearer ada'));
    expect(second.response.result.resultType).toBe('input_required');
    await gateway.log.saw('call.ended', 2);
    clock.advance(50_000);
    const late = await callTool(url, 'ask', answered(second, 'one'), as('Bearer ada'));
    expect(late.response.error?.data, '100 of 100 seconds are over').toEqual(INVALID_STATE);
    expect(server.methods()).not.toContain('response');
  });

  // Rule shown-5.
  test.each([
    ['counted', {}, ['elicitation-1', 'elicitation-2', 'elicitation-3']],
    ['the operator’s', { keyNames: { ask: ['who', 'why', 'when'] } }, ['who', 'why', 'when']],
  ])('goes on with its keys where they stopped: %s', async (_whose, questions, keys) => {
    let callId: unknown;
    let stream: ReturnType<typeof eventStream> | undefined;
    let asked = 0;
    const next = () => {
      asked += 1;
      const ask = { ...question('name'), id: 100 + asked };
      stream?.send(asked > 3 ? done(callId) : ask, `event-${asked}`);
    };
    const { url, gateway } = await scriptedGateway(
      ({ body }, response) => {
        callId = body.id;
        stream = eventStream(response);
        next();
      },
      { ...RELEASED, questions },
      {
        onGet: ({ headers }, response) => {
          const opened = eventStream(response);
          if (headers['last-event-id'] !== undefined) stream = opened;
        },
        onResponse: (_received, response) => (response.writeHead(202).end(), next()),
      },
    );
    let answer = await callTool(url, 'ask', {}, as('Bearer ada'));
    const shown: string[] = [];
    while (answer.response.result.resultType === 'input_required') {
      const now = Object.keys(answer.response.result.inputRequests);
      shown.push(...now);
      await gateway.log.saw('call.ended', shown.length);
      answer = await callTool(url, 'ask', answered(answer, ...now), as('Bearer ada'));
    }
    expect(textOf(answer)).toBe('done');
    expect(shown).toEqual(keys);
    const recoveries = gateway.log.named('call.resumed').map(({ recoveredBy }) => recoveredBy);
    expect(recoveries).toEqual(['reattach', 'reattach', 'reattach']);
  });

  test('gets its answers also where the server ends each connection as soon as it responds', async () => {
    let callId: unknown;
    let isAnswered = false;
    const { url, server, gateway } = await scriptedGateway(
      ({ body }, response) => {
        callId = body.id;
        eventStream(response).send(question('one'), 'event-1');
      },
      RELEASED,
      {
        onGet: ({ headers }, response) => {
          if (headers['last-event-id'] === undefined) return void eventStream(response);
          if (isAnswered) return eventStream(response).send(done(callId), 'event-2');
          response.writeHead(200, { 'content-type': 'text/event-stream' }).end();
        },
        onResponse: (_received, response) => {
          isAnswered = true;
          response.writeHead(202).end();
        },
      },
    );
    const asked = await callTool(url, 'ask', {}, as('Bearer ada'));
    await gateway.log.saw('call.ended');
    expect(textOf(await callTool(url, 'ask', answered(asked, 'one'), as('Bearer ada')))).toBe(
      'done',
    );
    expect(server.methods().filter((method) => method === 'response')).toHaveLength(1);
  });

  // Rule reattach-2.
  test('gets its answers only when its stream is back that broke while the one beside it was being opened', async () => {
    let callId: unknown;
    const beside: ServerResponse[] = [];
    let broken: ReturnType<typeof eventStream> | undefined;
    let back: ReturnType<typeof eventStream> | undefined;
    let isOffered = false;
    const refused = Promise.withResolvers<void>();
    const answeredWhileBack: boolean[] = [];
    const { url, server, gateway } = await scriptedGateway(
      ({ body }, response) => {
        if (body.method === 'tools/list') {
          return json(response, 200, { jsonrpc: '2.0', id: body.id, result: { tools: [] } });
        }
        callId = body.id;
        eventStream(response).send(question('one'), 'event-1');
      },
      RELEASED,
      {
        onGet: ({ headers }, response) => {
          if (headers['last-event-id'] === undefined) {
            beside.push(response);
            // In the session that asked it is there at once.
            if (beside.length === 1) eventStream(response);
            else broken?.end();
          } else if (broken === undefined) {
            broken = eventStream(response);
          } else if (isOffered) {
            back = eventStream(response);
          } else {
            json(response, 503, {});
            refused.resolve();
          }
        },
        onResponse: (_received, response) => {
          answeredWhileBack.push(back !== undefined);
          response.writeHead(202).end();
          back?.send(done(callId), 'event-2');
        },
      },
    );
    const asked = await callTool(url, 'ask', {}, as('Bearer ada'));
    await gateway.log.saw('call.ended');
    const retried = callTool(url, 'ask', answered(asked, 'one'), as('Bearer ada'));
    await refused.promise;
    eventStream(beside[1]!);
    // Answers that this let go are at the server before this list.
    await send(url, 'tools/list', {}, as('Bearer ada'));
    expect(server.methods()).not.toContain('response');
    isOffered = true;
    expect(textOf(await retried)).toBe('done');
    expect(answeredWhileBack).toEqual([true]);
  });

  // Rule reattach-2.
  test('is lost where the stream cannot be had, and its answers stay here', async () => {
    const { url, server, gateway } = await scriptedGateway(
      (_received, response) => eventStream(response).send(question('one'), 'event-1'),
      RELEASED,
      {
        onGet: ({ headers }, response) => {
          if (headers['last-event-id'] === undefined) return void eventStream(response);
          json(response, 404, {});
        },
      },
    );
    const asked = await callTool(url, 'ask', {}, as('Bearer first'));
    await gateway.log.saw('call.ended');
    const lost = await callTool(url, 'ask', answered(asked, 'one'), as('Bearer later'));
    expect(lost.response.result).toMatchObject({
      isError: true,
      _meta: { 'mrtr-gateway/reason': 'call_lost' },
    });
    expect(server.methods()).not.toContain('response');
  });

  // Rule reattach-6: Questions that do not fit into a pointer of 32 KiB stay with the owner, and
  // `pointer.continuation_dropped` is logged.
  test('is none whose question finds no room in the pointer: it stays with its owner', async () => {
    const incompressible = randomBytes(40_000).toString('base64');
    let finish = () => {};
    const { url, gateway } = await scriptedGateway(
      ({ body }, response) => {
        const stream = eventStream(response);
        stream.send(question('one', incompressible), 'event-1');
        finish = () => stream.send(done(body.id));
      },
      { parking: { release: 'when-resumable' } },
      { onResponse: (_received, response) => (finish(), void response.writeHead(202).end()) },
    );
    const asked = await callTool(url, 'ask');
    expect(gateway.log.named('pointer.continuation_dropped')).toHaveLength(1);
    expect(asked.response.result.requestState.length).toBeLessThan(1_024);
    expect(gateway.log.named('call.ended')).toEqual([]);
    expect(textOf(await callTool(url, 'ask', answered(asked, 'one')))).toBe('done');
  });
});
