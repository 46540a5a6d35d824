/** Requests of every method on their way to a legacy server and back, where more happens than translation. */
import { describe, expect, test } from 'vitest';
import { answering, QUESTION, replies } from '../../fixtures/gateways/method-testbed.ts';
import { accept, callTool, send } from '../../fixtures/clients/modern-client.ts';
import { eventStream, json } from '../../fixtures/servers/scripted-server.ts';

describe('a call', () => {
  // Rule progress-1 (2025-11-25 progress, "Progress Flow"): Every call asks its server for progress. Lists and
  // completions do not.
  test.each<[string, object]>([
    ['who asked for progress', { progressToken: 'theirs' }],
    ['who did not', {}],
  ])('asks its server for progress under our own token, for a client %s', async (_title, meta) => {
    const { server, url } = await answering({ 'tools/call': replies({ content: [] }) });
    await callTool(url, 'any', {}, { meta });
    const { body } = await server.saw((received) => received.body?.method === 'tools/call');
    expect(body.params._meta).toEqual({ progressToken: body.id });
  });

  // Rule logs-2 (logging, "Per-request log level"): A request with a level gets messages from that level on. The
  // gateway sets it at the server before the call.
  test('goes to the server when the level of its log messages is set, and not before', async () => {
    const order: string[] = [];
    const { url } = await answering({
      'logging/setLevel': async ({ body }, response) => {
        // Long enough for the gateway to send whatever does not wait for the answer.
        await send(url, 'prompts/list');
        order.push('level set');
        json(response, 200, { jsonrpc: '2.0', id: body.id, result: {} });
      },
      'tools/call': ({ body }, response) => {
        order.push('called');
        json(response, 200, { jsonrpc: '2.0', id: body.id, result: { content: [] } });
      },
    });
    await callTool(url, 'any', {}, { meta: { 'io.modelcontextprotocol/logLevel': 'info' } });
    expect(order).toEqual(['level set', 'called']);
  });
});

describe('a request that asks nothing', () => {
  // Rule progress-1.
  test('asks for no progress, whatever its client wants', async () => {
    const { server, url } = await answering({ 'tools/list': replies({ tools: [] }) });
    await send(url, 'tools/list', {}, { meta: { progressToken: 'theirs' } });
    const { body } = await server.saw((received) => received.body?.method === 'tools/list');
    expect(body.params ?? {}).not.toHaveProperty('_meta');
  });

  // Rule cancellation-1.
  test('is cancelled at the server when its client leaves', async () => {
    const { server, url } = await answering({ 'completion/complete': () => {} });
    const leaving = new AbortController();
    const params = { ref: { type: 'ref/prompt', name: 'p' }, argument: { name: 'a', value: '' } };
    const asked = send(url, 'completion/complete', params, { signal: leaving.signal });
    const sent = await server.saw(({ body }) => body?.method === 'completion/complete');
    leaving.abort();
    await expect(asked).rejects.toThrow();
    const told = await server.saw(({ body }) => body?.method === 'notifications/cancelled');
    expect(told.body.params.requestId).toBe(sent.body.id);
  });

  // Rule limits-7.
  // Rule limits-7.
  test('is cancelled at the server when its time is up', async () => {
    const { server, url } = await answering(
      { 'tools/list': () => {} },
      { overrides: { transport: 'streamable-http', upstream: { headersTimeoutMs: 200 } } },
    );
    const { status, response } = await send(url, 'tools/list');
    expect(status).toBe(200);
    expect(response.error).toMatchObject({ code: -32603, data: { reason: 'upstream_timeout' } });
    const sent = await server.saw(({ body }) => body?.method === 'tools/list');
    const told = await server.saw(({ body }) => body?.method === 'notifications/cancelled');
    expect(told.body.params.requestId).toBe(sent.body.id);
  });
});

describe('a resource', () => {
  // Rule caching-3 (caching, "Cache Key"): A result that depends on answers must not be cached.
  test('that depends on answers must not be cached, whatever operator and server say', async () => {
    let stream: ReturnType<typeof eventStream> | undefined;
    let id: unknown;
    const { url } = await answering(
      {
        'resources/read': ({ body }, response) => {
          ({ id } = body);
          stream = eventStream(response);
          stream.send({ ...QUESTION, id: 'q' });
        },
      },
      {
        onResponse: (_received, response) => {
          response.writeHead(202).end();
          const contents = [{ uri: 'test://a', text: 'a' }];
          const result = { contents, ttlMs: 60_000, cacheScope: 'public' };
          stream?.send({ jsonrpc: '2.0', id, result });
          stream?.end();
        },
        overrides: {
          transport: 'streamable-http',
          caching: { resourceTtlMs: 60_000, scope: 'public' },
        },
      },
    );
    const asked = await send(url, 'resources/read', { uri: 'test://a' });
    const { inputRequests, requestState } = asked.response.result;
    expect(asked.response.result).not.toHaveProperty('ttlMs');
    const [key = ''] = Object.keys(inputRequests);
    const read = await send(url, 'resources/read', {
      uri: 'test://a',
      requestState,
      inputResponses: { [key]: accept({ name: 'Ada' }) },
    });
    expect(read.response.result).toMatchObject({ ttlMs: 0, cacheScope: 'private' });
  });
});
