/** Sessions of legacy clients behind a proxy that names the caller: each belongs to whoever opened it. */
import { randomUUID } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import { describe, expect, test } from 'vitest';
import type { GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const KEY = { kid: 'one', key: Buffer.alloc(32, 7).toString('base64url') };
const NEWER = { kid: 'two', key: Buffer.alloc(32, 8).toString('base64url') };
const NAMED: GatewayOverrides = {
  identity: { source: 'header', header: 'x-user' },
  seal: { keys: [KEY], audience: 'test' },
};
const SESSION = 'mcp-session-id';

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
}

/** A legacy server of both transports, at `/mcp` and at `/sse`, that gives the ids it is told to. */
async function legacyServer(newId: () => string = randomUUID) {
  const seen: Seen[] = [];
  const known = new Set<string>();
  /** Of sessions that clients opened. */
  const ids: string[] = [];
  const streams = new Map<string, ServerResponse>();
  const answerTo = (body: string): object | null => {
    const { id, method } = JSON.parse(body) as { id?: unknown; method?: string };
    if (id === undefined || method === undefined) return null;
    const serverInfo = { name: 'legacy', version: '1' };
    const initialized = { protocolVersion: '2025-06-18', capabilities: { tools: {} }, serverInfo };
    return { jsonrpc: '2.0', id, result: method === 'initialize' ? initialized : { tools: [] } };
  };
  const server = createServer((request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const { method = '', url = '', headers } = request;
      const body = Buffer.concat(chunks).toString();
      if (headers['x-user'] !== undefined) seen.push({ method, url, headers });
      const json = { 'content-type': 'application/json' };
      const given = headers[SESSION];
      const open = () => {
        const id = newId();
        known.add(id);
        if (headers['x-user'] !== undefined) ids.push(id);
        return id;
      };
      if (url.startsWith('/sse') && method === 'GET') {
        const endpoint = `/messages/?session_id=${open()}`;
        streams.set(endpoint, response);
        response.writeHead(200, { 'content-type': 'text/event-stream' });
        response.write(`: hello\n\nid: 1\nevent: endpoint\ndata: ${endpoint}\n\n`);
      } else if (url.startsWith('/messages/')) {
        const stream = streams.get(url);
        if (stream === undefined) return void response.writeHead(404).end();
        response.writeHead(202).end();
        const answer = answerTo(body);
        if (answer !== null) stream.write(`event: message\ndata: ${JSON.stringify(answer)}\n\n`);
      } else if (!url.startsWith('/mcp')) {
        response.writeHead(405).end();
      } else if (method === 'POST' && given === undefined) {
        response.writeHead(200, { ...json, [SESSION]: open() }).end(JSON.stringify(answerTo(body)));
      } else if (typeof given !== 'string' || !known.has(given)) {
        response.writeHead(404).end();
      } else if (method === 'GET') {
        response.writeHead(200, { 'content-type': 'text/event-stream', [SESSION]: given });
        response.write('event: message\ndata: {"jsonrpc":"2.0","method":"notifications/a"}\n\n');
      } else if (method === 'DELETE') {
        response.writeHead(204).end();
      } else {
        const answer = answerTo(body);
        if (answer === null) return void response.writeHead(202, { [SESSION]: given }).end();
        response.writeHead(200, { ...json, [SESSION]: given }).end(JSON.stringify(answer));
      }
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  stopAfterTest(async () => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  return { origin: `http://127.0.0.1:${port}`, seen, ids };
}

async function gatewayTo(url: string, overrides: GatewayOverrides = NAMED): Promise<string> {
  const gateway = await testGateway(url, { transport: 'streamable-http', ...overrides });
  return gateway.url;
}

const INITIALIZE = {
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: {
    protocolVersion: '2025-06-18',
    capabilities: {},
    clientInfo: { name: 'legacy', version: '1' },
  },
};
const LIST = { jsonrpc: '2.0', id: 2, method: 'tools/list' };

function ask(
  url: string,
  user: string,
  method: 'POST' | 'GET' | 'DELETE',
  { session, body, headers = {} }: { session?: string; body?: object; headers?: object } = {},
): Promise<Response> {
  return fetch(url, {
    method,
    headers: {
      'x-user': user,
      accept: 'application/json, text/event-stream',
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...(session === undefined ? {} : { [SESSION]: session }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  });
}

async function opened(url: string, user = 'alice'): Promise<string> {
  const answer = await ask(url, user, 'POST', { body: INITIALIZE });
  return answer.headers.get(SESSION) ?? '';
}

/** The first events of a stream, up to one that names its endpoint. */
async function endpointOf(response: Response): Promise<string> {
  let text = '';
  for await (const chunk of response.body ?? []) {
    text += Buffer.from(chunk as Uint8Array).toString();
    const found = /^event: endpoint\ndata: (.*)\n\n/m.exec(text);
    if (found !== null) return found[1] ?? '';
  }
  throw new Error(`no endpoint in ${text}`);
}

describe('a session over Streamable HTTP', () => {
  const start = async (overrides?: GatewayOverrides) => {
    const server = await legacyServer();
    return { server, url: await gatewayTo(`${server.origin}/mcp`, overrides) };
  };

  // Rule passthrough-11 (2025-11-25 transports, "Session Management"): With `identity.source: header` or `jwt`,
  // `Mcp-Session-Id` is sealed for its principal. Any other id gets 404.
  test('is known to its client under another id, in short printable ASCII, and to the server under its own', async () => {
    const { server, url } = await start();
    const session = await opened(url);
    const [own = ''] = server.ids;
    expect(session).not.toContain(own);
    expect(session).toMatch(/^[\x21-\x7e]{40,120}$/);
    const listed = await ask(url, 'alice', 'POST', { session, body: LIST });
    expect(await listed.json()).toMatchObject({ result: { tools: [] } });
    expect(listed.headers.get(SESSION)).toBe(session);
    const stream = await ask(url, 'alice', 'GET', { session });
    expect(stream.headers.get(SESSION)).toBe(session);
    await stream.body?.cancel();
    expect((await ask(url, 'alice', 'DELETE', { session })).status).toBe(204);
    const later = server.seen.slice(1);
    expect(later.map(({ method }) => method)).toEqual(['POST', 'GET', 'DELETE']);
    for (const { headers } of later) expect(headers[SESSION]).toBe(own);
  });

  // Rule passthrough-11.
  test.each([
    ['POST', { body: LIST }],
    ['GET', {}],
    ['DELETE', {}],
  ] as const)(
    'is nobody else’s: a %s of bob is 404, and the server never hears of it',
    async (method, more) => {
      const { server, url } = await start();
      const session = await opened(url);
      const before = server.seen.length;
      const [own = ''] = server.ids;
      for (const stolen of [session, own, `${session}x`, `${session}, ${session}`, 'x', 'one.']) {
        const answer = await ask(url, 'bob', method, { ...more, session: stolen });
        expect(answer.status).toBe(404);
        expect(await answer.json()).toMatchObject({ error: { message: 'Session not found' } });
      }
      expect(server.seen).toHaveLength(before);
    },
  );

  // Rule passthrough-11.
  test('is not reached by the id of the server, in no spelling of the header, and on no other path', async () => {
    const { server, url } = await start();
    await opened(url);
    const before = server.seen.length;
    const [own = ''] = server.ids;
    for (const headers of [
      { [SESSION]: own },
      { mcp_session_id: own },
      { 'mcp-session_id': own },
    ]) {
      expect((await ask(url, 'alice', 'POST', { body: LIST, headers })).status).toBe(404);
      const beside = url.replace(/\/mcp$/, '/mcp/');
      expect((await ask(beside, 'alice', 'POST', { body: LIST, headers })).status).toBe(404);
    }
    expect(server.seen).toHaveLength(before);
  });

  // Rule passthrough-12: A sealed id opens on every replica while its key is listed. A session id of more than 4096
  // characters gets 502.
  test('is known to every replica with the key, under a key that was retired to the second place, and after a restart', async () => {
    const { server, url } = await start();
    const session = await opened(url);
    const seal = { keys: [NEWER, KEY], audience: 'test' };
    const other = await gatewayTo(`${server.origin}/mcp`, { ...NAMED, seal });
    const listed = await ask(other, 'alice', 'POST', { session, body: LIST });
    expect(listed.status).toBe(200);
    expect(listed.headers.get(SESSION)).toBe(session);
    const without = { ...NAMED, seal: { keys: [NEWER], audience: 'test' } };
    const third = await gatewayTo(`${server.origin}/mcp`, without);
    expect((await ask(third, 'alice', 'POST', { session, body: LIST })).status).toBe(404);
    const fleet = { ...NAMED, seal: { keys: [KEY], audience: 'other' } };
    const foreign = await gatewayTo(`${server.origin}/mcp`, fleet);
    expect((await ask(foreign, 'alice', 'POST', { session, body: LIST })).status).toBe(404);
  });

  // Rule passthrough-11.
  test('has the id of the server where nobody names the caller', async () => {
    const { server, url } = await start({ seal: { keys: [KEY], audience: 'test' } });
    expect(await opened(url)).toBe(server.ids[0]);
  });

  // Rule passthrough-12.
  test('with an id that no header could carry once sealed is not begun: 502', async () => {
    const server = await legacyServer(() => 'x'.repeat(5000));
    const url = await gatewayTo(`${server.origin}/mcp`);
    const answer = await ask(url, 'alice', 'POST', { body: INITIALIZE });
    expect(answer.status).toBe(502);
    expect(answer.headers.get(SESSION)).toBeNull();
  });

  test('serves the official client as ever', async () => {
    const { url } = await start();
    const client = new Client({ name: 'legacy', version: '1' });
    stopAfterTest(() => client.close());
    const requestInit = { headers: { 'x-user': 'alice' } };
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit });
    await client.connect(transport as Transport);
    expect((await client.listTools()).tools).toEqual([]);
    await transport.terminateSession();
  });
});

describe('a session over HTTP+SSE', () => {
  const start = async (path: '/sse' | '/mcp', overrides: GatewayOverrides = NAMED) => {
    const server = await legacyServer();
    const transport = path === '/sse' ? 'http-sse' : 'streamable-http';
    const url = await gatewayTo(`${server.origin}${path}`, { transport, ...overrides });
    // Beside the route there is the server's own path.
    return { server, url: path === '/sse' ? url : url.replace(/\/mcp$/, '/sse') };
  };

  // Rule passthrough-13 (2024-11-05 transports, "HTTP with SSE"): Over HTTP+SSE, the `endpoint` event names a sealed
  // path. A message of another caller to it gets 404.
  test.each([
    ['of the route', '/sse'],
    ['beside the route', '/mcp'],
  ] as const)(
    'is posted to under another URL, by its own client alone: on the path %s',
    async (_title, path) => {
      const { server, url } = await start(path);
      const stream = await ask(url, 'alice', 'GET');
      const endpoint = new URL(await endpointOf(stream), url);
      const [own = ''] = server.ids.slice(-1);
      expect(endpoint.href).not.toContain(own);
      expect(endpoint.pathname).toBe(new URL(url).pathname);
      const before = server.seen.length;
      const stolen = await ask(endpoint.href, 'bob', 'POST', { body: LIST });
      expect(stolen.status).toBe(404);
      const twice = `${endpoint.href}&${endpoint.search.slice(1)}`;
      expect((await ask(twice, 'alice', 'POST', { body: LIST })).status).toBe(404);
      expect((await ask(endpoint.href, 'alice', 'GET')).status).toBe(404);
      expect(server.seen).toHaveLength(before);
      expect((await ask(endpoint.href, 'alice', 'POST', { body: LIST })).status).toBe(202);
      expect(server.seen.at(-1)).toMatchObject({ url: `/messages/?session_id=${own}` });
    },
  );

  // Rule passthrough-13.
  test('is opened by another replica', async () => {
    const { server, url } = await start('/sse');
    const stream = await ask(url, 'alice', 'GET');
    const { search } = new URL(await endpointOf(stream), url);
    const other = await gatewayTo(`${server.origin}/sse`, { ...NAMED, transport: 'http-sse' });
    expect((await ask(`${other}${search}`, 'alice', 'POST', { body: LIST })).status).toBe(202);
    expect((await ask(`${other}${search}`, 'bob', 'POST', { body: LIST })).status).toBe(404);
  });

  // Rule passthrough-13.
  test('takes no message under the URL of the server', async () => {
    const { server, url } = await start('/sse');
    const stream = await ask(url, 'alice', 'GET');
    await endpointOf(stream);
    const before = server.seen.length;
    const own = new URL(`/messages/?session_id=${server.ids.at(-1)}`, url).href;
    for (const user of ['alice', 'bob']) {
      expect((await ask(own, user, 'POST', { body: LIST })).status).toBe(404);
    }
    expect(server.seen).toHaveLength(before);
  });

  test('serves the official client as ever', async () => {
    const { url } = await start('/sse');
    const client = new Client({ name: 'legacy', version: '1' });
    stopAfterTest(() => client.close());
    const requestInit = { headers: { 'x-user': 'alice' } };
    await client.connect(new SSEClientTransport(new URL(url), { requestInit }));
    expect((await client.listTools()).tools).toEqual([]);
  });

  test('has the URL of the server where nobody names the caller', async () => {
    const { server, url } = await start('/sse', { seal: { keys: [KEY], audience: 'test' } });
    const stream = await ask(url, 'alice', 'GET');
    expect(await endpointOf(stream)).toBe(`/messages/?session_id=${server.ids.at(-1)}`);
  });
});
