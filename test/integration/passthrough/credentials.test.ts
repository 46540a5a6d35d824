/** Who may have something passed through, and where the operator's own headers go. */
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { describe, expect, test } from 'vitest';
import { startGateway } from '../../../src/app/gateway.ts';
import {
  RecordedLog,
  startTestGateway,
  testConfig,
  type GatewayOverrides,
} from '../../fixtures/gateways/gateway.ts';
import { rawRequest, sendRaw } from '../../fixtures/clients/raw-http.ts';
import { INITIALIZE_RESULT } from '../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const OPERATOR = 'Bearer operator';
const METADATA = '/.well-known/oauth-protected-resource/mcp';
const NAMED = { identity: { source: 'header', header: 'x-user' } } as const;
const CREDENTIALS = {
  upstream: { authorization: 'strip', headers: { authorization: OPERATOR } },
} as const;

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
}

type Respond = (seen: Seen, body: string, response: ServerResponse) => void;

/** A server that notes what it gets; `about` are the requests of the test and not of the gateway itself. */
async function serverOf(respond: Respond) {
  const seen: Seen[] = [];
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray().catch(() => [])).toString();
    const { method = '', url = '', headers } = request;
    seen.push({ method, url, headers });
    respond({ method, url, headers }, body, response);
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stopAfterTest(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  const ofClient = () => seen.filter(({ headers }) => headers['x-from'] === 'client');
  return { origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, seen, ofClient };
}

/** What a server says to a message, if anything. */
function answerTo(body: string): object | null {
  const { id, method } = JSON.parse(body) as { id?: unknown; method: string };
  if (id === undefined) return null;
  if (method === 'initialize') return { jsonrpc: '2.0', id, result: INITIALIZE_RESULT };
  if (method === 'tools/list') return { jsonrpc: '2.0', id, result: { tools: [] } };
  return { jsonrpc: '2.0', id, error: { code: -32601, message: 'no' } };
}

/** Streamable HTTP at `/mcp`, and a page at every other path. */
const streamable: Respond = ({ method, url }, body, response) => {
  if (method !== 'POST' || !url.startsWith('/mcp')) return void response.end('a page');
  const answer = answerTo(body);
  if (answer === null) return void response.writeHead(202).end();
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
};

/** HTTP+SSE at every path `/…/sse`, and a page at every path that is not one of messages. */
function httpSse(): Respond {
  const streams = new Map<string, ServerResponse>();
  return ({ method, url }, body, response) => {
    if (method === 'GET' && url.endsWith('/sse')) {
      const endpoint = `${url.slice(0, -'sse'.length)}message?sessionId=${streams.size}`;
      streams.set(endpoint, response);
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.write(`event: endpoint\ndata: ${endpoint}\n\n`);
      return;
    }
    const stream = streams.get(url);
    if (method !== 'POST' || stream === undefined) {
      return void response.writeHead(url.endsWith('/sse') ? 405 : 200).end('a page');
    }
    response.writeHead(202).end();
    const answer = answerTo(body);
    if (answer !== null) stream.write(`event: message\ndata: ${JSON.stringify(answer)}\n\n`);
  };
}

async function gatewayTo(url: string, overrides: GatewayOverrides) {
  const gateway = await startTestGateway(url, overrides);
  stopAfterTest(() => gateway.close());
  const ask = (method: string, target: string, headers: Record<string, string> = {}) =>
    sendRaw(
      gateway.url,
      rawRequest(
        method,
        target,
        Object.entries({ host: 'localhost', 'x-from': 'client', ...headers }),
      ),
    );
  return { url: gateway.url, ask };
}

describe('where a proxy in front names the caller', () => {
  const start = async () => {
    const server = await serverOf(streamable);
    const gateway = await gatewayTo(`${server.origin}/mcp`, { ...NAMED, ...CREDENTIALS });
    return { server, ...gateway };
  };

  const AT_ENDPOINT = [
    ['GET', '/mcp'],
    ['DELETE', '/mcp'],
    ['PUT', '/mcp'],
    ['PATCH', '/mcp'],
    ['OPTIONS', '/mcp'],
    ['GET', '/%6dcp'],
  ] as const;
  const BESIDE = [
    ['GET', '/secret'],
    ['POST', '/admin/reset'],
    ['GET', '/'],
    ['GET', '/mcp/'],
    ['DELETE', '/MCP'],
    ['POST', METADATA],
    ['DELETE', METADATA],
    ['GET', '/.well-known'],
    ['GET', '/%2ewell-known/x'],
    ['GET', '/.well-known/%252e%252e/secret'],
    ['GET', '/.well-known/x;/secret'],
  ] as const;

  test.each([...AT_ENDPOINT, ...BESIDE])(
    '%s %s without an identity gets 401',
    async (method, target) => {
      const { server, ask } = await start();
      for (const headers of [{}, { 'x-user': '' }, { authorization: 'Bearer any' }]) {
        const answer = await ask(method, target, headers);
        expect(answer.status).toBe(401);
        expect(JSON.parse(answer.body)).toEqual({
          jsonrpc: '2.0',
          error: { code: -32600, message: expect.any(String), data: { mayHaveActed: 'no' } },
        });
      }
      expect(server.ofClient()).toEqual([]);
    },
  );

  test.each(['/.well-known/../secret', '/.well-known/%2e%2e/secret', '/.well-known/..%2fsecret'])(
    'GET %s gets 400, whoever sends it',
    async (target) => {
      const { server, ask } = await start();
      expect((await ask('GET', target)).status).toBe(400);
      expect(server.ofClient()).toEqual([]);
    },
  );

  test.each(AT_ENDPOINT)(
    '%s %s with an identity is passed through with the headers of the operator',
    async (...asked) => {
      const { server, ask } = await start();
      expect((await ask(...asked, { 'x-user': 'ada' })).status).toBe(200);
      const [passed] = server.ofClient();
      expect(passed).toMatchObject({ url: '/mcp', headers: { authorization: OPERATOR } });
    },
  );

  test.each(BESIDE)(
    '%s %s with an identity is passed through without the headers of the operator',
    async (...asked) => {
      const { server, ask } = await start();
      expect((await ask(...asked, { 'x-user': 'ada' })).status).toBe(200);
      const [passed] = server.ofClient();
      expect(passed).toMatchObject({ method: asked[0], url: asked[1] });
      expect(passed?.headers).not.toHaveProperty('authorization');
    },
  );

  test.each(['GET', 'OPTIONS'])('%s of metadata needs no identity', async (method) => {
    const { server, ask } = await start();
    expect((await ask(method, `${METADATA}?x=1`)).status).toBe(200);
    const [passed] = server.ofClient();
    expect(passed?.url).toBe(`${METADATA}?x=1`);
    expect(passed?.headers).not.toHaveProperty('authorization');
  });
});

describe('where nobody names the caller', () => {
  // Rule envelope-7.
  test('what the operator adds goes to the endpoint only', async () => {
    const server = await serverOf(streamable);
    const { ask } = await gatewayTo(`${server.origin}/mcp?key=operator`, {
      upstream: { headers: { 'x-api-key': 'operator', authorization: OPERATOR } },
    });
    const client = { authorization: 'Bearer client', 'x-api-key': 'client' };
    for (const target of ['/mcp?a=1', '/health?a=1', METADATA, '/mcp/']) {
      await ask('GET', target, client);
    }
    const told = server.ofClient().map(({ url, headers }) => ({
      url,
      key: headers['x-api-key'],
      authorization: headers.authorization,
    }));
    const own = { key: 'client', authorization: 'Bearer client' };
    expect(told).toEqual([
      { url: '/mcp?key=operator&a=1', key: 'operator', authorization: OPERATOR },
      { url: '/health?a=1', ...own },
      { url: METADATA, ...own },
      { url: '/mcp/', ...own },
    ]);
  });
});

describe('a server of HTTP+SSE', () => {
  /** Lets in who comes with all of these headers. */
  const guarded = (wanted: Record<string, string>): Respond => {
    const open = httpSse();
    return (seen, body, response) => {
      const known = Object.entries(wanted).every(([name, value]) => seen.headers[name] === value);
      if (known || seen.url.endsWith('/page')) open(seen, body, response);
      else response.writeHead(401).end();
    };
  };

  async function listedBy(url: string, headers: Record<string, string>): Promise<unknown> {
    const client = new Client({ name: 'legacy', version: '1.0.0' });
    stopAfterTest(() => client.close());
    const requestInit = { headers: { 'x-from': 'client', ...headers } };
    await client.connect(new SSEClientTransport(new URL(url), { requestInit }));
    return (await client.listTools()).tools;
  }

  test.each(['auto', 'http-sse'] as const)(
    'gets the operator’s headers where it wants messages posted as well, with transport %s',
    async (transport) => {
      const server = await serverOf(guarded({ authorization: OPERATOR }));
      const gateway = await gatewayTo(`${server.origin}/sse`, {
        ...NAMED,
        transport,
        upstream: CREDENTIALS.upstream,
      });
      expect(await listedBy(gateway.url, { 'x-user': 'ada' })).toEqual([]);
      const posted = server.ofClient().filter(({ method }) => method === 'POST');
      expect(posted.length).toBeGreaterThan(0);
      for (const { url, headers } of posted) {
        expect(url).toMatch(/^\/message\?sessionId=/);
        expect(headers.authorization).toBe(OPERATOR);
      }
    },
  );

  // Rule envelope-7.
  test('gets them nowhere else, and no messages without an identity', async () => {
    const server = await serverOf(guarded({ authorization: OPERATOR }));
    const { ask } = await gatewayTo(`${server.origin}/sse`, { ...NAMED, ...CREDENTIALS });
    expect((await ask('POST', '/message?sessionId=0')).status).toBe(401);
    expect(server.ofClient()).toEqual([]);
    const ada = { 'x-user': 'ada' };
    for (const [method, target] of [
      ['GET', '/message?sessionId=0'],
      ['POST', '/message/?sessionId=0'],
      ['POST', '/%6dessage?sessionId=0'],
      ['POST', '/sse'],
      ['POST', '/page'],
    ] as const) {
      await ask(method, target, ada);
      expect(server.ofClient().at(-1)).toMatchObject({ method, url: target });
      expect(server.ofClient().at(-1)?.headers).not.toHaveProperty('authorization');
    }
  });

  test('that wants the client’s credentials too gets both', async () => {
    const wanted = { 'x-api-key': 'operator', authorization: 'Bearer ada' };
    const server = await serverOf(guarded(wanted));
    const { url } = await gatewayTo(`${server.origin}/sse`, {
      transport: 'http-sse',
      upstream: { headers: { 'x-api-key': 'operator' } },
    });
    expect(await listedBy(url, { authorization: 'Bearer ada' })).toEqual([]);
    const posted = server.ofClient().filter(({ method }) => method === 'POST');
    expect(posted.map(({ headers }) => headers['x-api-key'])).toEqual(posted.map(() => 'operator'));
  });

  test('beside another one gets the headers of its own route', async () => {
    const server = await serverOf(httpSse());
    const config = testConfig(`${server.origin}/a/sse`, { transport: 'http-sse' });
    const routes = ['a', 'b'].flatMap((id) =>
      config.routes.map((route) => ({
        ...route,
        id,
        path: `/${id}`,
        upstream: {
          ...route.upstream,
          url: new URL(`/${id}/sse`, server.origin),
          headers: { 'x-api-key': id },
        },
      })),
    );
    const gateway = await startGateway({ ...config, routes }, { log: new RecordedLog() });
    stopAfterTest(() => gateway.close());
    for (const id of ['a', 'b']) {
      expect(await listedBy(new URL(`/${id}`, gateway.url).href, {})).toEqual([]);
    }
    const posted = server.ofClient().filter(({ method }) => method === 'POST');
    expect(
      new Set(posted.map(({ url, headers }) => `${url.slice(1, 2)} ${headers['x-api-key']}`)),
    ).toEqual(new Set(['a a', 'b b']));
  });

  describe('whose sessions have paths of their own', () => {
    /** Lets in who comes with the operator's key. `id` makes the path of each session. */
    const server = (id: (count: number) => string) => serverOf(keyed(id));
    const keyed = (id: (count: number) => string): Respond => {
      const streams = new Map<string, ServerResponse>();
      return ({ method, url, headers }, body, response) => {
        if (headers['x-api-key'] !== 'operator') return void response.writeHead(401).end();
        if (method === 'GET' && url === '/sse') {
          const endpoint = `/messages/${id(streams.size + 1)}`;
          streams.set(endpoint, response);
          response.writeHead(200, { 'content-type': 'text/event-stream' });
          return void response.write(`event: endpoint\ndata: ${endpoint}\n\n`);
        }
        const stream = streams.get(url);
        if (method !== 'POST' || stream === undefined) return void response.writeHead(405).end();
        response.writeHead(202).end();
        const answer = answerTo(body);
        if (answer !== null) stream.write(`event: message\ndata: ${JSON.stringify(answer)}\n\n`);
      };
    };
    const overrides = {
      transport: 'http-sse',
      upstream: { headers: { 'x-api-key': 'operator' } },
    } as const;
    /** The path that is told on a stream, which stays open until the test is over. */
    async function openedAt(url: string) {
      const leaving = new AbortController();
      stopAfterTest(async () => leaving.abort());
      const headers = { accept: 'text/event-stream' };
      const { body } = await fetch(url, { headers, signal: leaving.signal });
      const first = await body?.getReader().read();
      const path = /data: (\S+)/.exec(new TextDecoder().decode(first?.value))?.[1] ?? '';
      return { path, leave: () => leaving.abort() };
    }
    async function posted(path: string, gatewayUrl: string): Promise<number> {
      const { status } = await fetch(new URL(path, gatewayUrl), {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
      });
      return status;
    }
    const inWords = (count: number) => ['none', 'one', 'two', 'three'][count] ?? 'many';

    // Rule passthrough-10 (2024-11-05 transports, "HTTP with SSE"): An HTTP+SSE server's message paths are
    // that of the gateway's own session and those that it told legacy clients on streams which are open; what
    // is posted there goes with `upstream.headers`. So does a path that differs from the gateway's own in one
    // session id of the same form only, since its stream may run through another replica. The streams are
    // looked at up to their first event, and pass unchanged where nobody names the caller.
    test.each([
      ['numbers', String],
      ['words', inWords],
    ])('gets the operator’s headers for each session that is open: %s', async (_title, id) => {
      const { origin } = await server(id);
      const { url } = await gatewayTo(`${origin}/sse`, overrides);
      const sessions = [await openedAt(url), await openedAt(url)];
      expect(new Set(sessions.map(({ path }) => path)).size).toBe(2);
      for (const { path } of sessions) expect(await posted(path, url)).toBe(202);
      expect(await listedBy(url, {})).toEqual([]);
    });

    // Rule passthrough-10.
    test('gets them no longer when the stream of the session is over', async () => {
      const { origin } = await server(inWords);
      const { url } = await gatewayTo(`${origin}/sse`, overrides);
      const { path, leave } = await openedAt(url);
      expect(await posted(path, url)).toBe(202);
      leave();
      await expect.poll(() => posted(path, url)).toBe(401);
    });

    // Rule passthrough-10.
    test.each([
      ['numbers', String, 202],
      ['UUIDs', () => randomUUID(), 202],
      ['words', inWords, 401],
    ])(
      'gets them through a replica that has not seen the stream where ids can be told: %s',
      async (_title, id, status) => {
        const { origin } = await server(id);
        const one = await gatewayTo(`${origin}/sse`, overrides);
        const other = await gatewayTo(`${origin}/sse`, overrides);
        const { path } = await openedAt(one.url);
        expect(await posted(path, other.url)).toBe(status);
      },
    );

    // Rule passthrough-10.
    test('gets them on no other path', async () => {
      const { origin, ofClient } = await server(String);
      const { url, ask } = await gatewayTo(`${origin}/sse`, overrides);
      await openedAt(url);
      for (const [method, target] of [
        ['POST', '/messages/reset'],
        ['POST', '/messages/1/2'],
        ['POST', '/messages'],
        ['POST', '/admin/1'],
        ['GET', '/messages/1'],
        ['DELETE', '/messages/1'],
      ] as const) {
        expect((await ask(method, target)).status).toBe(401);
        expect(ofClient().at(-1)?.headers).not.toHaveProperty('x-api-key');
      }
    });
  });
});
