/** Which requests the gateway answers itself, which it hands on, and which it refuses, over real sockets. */
import { once } from 'node:events';
import {
  Agent,
  createServer,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
} from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { startGateway } from '../../../src/app/gateway.ts';
import {
  RecordedLog,
  startTestGateway,
  testConfig,
  type GatewayOverrides,
} from '../../fixtures/gateways/gateway.ts';
import { advanceUntil, ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';
import { callTool, modernBody, modernHeaders, send } from '../../fixtures/clients/modern-client.ts';
import { rawRequest, sendRaw, valuesOf } from '../../fixtures/clients/raw-http.ts';
import { json, ScriptedServer } from '../../fixtures/servers/scripted-server.ts';
import { callsOf, ground, type Ground } from '../../fixtures/gateways/survival-testbed.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const LEGACY = '2025-11-25';
const REJECT: GatewayOverrides = { edge: { legacyClients: 'reject' } };
const JSON_TYPES = {
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
};
const initialize = (id: string | number) => ({
  jsonrpc: '2.0',
  id,
  method: 'initialize',
  params: {
    protocolVersion: LEGACY,
    capabilities: {},
    clientInfo: { name: 'old', version: '1' },
  },
});

/** Sends whatever a test makes up, and gives back the status, the headers and the body as JSON. */
async function post(url: string, body: unknown, headers: Record<string, string> = {}) {
  const answer = await fetch(url, {
    method: 'POST',
    headers: { ...JSON_TYPES, ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await answer.text();
  return {
    status: answer.status,
    headers: answer.headers,
    text,
    body: text === '' ? null : JSON.parse(text),
  };
}

/** What reached the server of what the test sent, and not of what the gateway asks by itself. */
function passedTo({ upstream }: Ground) {
  return upstream.received.filter(({ headers }) => headers['x-from'] === 'client');
}

describe('where legacy clients are passed through', () => {
  // Rule eras-1 (basic/index, "Statelessness"; versioning, "Backward Compatibility with Initialization-Based
  // Versions"): The era is a property of the request, never of the connection: one connection may carry both.
  // Rules eras-4, eras-10.
  test('one connection carries both eras, and each request is judged by itself', async () => {
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

  // Rule eras-8 (streamable-http, "Earlier Streamable HTTP Revisions"): Any method but POST and OPTIONS on a
  // route's path gets 405 with `Allow: POST` when it comes under the modern version header, and always where
  // legacy clients are rejected. Otherwise it is passed on.
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

  // Rule validation-10 (versioning, "Protocol Version Negotiation"): `supported` names the same versions as
  // `server/discover`.
  // Rule discover-3 (caching, "Cacheable Results"): The result may be kept for 60 s, by this client only
  // (`ttlMs`, `cacheScope: "private"`).
  // Rule discover-1.
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

describe('where legacy clients are rejected', () => {
  const supported = ['2026-07-28'];
  const listTools = { jsonrpc: '2.0', id: 'x', method: 'tools/list' };
  // Rule eras-5 (streamable-http, "Protocol Version Header"; versioning, "Protocol Version Negotiation"):
  // With `edge.legacyClients: reject`, `initialize` and requests under a legacy version header get 400,
  // -32022, with `supported` and `requested`; a request without version header gets 400, -32020, with
  // `supported`. The request's `id` is repeated.
  // Rule eras-6.
  test.each<[string, unknown, Record<string, string>, object]>([
    [
      'initialize',
      initialize('x'),
      {},
      { id: 'x', error: { code: -32022, data: { supported, requested: LEGACY } } },
    ],
    [
      'a request in a session',
      listTools,
      { 'mcp-protocol-version': LEGACY, 'mcp-session-id': 'session-1' },
      { id: 'x', error: { code: -32022, data: { supported, requested: LEGACY } } },
    ],
    [
      'a request that names no version',
      listTools,
      {},
      { id: 'x', error: { code: -32020, data: { supported } } },
    ],
    [
      'a response',
      { jsonrpc: '2.0', id: 'x', result: {} },
      { 'mcp-protocol-version': LEGACY },
      { error: { code: -32600 } },
    ],
    ['a batch', [listTools], {}, { error: { code: -32600 } }],
  ])('%s gets 400 and an error that a modern client knows', async (_what, body, headers, error) => {
    const field = await ground(REJECT);
    const answer = await post(field.url, body, { ...headers, 'x-from': 'client' });
    expect(answer.status).toBe(400);
    expect(answer.body).toMatchObject(error);
    expect(passedTo(field)).toEqual([]);
    const served = await callTool(field.url, 'echo');
    expect(served.status, 'modern clients are served').toBe(200);
  });

  // Rule eras-6 (streamable-http, "Sending Messages" 4 and 5): With `edge.legacyClients: reject`, a legacy
  // notification is accepted (202) and dropped, and a response gets 400, -32600.
  test('a notification is accepted and dropped', async () => {
    const field = await ground(REJECT);
    const notification = { jsonrpc: '2.0', method: 'notifications/initialized' };
    const answer = await post(field.url, notification, { 'x-from': 'client' });
    expect([answer.status, answer.text]).toEqual([202, '']);
    expect(passedTo(field)).toEqual([]);
  });

  // Rule eras-8.
  test.each(['GET', 'DELETE'])('%s is not allowed', async (method) => {
    const field = await ground(REJECT);
    const headers = { 'mcp-protocol-version': LEGACY, 'mcp-session-id': 'session-1' };
    const answer = await fetch(field.url, { method, headers });
    expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'POST']);
  });

  // Rule discover-1 (versioning, "Backward Compatibility with Initialization-Based Versions";
  // server/discover, "DiscoverResult"): `supportedVersions` is `2026-07-28`, and, where legacy clients are
  // passed through, the revision that the server negotiated.
  test('server/discover names our version only', async () => {
    const field = await ground(REJECT);
    const { response } = await send(field.url, 'server/discover');
    expect(response.result.supportedVersions).toEqual(supported);
  });
});

// Rule eras-9: The path of a route counts in whatever way it is spelled (`/%6dcp`, with a query or a
// fragment); another case or an additional slash is another path.
describe.each(['/mcp', '/mcp?x=1', '/%6dcp', '/mc%70', '/%6D%63%70?x=1'])(
  'the path of a route, spelled %s,',
  (target) => {
    const page = 'https://app.example';
    const ask = ({ url }: Ground, method: string, headers: Record<string, string> = {}) =>
      sendRaw(
        url,
        rawRequest(
          method,
          target,
          Object.entries({ host: 'localhost', 'x-from': 'client', ...headers }),
        ),
      );

    test.each(['GET', 'DELETE', 'PUT', 'PATCH'])(
      'is closed to %s where legacy clients are rejected',
      async (method) => {
        const field = await ground(REJECT);
        const answer = await ask(field, method, { 'mcp-session-id': 'session-1' });
        expect([answer.status, valuesOf(answer, 'allow')]).toEqual([405, ['POST']]);
        expect(passedTo(field)).toEqual([]);
      },
    );

    test.each(['GET', 'DELETE'])('is closed to %s under the modern version', async (method) => {
      const field = await ground();
      const answer = await ask(field, method, { 'mcp-protocol-version': '2026-07-28' });
      expect([answer.status, valuesOf(answer, 'allow')]).toEqual([405, ['POST']]);
      expect(passedTo(field)).toEqual([]);
    });

    test('gets the response to its preflight here', async () => {
      const field = await ground({ edge: { allowedOrigins: [page] } });
      const answer = await ask(field, 'OPTIONS', {
        origin: page,
        'access-control-request-method': 'POST',
      });
      expect(answer.status).toBe(204);
      expect(valuesOf(answer, 'access-control-allow-origin')).toEqual([page]);
      expect(passedTo(field)).toEqual([]);
    });
  },
);

// Rule eras-9.
test.each(['/MCP', '/mcp/', '/mcp%2F', '/%256dcp'])(
  '%s is not the path of a route, and closed where legacy clients are rejected',
  async (target) => {
    const field = await ground(REJECT);
    const answer = await sendRaw(
      field.url,
      rawRequest('GET', target, Object.entries({ host: 'localhost', 'x-from': 'client' })),
    );
    expect(answer.status).toBe(404);
    expect(passedTo(field)).toEqual([]);
  },
);

describe('a modern notification', () => {
  // Rule eras-11 (streamable-http, "Sending Messages" 5): A modern notification, known or not, gets 202 without a
  // body and is dropped; a client cancels a call by closing its response. A malformed one gets 400 without an `id`.
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
  // Rule validation-15 (streamable-http, "Protocol Version Header"): A method whose capability the server did
  // not declare is 404, -32601, without asking it, once the gateway knows the server for this caller; before
  // that the server is asked.
  // Rule methods-3.
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

interface Seen {
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

/** A server that answers each request with this JSON, and what it saw. */
async function serverWith(
  answer: (seen: Seen) => { status?: number; headers?: object; body: object },
) {
  const seen: Seen[] = [];
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray()).toString();
    const { url = '', headers } = request;
    const one = { url, headers, body };
    seen.push(one);
    const { status = 200, headers: more = {}, body: answered } = answer(one);
    response.writeHead(status, { 'content-type': 'application/json', ...more });
    response.end(JSON.stringify(answered));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stopAfterTest(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { seen, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp` };
}

describe('a server that is modern itself', () => {
  // Rule eras-12: A server that is modern itself gets every request of its route as it came, without any of
  // the checks below. While it is not known what a server speaks, a request waits for that, for 3 s at most,
  // and is then treated as one for a legacy server.
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
    const gateway = await startTestGateway(url);
    stopAfterTest(() => gateway.close());
    const body = ' {"jsonrpc":"2.0","id":1,"method":"x/y",\n"a":1,"a":2}';
    const answer = await post(gateway.url, body, { 'mcp-method': 'something else' });
    expect(answer.text).toBe('{"jsonrpc":"2.0","id":1,"result":{"a":1}}');
    expect(answer.headers.get('x-of')).toBe('server');
    expect(seen.at(-1)).toMatchObject({ body, headers: { 'mcp-method': 'something else' } });
  });
});

describe('a path beside those of the routes', () => {
  const METADATA = '/.well-known/oauth-protected-resource/mcp';
  const metadata = () =>
    serverWith(({ url }) => ({
      headers: { 'x-of': 'server' },
      body: { resource: 'https://mcp.example/mcp', asked: url },
    }));

  // Rule passthrough-4 (authorization server discovery, "Protected Resource Metadata Discovery
  // Requirements"): With all routes on one server, every path beside the routes is its own, such as
  // `/.well-known/oauth-protected-resource` and other OAuth metadata, passed under the same name and with its
  // content unchanged: the server has to know its public URL. The operator's headers do not go there.
  // `edge.legacyClients: reject` closes these paths (404), apart from `/.well-known/`. With several servers
  // they are closed (404), as nobody could say whose they are.
  test('is the server’s own, such as its OAuth metadata, which we do not touch', async () => {
    const server = await metadata();
    const gateway = await startTestGateway(server.url);
    stopAfterTest(() => gateway.close());
    for (const path of [METADATA, '/health?deep=1']) {
      const answer = await fetch(new URL(path, gateway.url));
      expect(answer.headers.get('x-of')).toBe('server');
      expect(await answer.json()).toEqual({ resource: 'https://mcp.example/mcp', asked: path });
    }
  });

  // Rule passthrough-4.
  test('is closed where legacy clients are rejected, but for what tells how to authorize', async () => {
    const server = await metadata();
    const gateway = await startTestGateway(server.url, REJECT);
    stopAfterTest(() => gateway.close());
    const found = await fetch(new URL(METADATA, gateway.url));
    expect(await found.json()).toMatchObject({ asked: METADATA });
    const other = await fetch(new URL('/health', gateway.url));
    expect(other.status).toBe(404);
    expect(await other.json()).toMatchObject({ jsonrpc: '2.0', error: { code: -32600 } });
    expect(server.seen.map(({ url }) => url)).not.toContain('/health');
  });

  // Rule passthrough-4.
  test('is not served where there are several servers', async () => {
    const [one, other] = [await metadata(), await metadata()];
    const config = testConfig(one.url);
    const [first] = config.routes;
    if (first === undefined) throw new Error('no route');
    const upstream = { ...first.upstream, url: new URL(other.url) };
    const second = { ...first, id: 'other', path: '/other', upstream };
    const gateway = await startGateway(
      { ...config, routes: [first, second] },
      { log: new RecordedLog() },
    );
    stopAfterTest(() => gateway.close());
    for (const path of [METADATA, '/health']) {
      const answer = await fetch(new URL(path, gateway.url));
      expect(answer.status).toBe(404);
      expect(await answer.json()).toMatchObject({ jsonrpc: '2.0', error: { code: -32600 } });
    }
    const asked = new Set([...one.seen, ...other.seen].map(({ url }) => url));
    expect([...asked], 'what the gateway asks by itself').toEqual(['/mcp']);
  });
});
