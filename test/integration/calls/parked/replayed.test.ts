/** Calls that are lost: how their client is told, and which of them may be made again. */
import { describe, expect, test } from 'vitest';
import { callTool, send } from '../../../fixtures/clients/modern-client.ts';
import { eventStream, json } from '../../../fixtures/servers/scripted-server.ts';
import { scriptedGateway } from '../../../fixtures/gateways/scripted-gateway.ts';
import { answered, done, question, textOf } from '../../../fixtures/wire/asked-calls.ts';

// Rule failures-6.
describe('a call that is lost', () => {
  // Rule failures-6.
  test.each([
    { method: 'prompts/get', params: { name: 'hello' } },
    { method: 'resources/read', params: { uri: 'test://one' } },
  ])('is an internal error to $method, which has no other way to say it', async (request) => {
    const { method, params } = request;
    const { url, server, gateway } = await scriptedGateway((_received, response) => {
      eventStream(response).send(question('one'));
    });
    const asked = await send(url, method, params);
    server.cut();
    await gateway.log.saw('call.ended');
    const lost = await send(url, method, { ...params, ...answered(asked, 'one') });
    expect(lost.status).toBe(200);
    expect(lost.response.error).toMatchObject({ code: -32603, data: { reason: 'call_lost' } });
  });
});

describe('a lost call of a tool', () => {
  const tool = (name: string, annotations?: object) => ({
    name,
    inputSchema: { type: 'object' },
    ...(annotations === undefined ? {} : { annotations }),
  });
  const tools = [
    tool('reads', { readOnlyHint: true }),
    tool('repeats', { idempotentHint: true, destructiveHint: true }),
    tool('acts', { readOnlyHint: false }),
    tool('silent'),
  ];

  async function lostCall(name: string, annotated: boolean) {
    const calls: string[] = [];
    let finish = () => {};
    const { url, server, gateway } = await scriptedGateway(
      ({ body }, response) => {
        if (body.method === 'tools/list') return json(response, 200, done(body.id, { tools }));
        calls.push(body.params.name);
        const stream = eventStream(response);
        stream.send(question('one'));
        finish = () => stream.send(done(body.id));
      },
      { continuation: { replay: { tools: [], annotated } } },
      { onResponse: (_received, response) => (finish(), void response.writeHead(202).end()) },
    );
    const asked = await callTool(url, name);
    server.cut();
    await gateway.log.saw('call.ended');
    const retried = await callTool(url, name, answered(asked, 'one'));
    return { calls, retried };
  }

  // Rule replay-1.
  test.each(['reads', 'repeats'])(
    'whose annotations say that it %s is replayed, where the operator trusts them',
    async (name) => {
      const { calls, retried } = await lostCall(name, true);
      expect(textOf(retried)).toBe('done');
      expect(calls).toEqual([name, name]);
    },
  );

  // Rule replay-1.
  test.each([
    ['reads', false],
    ['acts', true],
    ['silent', true],
  ])('is not called again otherwise: %s, trusted: %s', async (name, annotated) => {
    const { calls, retried } = await lostCall(name, annotated);
    expect(retried.response.result._meta['mrtr-gateway/reason']).toBe('call_lost');
    expect(calls).toEqual([name]);
  });
});
