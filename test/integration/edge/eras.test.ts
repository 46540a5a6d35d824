/** Which requests the gateway answers itself, which it hands on, and which it refuses, over real sockets. */
import { once } from 'node:events';
import { Agent, request as httpRequest, type IncomingMessage } from 'node:http';
import { describe, expect, test } from 'vitest';
import { startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { advanceUntil, ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';
import { modernBody, modernHeaders, send } from '../../fixtures/clients/modern-client.ts';
import { json, ScriptedServer } from '../../fixtures/servers/scripted-server.ts';
import { callsOf, ground } from '../../fixtures/gateways/survival-testbed.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import {
  initialize,
  JSON_TYPES,
  LEGACY,
  passedTo,
  post,
  serverWith,
} from '../../fixtures/gateways/eras-testbed.ts';

describe('where legacy clients are passed through', () => {
  // Rules eras-2, eras-4, eras-10.
  test('one connection carries both protocol versions, and each request is judged by itself', async () => {
    const field = await ground();
    const agent = new Agent({ keepAlive: true, maxSockets: 1 });
    stopAfterTest(async () => agent.destroy());
    const exchange = async (body: object, headers: Record<string, string>) => {
      const request = httpRequest(field.url, { method: 'POST', agent, headers });
      request.end(JSON.stringify(body));
      const [response] = (await once(request, 'response')) as [IncomingMessage];
      const read = JSON.parse(Buffer.concat(await response.toArray()).toString());
      return { reused: request.reusedSocket, headers: response.headers, body: read };
    };
    const client = { ...JSON_TYPES, 'x-from': 'client' };
    const params = { name: 'echo', arguments: {} };

    const greeted = await exchange(initialize('a'), client);
    expect(greeted.body).toMatchObject({ id: 'a', result: { protocolVersion: LEGACY } });
    expect(greeted.headers['mcp-session-id']).toBe('session-1');

    const modern = await exchange(modernBody('tools/call', params, { id: 'b' }), {
      ...modernHeaders('tools/call', params),
      'mcp-session-id': 'session-1',
    });
    expect(modern.body).toMatchObject({ id: 'b', result: { resultType: 'complete' } });
    expect(modern.headers).not.toHaveProperty('mcp-session-id');

    const legacy = await exchange(
      { jsonrpc: '2.0', id: 'c', method: 'tools/call', params },
      { ...client, 'mcp-session-id': 'session-1', 'mcp-protocol-version': LEGACY },
    );
    expect(legacy.body).toMatchObject({ id: 'c' });
    expect(legacy.body.result).not.toHaveProperty('resultType');
    const passed = passedTo(field).at(-1);
    expect(passed?.headers).toMatchObject({
      'mcp-session-id': 'session-1',
      'mcp-protocol-version': LEGACY,
    });
    expect(passed?.body).toEqual({ jsonrpc: '2.0', id: 'c', method: 'tools/call', params });
    expect([greeted, modern, legacy].map(({ reused }) => reused)).toEqual([false, true, true]);
  });

  // Rule eras-8 (streamable-http, "Earlier Streamable HTTP Revisions"): Any method but POST and OPTIONS gets 405
  // under the modern version header, and always if legacy clients are rejected.
  test.each(['GET', 'DELETE', 'PUT'])(
    '%s under the modern version is not allowed, and says what is',
    async (method) => {
      const field = await ground();
      const headers = {
        'mcp-protocol-version': '2026-07-28',
        'mcp-session-id': 's',
        'x-from': 'client',
      };
      const answer = await fetch(field.url, { method, headers });
      expect(answer.status).toBe(405);
      expect(answer.headers.get('allow')).toBe('POST');
      expect(await answer.json()).toEqual({
        jsonrpc: '2.0',
        error: { code: -32600, message: expect.any(String), data: { mayHaveActed: 'no' } },
      });
      expect(passedTo(field)).toEqual([]);
    },
  );

  // Rule eras-8.
  test.each([{}, { 'mcp-protocol-version': LEGACY }])(
    'DELETE with %j is the server’s',
    async (headers) => {
      const field = await ground();
      const answer = await fetch(field.url, {
        method: 'DELETE',
        headers: { ...headers, 'mcp-session-id': 'session-1', 'x-from': 'client' },
      });
      expect(answer.status).toBe(200);
      expect(passedTo(field)).toMatchObject([
        { method: 'DELETE', headers: { 'mcp-session-id': 'session-1' } },
      ]);
    },
  );

  // Rules validation-9, discover-6, discover-1.
  test('the versions that are served are ours and the one of the server', async () => {
    const field = await ground();
    const { response } = await send(field.url, 'server/discover');
    expect(response.result).toMatchObject({
      supportedVersions: ['2026-07-28', LEGACY],
      ttlMs: 60_000,
      cacheScope: 'private',
    });
    const params = { name: 'echo', arguments: {} };
    const future = await post(
      field.url,
      modernBody('tools/call', params, {
        id: 1,
        meta: { 'io.modelcontextprotocol/protocolVersion': '2099-01-01' },
      }),
      { ...modernHeaders('tools/call', params), 'mcp-protocol-version': '2099-01-01' },
    );
    expect(future.body.error).toMatchObject({
      code: -32022,
      data: { supported: ['2026-07-28', LEGACY], requested: '2099-01-01' },
    });
  });
});

describe('a modern notification', () => {
  // Rule eras-11 (streamable-http, "Sending Messages" 5): A modern notification gets 202 and is dropped. A malformed
  // one gets 400 without an `id`.
  test.each(['notifications/cancelled', 'notifications/roots/list_changed', 'x/unknown'])(
    '%s gets 202 without a body, and goes nowhere',
    async (method) => {
      const field = await ground();
      const { id: _none, ...notification } = modernBody(method, { requestId: 1 });
      const headers = { 'mcp-protocol-version': '2026-07-28', 'x-from': 'client' };
      const answer = await post(field.url, notification, headers);
      expect([answer.status, answer.text]).toEqual([202, '']);
      expect(passedTo(field)).toEqual([]);
      expect(callsOf(field)).toBe(0);
    },
  );
});

describe('a method without its capability', () => {
  // Rule validation-15 (streamable-http, "Protocol Version Header"): A method whose capability the server did not
  // declare gets 404, -32601, if the server is known for this caller.
  test('does not exist once the server is known, and the server is not asked', async () => {
    const field = await ground();
    await send(field.url, 'server/discover');
    const { status, response } = await send(field.url, 'prompts/get', { name: 'p' }, { id: 7 });
    expect([status, response.id, response.error.code]).toEqual([404, 7, -32601]);
    expect(field.upstream.methods()).not.toContain('prompts/get');
  });
});

describe('while it is not known what the server speaks', () => {
  // Rule eras-12.
  test('a request waits three seconds at most, and goes on as to a legacy server', async () => {
    const silent = await ScriptedServer.start(({ body, path }, response) => {
      if (path === '/beside') response.end();
      if (body?.method === 'ping') json(response, 200, { jsonrpc: '2.0', id: body.id, result: {} });
    });
    stopAfterTest(() => silent.stop());
    const clock = new ManualClock();
    const asking = startTestGateway(silent.url, { clock });
    const gateway = await advanceUntil(clock, asking, 10_000);
    stopAfterTest(() => gateway.close());
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
    const waiting = clock.pending;
    const answer = post(gateway.url, ping);
    await turnsUntil(() => clock.pending > waiting);
    clock.advance(2_999);
    // What had been let through would have come before this.
    await fetch(new URL('/beside', gateway.url));
    expect(silent.methods()).toEqual(['initialize']);
    clock.advance(1);
    expect((await answer).body).toEqual({ jsonrpc: '2.0', id: 1, result: {} });
    expect(silent.methods()).toEqual(['initialize', 'ping']);
  });
});

describe('a server that is modern itself', () => {
  // Rule eras-12: A modern server gets every request of its route unchanged. While its version is unknown, a request
  // waits at most 3 s.
  // Rule detection-1.
  test('gets every request as it came, also those that we would refuse, and its responses stand', async () => {
    const { seen, url } = await serverWith(({ body }) =>
      body.includes('server/discover')
        ? { body: { jsonrpc: '2.0', id: 1, result: { supportedVersions: ['2026-07-28'] } } }
        : body.includes('initialize')
          ? {
              status: 400,
              body: { jsonrpc: '2.0', id: null, error: { code: -32022, message: 'm' } },
            }
          : { headers: { 'x-of': 'server' }, body: { jsonrpc: '2.0', id: 1, result: { a: 1 } } },
    );
    const gateway = await testGateway(url);
    const body = ' {"jsonrpc":"2.0","id":1,"method":"x/y",\n"a":1,"a":2}';
    const answer = await post(gateway.url, body, { 'mcp-method': 'something else' });
    expect(answer.text).toBe('{"jsonrpc":"2.0","id":1,"result":{"a":1}}');
    expect(answer.headers.get('x-of')).toBe('server');
    expect(seen.at(-1)).toMatchObject({ body, headers: { 'mcp-method': 'something else' } });
  });
});
