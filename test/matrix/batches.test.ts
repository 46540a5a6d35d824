/**
 * Batches, which 2025-03-26 had and no other revision has: a server may put several messages into one JSON
 * array, and a client must take them (2025-03-26, basic, "Batching").
 */
import { describe, expect, test } from 'vitest';
import { gatewayBefore } from '../fixtures/gateways/test-gateway.ts';
import { callTool, type SendOptions } from '../fixtures/clients/modern-client.ts';
import { inputRequired, textOf } from '../fixtures/revisions/testbed.ts';
import { SERVERS, TITLE } from '../fixtures/revisions/table.ts';
import { wireServer, type WireScript } from '../fixtures/revisions/wire.ts';
import type { Received } from '../fixtures/servers/scripted-server.ts';

const HEARS: SendOptions = {
  meta: { progressToken: 'mine', 'io.modelcontextprotocol/logLevel': 'info' },
};
const response = (id: unknown) => ({
  jsonrpc: '2.0',
  id,
  result: { content: [{ type: 'text', text: 'done' }] },
});
const log = (level: string) => ({
  jsonrpc: '2.0',
  method: 'notifications/message',
  params: { level, data: level },
});
const progress = ({ body }: Received, value: number) => ({
  jsonrpc: '2.0',
  method: 'notifications/progress',
  params: { progressToken: body.params._meta.progressToken, progress: value },
});

const SAMPLING = {
  method: 'sampling/createMessage',
  params: { messages: [{ role: 'user', content: { type: 'text', text: 'Hm?' } }], maxTokens: 9 },
};
const SAMPLED = { role: 'assistant', model: 'm', content: { type: 'text', text: 'Ah' } };
const ROOTS = { roots: [{ uri: 'file:///a' }] };

const batching = SERVERS.filter(({ revision }) => revision === '2025-03-26');

describe.each(batching)(TITLE, (shape) => {
  async function start(tool: NonNullable<WireScript['request']>) {
    const server = await wireServer(shape, {
      request: (received, say) => {
        const { method, id } = received.body;
        if (method === 'tools/call') return tool(received, say);
        say.own({ jsonrpc: '2.0', id, result: {} });
      },
    });
    const { gateway } = await gatewayBefore(server, { transport: shape.transport });
    return { server, url: gateway.url };
  }

  // Rule wire-2.
  test('a response in a batch of one is the response', async () => {
    const { url } = await start(({ body }, say) => say.own([response(body.id)]));
    expect(textOf(await callTool(url, 'any'))).toBe('done');
  });

  test('progress and log messages before the response reach the client in their order', async () => {
    const { url } = await start((received, say) =>
      say.own([
        progress(received, 1),
        log('debug'),
        log('error'),
        progress(received, 2),
        response(received.body.id),
      ]),
    );
    const done = await callTool(url, 'any', {}, HEARS);
    expect(done.notifications.map(({ params }) => params.progress ?? params.level)).toEqual([
      1,
      'error',
      2,
    ]);
    expect(textOf(done)).toBe('done');
  });

  // Rule wire-2.
  test('a value in a batch that is not a message does not hold up the others', async () => {
    const { url } = await start(({ body }, say) =>
      say.own([
        null,
        7,
        'text',
        [],
        { jsonrpc: '1.0' },
        { jsonrpc: '2.0', id: 99, result: {} },
        response(body.id),
      ]),
    );
    expect(textOf(await callTool(url, 'any'))).toBe('done');
  });

  // Rule wire-2.
  test('questions in a batch come to the client together, and each is answered by its id', async () => {
    const { server, url } = await start(async ({ body }, say) => {
      const questions = [
        { jsonrpc: '2.0', id: 0, ...SAMPLING },
        { jsonrpc: '2.0', id: 'roots', method: 'roots/list' },
        { jsonrpc: '2.0', id: 2, method: 'ping' },
      ];
      // A JSON answer has no room for what comes before it.
      if (shape.answers === 'JSON') say.standalone(questions);
      else say.own(questions);
      for (const id of [0, 'roots', 2]) {
        await server.saw((received) => received.body?.id === id && 'result' in received.body);
      }
      say.own([response(body.id)]);
    });
    const { inputRequests, requestState } = inputRequired(await callTool(url, 'any'));
    expect(Object.values(inputRequests)).toEqual([SAMPLING, { method: 'roots/list', params: {} }]);
    const [sampling = '', roots = ''] = Object.keys(inputRequests);
    const inputResponses = { [sampling]: SAMPLED, [roots]: ROOTS };
    expect(textOf(await callTool(url, 'any', { requestState, inputResponses }))).toBe('done');
    const answers = server.received
      .filter(({ body }) => body !== undefined && 'result' in body)
      .map(({ body }) => body);
    expect(answers).toHaveLength(3);
    expect(answers).toEqual(
      expect.arrayContaining([
        { jsonrpc: '2.0', id: 0, result: SAMPLED },
        { jsonrpc: '2.0', id: 'roots', result: ROOTS },
        { jsonrpc: '2.0', id: 2, result: {} },
      ]),
    );
  });

  // Rule wire-2 (2025-03-26 basic, "Batching"): One message is sent at a time. Arrays of messages from a server are
  // taken apart.
  // Rule answers-8.
  test('the gateway itself sends one message at a time', async () => {
    const { server, url } = await start(({ body }, say) => say.own(response(body.id)));
    await callTool(url, 'any');
    for (const { method, body } of server.received) {
      if (method === 'POST') expect(Array.isArray(body)).toBe(false);
    }
  });
});

describe.each(SERVERS)(TITLE, (shape) => {
  // Rule questions-8.
  test('a ping without an id gets no reply, and the call goes on', async () => {
    const server = await wireServer(shape, {
      request: ({ body }, say) => {
        say.standalone({ jsonrpc: '2.0', method: 'ping' });
        if (shape.answers !== 'JSON') say.own({ jsonrpc: '2.0', method: 'ping', params: {} });
        say.own(response(body.id));
      },
    });
    const { gateway } = await gatewayBefore(server, { transport: shape.transport });
    const done = await callTool(gateway.url, 'any', {}, HEARS);
    expect(textOf(done)).toBe('done');
    expect(done.notifications).toEqual([]);
    expect(server.methods()).not.toContain('response');
  });
});
