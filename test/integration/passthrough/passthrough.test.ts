/** The pass-through on the wire: what it must not touch, what it must, and how it fails. */
import { once } from 'node:events';
import {
  createServer,
  request as httpRequest,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type OutgoingHttpHeaders,
  type ServerResponse,
} from 'node:http';
import {
  connect,
  createServer as createTcpServer,
  type AddressInfo,
  type Server,
  type Socket,
} from 'node:net';
import { gzipSync } from 'node:zlib';
import fastify, { type FastifyInstance } from 'fastify';
import { describe, expect, test, vi } from 'vitest';
import { OpenResponses } from '../../../src/lib/http.ts';
import type { PassThroughFailure, PassThroughOptions } from '../../../src/passthrough/options.ts';
import { registerPassThrough } from '../../../src/passthrough/passthrough.ts';
import { freePort } from '../../fixtures/processes.ts';
import { PASS_THROUGH_OPTIONS } from '../../fixtures/pass-through-options.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
}

/** An upstream that notes what it gets, body included, and answers as the test says. */
async function upstreamOf(
  answer: (response: ServerResponse, request: IncomingMessage) => void = (response) =>
    response.end('ok'),
) {
  const seen: Seen[] = [];
  const server = createServer(async (request, response) => {
    const body = Buffer.concat(await request.toArray().catch(() => []));
    if (!request.complete) return;
    const { method = '', url = '', headers } = request;
    seen.push({ method, url, headers, body });
    answer(response, request);
  });
  await listen(server);
  stopAfterTest(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { seen, server, url: `http://127.0.0.1:${portOf(server)}/mcp` };
}

/** An upstream that answers each connection's first bytes with exactly these. */
async function rawUpstream(bytes: string | Buffer): Promise<string> {
  const server = createTcpServer((socket) => {
    socket.on('error', () => {});
    socket.once('data', () => socket.end(bytes));
  });
  await listen(server);
  stopAfterTest(() => new Promise((resolve) => server.close(resolve)));
  return `http://127.0.0.1:${portOf(server)}/mcp`;
}

async function listen(server: Server): Promise<void> {
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
}

function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

interface GatewaySetup extends Partial<PassThroughOptions> {
  readonly trustProxy?: boolean;
  readonly prepare?: (app: FastifyInstance) => void;
}

/** The pass-through behind an app that reads POSTs to `/mcp` into a buffer, as the edge does. */
async function gatewayTo(upstream: string, setup: GatewaySetup = {}) {
  const { trustProxy = false, prepare, ...options } = setup;
  const failures: PassThroughFailure[] = [];
  const app = fastify({ trustProxy, forceCloseConnections: true });
  prepare?.(app);
  const passThrough = await registerPassThrough(app, {
    ...PASS_THROUGH_OPTIONS,
    upstream: new URL(upstream),
    others: ['/*'],
    onFailure: (failure) => failures.push(failure),
    ...options,
  });
  await app.register(async (edge) => {
    edge.removeAllContentTypeParsers();
    edge.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) =>
      done(null, body),
    );
    edge.post('/mcp', (request, reply) => passThrough(request, reply));
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  stopAfterTest(() => app.close());
  return { app, port: portOf(app.server), failures };
}

interface Sent {
  readonly method?: string;
  readonly path?: string;
  readonly headers?: OutgoingHttpHeaders;
  readonly body?: string | Buffer | readonly Buffer[];
}

/** Sends a request and gives back the head of its answer, with the body still to come. */
async function open(port: number, sent: Sent = {}): Promise<IncomingMessage> {
  const { method = 'GET', path = '/mcp', headers = {}, body } = sent;
  const request = httpRequest({ host: '127.0.0.1', port, method, path, headers, agent: false });
  const head = once(request, 'response');
  if (Array.isArray(body)) for (const chunk of body) request.write(chunk);
  request.end(typeof body === 'string' || body instanceof Buffer ? body : undefined);
  const [response] = (await head) as [IncomingMessage];
  return response;
}

async function send(port: number, sent: Sent = {}) {
  const response = await open(port, sent);
  const body = Buffer.concat(await response.toArray());
  const { statusCode: status, headers } = response;
  return { status, headers, body, text: body.toString('utf8') };
}

/** Writes bytes on a connection and gives back what came until it was closed. */
async function sendRaw(port: number, bytes: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  socket.write(bytes);
  return Buffer.concat(await socket.toArray()).toString('latin1');
}

function rawRequest(method: string, target: string): string {
  return `${method} ${target} HTTP/1.1\r\nHost: gateway.test\r\nConnection: close\r\n\r\n`;
}

function jsonRpcError(code: number) {
  const data = { mayHaveActed: expect.stringMatching(/^(?:no|unknown)$/) };
  return { jsonrpc: '2.0', error: { code, message: expect.any(String), data } };
}

// Rule passthrough-1 (versioning, "Backward Compatibility with Initialization-Based Versions"): Bodies,
// queries, paths, methods, statuses, redirects, compression and event streams pass byte by byte; nothing is
// parsed, retried or followed. The public path stands for the path of `upstream.url`, whose own query comes
// first.
describe('what passes untouched', () => {
  // Rule passthrough-1.
  test('the bytes of a body that was read, however odd their JSON', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url);
    const body = ' {"b" :1,\t"a":"\\u00e9 é \u2028", "n":1.0e+2, "b":2}\r\n';
    const headers = { 'content-type': 'Application/JSON;charset="utf-8"' };
    await send(port, { method: 'POST', headers, body });
    expect(upstream.seen[0]?.body.toString('utf8')).toBe(body);
    expect(upstream.seen[0]?.headers['content-type']).toBe(headers['content-type']);
    expect(upstream.seen[0]?.headers['content-length']).toBe(String(Buffer.byteLength(body)));
  });

  test.each([
    ['application/json', '{"half": '],
    ['application/octet-stream', Buffer.from(Array.from({ length: 256 }, (_, byte) => byte))],
    ['text/event-stream', ''],
  ])('the bytes of a streamed body of type %s', async (type, body) => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url);
    const answer = await send(port, {
      method: 'POST',
      path: '/message',
      headers: { 'content-type': type },
      body,
    });
    expect(answer.status).toBe(200);
    expect(upstream.seen[0]?.body).toEqual(Buffer.from(body));
    expect(upstream.seen[0]?.headers['content-type']).toBe(type);
  });

  test('a chunked body in many pieces', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url);
    const pieces = Array.from({ length: 40 }, (_, index) => Buffer.alloc(10_000, index));
    await send(port, { method: 'PUT', path: '/files', body: pieces });
    expect(upstream.seen[0]?.body.equals(Buffer.concat(pieces))).toBe(true);
  });

  test.each(['/mcp', '/message'])('a body without a content type, sent to %s', async (path) => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url);
    await send(port, { method: 'POST', path, body: 'plain' });
    expect(upstream.seen[0]?.body.toString()).toBe('plain');
    expect(upstream.seen[0]?.headers).not.toHaveProperty('content-type');
  });

  test('a POST without a body', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url);
    expect((await send(port, { method: 'POST' })).status).toBe(200);
    expect((await send(port, { method: 'POST', path: '/other' })).status).toBe(200);
    expect(upstream.seen.map(({ body }) => body.length)).toEqual([0, 0]);
  });

  test.each(['GET', 'HEAD', 'DELETE', 'PUT', 'PATCH', 'OPTIONS'])(
    'the method %s',
    async (method) => {
      const upstream = await upstreamOf();
      const { port } = await gatewayTo(upstream.url);
      await send(port, { method });
      await send(port, { method, path: '/other' });
      expect(upstream.seen.map((seen) => `${seen.method} ${seen.url}`)).toEqual([
        `${method} /mcp`,
        `${method} /other`,
      ]);
    },
  );

  test('paths and queries, character by character', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url);
    const targets = [
      "/mcp?a=%20b&&c=+;d='x'&a=%c3%a9&e==?",
      '/message?sessionId=1%2F2&x=[1]',
      '/.well-known/oauth-protected-resource/mcp',
      "/a%2Fb/%E2%82%AC/~x;y=1,2/!$&'()*+@:/a..",
      '/',
    ];
    for (const path of targets) await send(port, { path });
    expect(upstream.seen.map(({ url }) => url)).toEqual(targets);
  });

  // Rule passthrough-1.
  test('the public path stands for the upstream path, whose own query stays in front', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(`${new URL(upstream.url).origin}/v1/rpc?tenant=a%20b`);
    await send(port, { path: '/mcp' });
    await send(port, { path: '/mcp?x=1', method: 'POST', body: '{}' });
    expect(upstream.seen.map(({ url }) => url)).toEqual([
      '/v1/rpc?tenant=a%20b',
      '/v1/rpc?tenant=a%20b&x=1',
    ]);
  });

  // Rule passthrough-7: Cookies, `Authorization`, `Mcp-*` and unknown headers pass; on the endpoint
  // `upstream.headers` win over the client's, also when it spells them with underscores, and
  // `upstream.authorization: strip` holds here as well.
  test('the headers of MCP and of authorization, and those nobody knows', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url);
    const headers = {
      accept: 'application/json, text/event-stream',
      authorization: 'Bearer abc',
      cookie: 'a=1; b=2',
      'last-event-id': 'stream-1_42',
      'mcp-protocol-version': '2025-06-18',
      'mcp-session-id': '5c0ffee',
      'x-unheard-of': 'caf\u00e9',
    };
    await send(port, { headers });
    expect(upstream.seen[0]?.headers).toMatchObject(headers);
  });

  // Rule passthrough-5.
  test('status, headers and body of the response', async () => {
    const upstream = await upstreamOf((response) => {
      response.writeHead(418, {
        'content-type': 'text/plain; charset=latin1',
        'mcp-session-id': '5c0ffee',
        'set-cookie': ['a=1', 'b=2; Path=/'],
        'x-motto': 'caf\u00e9',
      });
      response.end(Buffer.from([0, 255, 10]));
    });
    const { port } = await gatewayTo(upstream.url);
    const answer = await send(port);
    expect(answer.status).toBe(418);
    expect(answer.body).toEqual(Buffer.from([0, 255, 10]));
    expect(answer.headers).toMatchObject({
      'content-type': 'text/plain; charset=latin1',
      'mcp-session-id': '5c0ffee',
      'set-cookie': ['a=1', 'b=2; Path=/'],
      'x-motto': 'caf\u00e9',
    });
  });

  test('a compressed response stays compressed, and the wish for it passes', async () => {
    const packed = gzipSync('a text that is long enough '.repeat(50));
    const upstream = await upstreamOf((response) => {
      response.writeHead(200, { 'content-encoding': 'gzip', 'content-length': packed.length });
      response.end(packed);
    });
    const { port } = await gatewayTo(upstream.url);
    const answer = await send(port, { headers: { 'accept-encoding': 'gzip, br' } });
    expect(answer.body.equals(packed)).toBe(true);
    expect(answer.headers['content-encoding']).toBe('gzip');
    expect(answer.headers['content-length']).toBe(String(packed.length));
    expect(upstream.seen[0]?.headers['accept-encoding']).toBe('gzip, br');
  });

  // Rule passthrough-1.
  test('a redirect is passed on and not followed', async () => {
    const upstream = await upstreamOf((response) =>
      response.writeHead(307, { location: 'http://elsewhere.test/login?next=%2F' }).end(),
    );
    const { port } = await gatewayTo(upstream.url);
    const answer = await send(port, { method: 'POST', body: '{}' });
    expect(answer.status).toBe(307);
    expect(answer.headers.location).toBe('http://elsewhere.test/login?next=%2F');
    expect(upstream.seen).toHaveLength(1);
  });

  test.each([204, 304])('a response with status %i, which has no body', async (status) => {
    const upstream = await upstreamOf((response) =>
      response.writeHead(status, { etag: '"1"' }).end(),
    );
    const { port } = await gatewayTo(upstream.url);
    const answer = await send(port);
    expect(answer.status).toBe(status);
    expect(answer.headers.etag).toBe('"1"');
    expect(answer.text).toBe('');
  });

  // Rule passthrough-1.
  test('a 503 is told to the client and not tried again', async () => {
    const upstream = await upstreamOf((response) =>
      response.writeHead(503, { 'retry-after': '1' }).end('later'),
    );
    const { port } = await gatewayTo(upstream.url);
    const answer = await send(port);
    expect([answer.status, answer.text, answer.headers['retry-after']]).toEqual([
      503,
      'later',
      '1',
    ]);
    expect(upstream.seen).toHaveLength(1);
  });

  test('two upstreams behind one app, each in a scope of its own', async () => {
    const [one, other] = [await upstreamOf(), await upstreamOf()];
    const app = fastify({ forceCloseConnections: true });
    for (const [path, { url }] of [['/one', one] as const, ['/other', other] as const]) {
      await app.register(async (scope) => {
        await registerPassThrough(scope, { ...PASS_THROUGH_OPTIONS, upstream: new URL(url), path });
      });
    }
    await app.listen({ host: '127.0.0.1', port: 0 });
    stopAfterTest(() => app.close());
    await send(portOf(app.server), { path: '/one?1' });
    await send(portOf(app.server), { path: '/other?2' });
    expect(one.seen.map(({ url }) => url)).toEqual(['/mcp?1']);
    expect(other.seen.map(({ url }) => url)).toEqual(['/mcp?2']);
  });

  test('other paths are not served where only the MCP endpoint is passed on', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url, { others: [] });
    expect((await send(port, { path: '/admin' })).status).toBe(404);
    expect((await send(port)).status).toBe(200);
    expect(upstream.seen.map(({ url }) => url)).toEqual(['/mcp']);
  });
});

describe('what a proxy must change', () => {
  // Rule passthrough-6: `Host` names the server. `X-Forwarded-For`, `-Host` and `-Proto` are set by the gateway; what
  // the client sends in these, in `Forwarded` or in `X-Real-IP` is dropped. The first three are kept if they come
  // from one of `edge.trustedProxies`.
  test('Host names the upstream', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url);
    await send(port, { headers: { host: 'gateway.test' } });
    expect(upstream.seen[0]?.headers.host).toBe(new URL(upstream.url).host);
  });

  // Rule passthrough-6.
  test('the gateway names the client; what the client claims is dropped', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url);
    await send(port, {
      headers: {
        host: 'gateway.test:8443',
        forwarded: 'for=6.6.6.6',
        'x-forwarded-for': '6.6.6.6',
        'x-forwarded-host': 'evil.test',
        'x-forwarded-port': '1',
        'x-forwarded-proto': 'https',
        'x-real-ip': '6.6.6.6',
        x_forwarded_for: '6.6.6.6',
      },
    });
    const headers = upstream.seen[0]?.headers ?? {};
    expect(headers).toMatchObject({
      'x-forwarded-for': '127.0.0.1',
      'x-forwarded-host': 'gateway.test:8443',
      'x-forwarded-proto': 'http',
    });
    expect(JSON.stringify(headers)).not.toMatch(/6\.6\.6\.6|evil|x-forwarded-port/);
  });

  test('a proxy in front of us is believed when the app trusts it', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url, { trustProxy: true });
    await send(port, {
      headers: {
        'x-forwarded-for': '203.0.113.7, 10.0.0.1',
        'x-forwarded-host': 'public.test',
        'x-forwarded-proto': 'https',
      },
    });
    expect(upstream.seen[0]?.headers).toMatchObject({
      'x-forwarded-for': '203.0.113.7, 10.0.0.1, 127.0.0.1',
      'x-forwarded-host': 'public.test',
      'x-forwarded-proto': 'https',
    });
  });

  // Rule passthrough-7.
  test("the operator's headers win, in whichever way the client spells its own", async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url, {
      headers: { Authorization: 'Bearer operator', 'X-Api-Key': 'ours' },
    });
    await send(port, {
      headers: { authorization: 'Bearer client', x_api_key: 'theirs', 'x-api-key': 'theirs' },
    });
    const headers = upstream.seen[0]?.headers ?? {};
    expect(headers).toMatchObject({ authorization: 'Bearer operator', 'x-api-key': 'ours' });
    expect(JSON.stringify(headers)).not.toMatch(/client|theirs/);
  });

  // Rule passthrough-7.
  test("the client's credentials stay here when they are to be stripped", async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url, { authorization: 'strip' });
    await send(port, { headers: { authorization: 'Bearer client' } });
    expect(upstream.seen[0]?.headers).not.toHaveProperty('authorization');
  });

  // Rule passthrough-8: Hop-by-hop headers end here in both directions. A `Connection` header that names one
  // that decides what the request means (`Authorization`, `Mcp-Session-Id`, `Content-Length` and the like)
  // gets 400. An upgrade is not passed on.
  test('hop-by-hop headers of a request end here', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url);
    const answer = await send(port, {
      headers: {
        connection: 'close, X-Mine, Keep-Alive',
        'keep-alive': 'timeout=5',
        'proxy-authorization': 'Basic abc',
        'proxy-connection': 'close',
        te: 'trailers',
        'x-mine': '1',
        'x-theirs': '2',
      },
    });
    expect(answer.status).toBe(200);
    const names = Object.keys(upstream.seen[0]?.headers ?? {}).sort();
    expect(names).toEqual([
      'connection',
      'host',
      'x-forwarded-for',
      'x-forwarded-host',
      'x-forwarded-proto',
      'x-theirs',
    ]);
    expect(upstream.seen[0]?.headers.connection).toBe('keep-alive');
  });

  test.each(['authorization', 'Mcp-Session-Id', 'content-length', 'content-type', 'host'])(
    'Connection cannot take away %s',
    async (name) => {
      const upstream = await upstreamOf();
      const { port } = await gatewayTo(upstream.url);
      const answer = await send(port, { headers: { connection: `close, ${name}` } });
      expect(answer.status).toBe(400);
      expect(JSON.parse(answer.text)).toEqual(jsonRpcError(-32600));
      expect(upstream.seen).toEqual([]);
    },
  );

  // Rule passthrough-8.
  test('hop-by-hop headers of a response end here', async () => {
    const upstream = await upstreamOf((response) => {
      response.writeHead(200, {
        connection: 'keep-alive, X-Hop',
        'keep-alive': 'timeout=77',
        'proxy-authenticate': 'Basic',
        trailer: 'x-late',
        upgrade: 'h2c',
        'x-hop': '1',
        'x-end': '2',
      });
      response.end('ok');
    });
    const { port } = await gatewayTo(upstream.url);
    const { headers } = await send(port);
    expect(headers).toMatchObject({ 'x-end': '2' });
    expect(headers['keep-alive']).not.toBe('timeout=77');
    for (const name of ['x-hop', 'proxy-authenticate', 'trailer', 'upgrade']) {
      expect(headers).not.toHaveProperty(name);
    }
  });

  // Rule passthrough-9: A redirect into the server leads to the gateway's own address; one to elsewhere stays
  // as it is. CORS headers that the gateway set stay, whatever the server says.
  test('a redirect into the upstream leads to our own address', async () => {
    const locations: string[] = [];
    const upstream = await upstreamOf((response) =>
      response.writeHead(307, { location: locations.shift() }).end(),
    );
    const { origin } = new URL(upstream.url);
    const { port } = await gatewayTo(upstream.url, { path: '/public' });
    locations.push(`${origin}/mcp?x=1#y`, `${origin}/mcp/`, `${origin}//evil.test/`, '/login');
    const answers: (string | undefined)[] = [];
    while (locations.length > 0) {
      answers.push((await send(port, { path: '/public' })).headers.location);
    }
    expect(answers).toEqual(['/public?x=1#y', '/mcp/', '/evil.test/', '/login']);
  });

  // Rule passthrough-9.
  test('the CORS headers that the gateway set stay', async () => {
    const upstream = await upstreamOf((response) => {
      response.writeHead(200, { 'access-control-allow-origin': '*', vary: 'accept-encoding' });
      response.end();
    });
    const { port } = await gatewayTo(upstream.url, {
      prepare: (app) =>
        app.addHook('onRequest', async (_request, reply) => {
          reply.raw.setHeader('access-control-allow-origin', 'https://app.test');
          reply.raw.setHeader('vary', 'origin');
        }),
    });
    const { headers } = await send(port);
    expect(headers['access-control-allow-origin']).toBe('https://app.test');
    expect(headers.vary).toBe('origin, accept-encoding');
  });

  // Rule passthrough-8.
  test('an upgrade is not passed on, and the request is served as a plain one', async () => {
    const upstream = await upstreamOf();
    upstream.server.on('upgrade', (_request, socket) => socket.destroy());
    const { port } = await gatewayTo(upstream.url);
    for (const upgrade of ['websocket', 'h2c']) {
      const answer = await sendRaw(
        port,
        `GET /socket HTTP/1.1\r\nHost: g\r\nConnection: close, Upgrade, HTTP2-Settings\r\n` +
          `Upgrade: ${upgrade}\r\nHTTP2-Settings: AAMAAABk\r\n\r\n`,
      );
      expect(answer).toMatch(/^HTTP\/1\.1 200 /);
    }
    expect(upstream.seen).toHaveLength(2);
    for (const { headers } of upstream.seen) {
      expect(headers).not.toHaveProperty('upgrade');
      expect(headers).not.toHaveProperty('http2-settings');
    }
  });

  test('CONNECT opens nothing', async () => {
    const upstream = await upstreamOf();
    let tunnels = 0;
    upstream.server.on('connect', (_request, socket) => {
      tunnels += 1;
      socket.destroy();
    });
    const { port } = await gatewayTo(upstream.url);
    const { host } = new URL(upstream.url);
    const answer = await sendRaw(port, rawRequest('CONNECT', host));
    expect(answer).not.toMatch(/^HTTP\/1\.1 2/);
    expect([tunnels, upstream.seen.length]).toEqual([0, 0]);
  });
});

// Rule passthrough-15: A target that could be read in two ways (dot segments in any spelling, backslashes, a
// fragment, characters that no URL holds) gets 400 and is not repaired.
describe('targets that could be read in two ways', () => {
  test.each([
    '//evil.test/',
    '///evil.test/mcp',
    '/\\evil.test/',
    '/a\\..\\b',
    '/../secret',
    '/a/../../secret',
    '/a/./b',
    '/..%2fsecret',
    '/..%2Fsecret',
    '/%2e%2e/secret',
    '/%2e%2e%2fsecret',
    '/a/%2e%2e%5csecret',
    '/.%2e/secret',
    '/a/..',
    '/a%',
    '/a%zz',
    '/mcp#fragment',
    '/mcp?a=1#fragment',
    '/a"b',
    '/...',
    'http://evil.test/mcp',
    'http://evil.test@gateway.test/mcp',
    'ftp://evil.test/',
    'evil.test:80',
    '*',
  ])('%s is refused', async (target) => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url);
    const answer = await sendRaw(port, rawRequest('GET', target));
    expect(answer).toMatch(/^HTTP\/1\.1 400 /);
    expect(upstream.seen).toEqual([]);
  });

  // Rule passthrough-15.
  test('a target that was encoded twice stays so', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url);
    await sendRaw(port, rawRequest('GET', '/a/%252e%252e/b'));
    expect(upstream.seen.map(({ url }) => url)).toEqual(['/a/%252e%252e/b']);
  });
});

// Rule passthrough-3: Event streams pass without delay and may be silent forever. A client that leaves ends
// the stream upstream; a stream that is cut upstream is cut here, so that the client can tell it from an end.
describe('event streams', () => {
  /** An upstream whose streams the test writes. */
  async function streamingUpstream() {
    const streams: ServerResponse[] = [];
    const opened: ((stream: ServerResponse) => void)[] = [];
    const upstream = await upstreamOf((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' });
      response.flushHeaders();
      streams.push(response);
      opened.shift()?.(response);
    });
    const next = () => new Promise<ServerResponse>((resolve) => opened.push(resolve));
    return { ...upstream, next };
  }

  test.each(['GET', 'POST'])(
    'of a %s: the head comes before the first event, each event before the next is written',
    async (method) => {
      const upstream = await streamingUpstream();
      const { port } = await gatewayTo(upstream.url);
      const opened = upstream.next();
      const answer = await open(port, { method, ...(method === 'POST' ? { body: '{}' } : {}) });
      expect(answer.headers['content-type']).toBe('text/event-stream');
      const stream = await opened;
      for (const event of ['data: 1\n\n', ': comment\n\n', 'id: 2\ndata: \u20ac\n\n', 'data: ']) {
        stream.write(event);
        const [chunk] = (await once(answer, 'data')) as [Buffer];
        expect(chunk.toString('utf8')).toBe(event);
      }
      stream.end('end\n\n');
      expect(Buffer.concat(await answer.toArray()).toString()).toBe('end\n\n');
      expect(answer.complete).toBe(true);
    },
  );

  // Rule passthrough-3.
  test('one that is silent for an hour lives on', async () => {
    // The HTTP client counts its timeouts in ticks of `setTimeout`, so these are the hour.
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const upstream = await streamingUpstream();
      const { port } = await gatewayTo(upstream.url);
      const opened = upstream.next();
      const answer = await open(port);
      const stream = await opened;
      await vi.advanceTimersByTimeAsync(60 * 60_000);
      stream.write('data: at last\n\n');
      const [chunk] = (await once(answer, 'data')) as [Buffer];
      expect(chunk.toString()).toBe('data: at last\n\n');
    } finally {
      vi.useRealTimers();
    }
  });

  // Rule passthrough-3.
  test('a client that leaves ends the stream upstream', async () => {
    const upstream = await streamingUpstream();
    const { port } = await gatewayTo(upstream.url);
    const opened = upstream.next();
    const answer = await open(port);
    const stream = await opened;
    const closed = once(stream, 'close');
    answer.on('error', () => {}).destroy();
    await closed;
    expect(stream.writableFinished).toBe(false);
  });

  // Rule passthrough-3.
  test('an upstream that is cut cuts the client, which can tell it from an end', async () => {
    const upstream = await streamingUpstream();
    const { port } = await gatewayTo(upstream.url);
    const opened = upstream.next();
    const answer = await open(port);
    const stream = await opened;
    stream.write('data: 1\n\n');
    await once(answer, 'data');
    const cut = once(answer, 'error');
    stream.destroy();
    await cut;
    expect(answer.complete).toBe(false);
  });

  test('closing the application ends them', async () => {
    const upstream = await streamingUpstream();
    const { app, port } = await gatewayTo(upstream.url);
    const opened = upstream.next();
    const answer = await open(port);
    const stream = await opened;
    const [client, server] = [once(answer, 'error'), once(stream, 'close')];
    answer.resume();
    await app.close();
    await Promise.all([client, server]);
    expect(answer.complete).toBe(false);
  });

  test('closing the application closes the connections that are kept for others, too', async () => {
    const { url, server } = await upstreamOf((response) => response.end('answered'));
    server.keepAliveTimeout = 600_000;
    const { app, port } = await gatewayTo(url);
    const connected = once(server, 'connection') as Promise<[Socket]>;
    const answer = await open(port);
    await answer.toArray();
    const [connection] = await connected;
    expect(connection.closed).toBe(false);
    const closed = once(connection, 'close');
    await app.close();
    await closed;
  });
});

describe('the endpoint that the stream of a GET names first', () => {
  /** Passes a stream of these pieces on; resolves with what was noted, and what the client got. */
  async function passed(pieces: readonly string[], headers = {}, sent: Sent = {}) {
    const noted: string[] = [];
    const over = Promise.withResolvers<void>();
    const upstream = await upstreamOf(async (response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream', ...headers });
      for (const piece of pieces) {
        await new Promise((written) => response.write(piece, written));
      }
      response.end();
    });
    const { port } = await gatewayTo(upstream.url, {
      onEndpoint: (endpoint) => {
        noted.push(endpoint);
        return () => over.resolve();
      },
    });
    const { text } = await send(port, sent);
    expect(text).toBe(pieces.join(''));
    return { noted, over: over.promise };
  }

  const NAMED = 'event: endpoint\ndata: /m/1\n\n';
  const MESSAGE = 'data: {}\n\n';

  // Rule passthrough-10.
  test.each([
    ['at once', [NAMED]],
    ['letter by letter', [...NAMED]],
    ['after comments, with more', [': hello\n\n', `: again\n\n${NAMED}${MESSAGE}`, MESSAGE]],
    ['with other line ends', [NAMED.replaceAll('\n', '\r\n')]],
    ['in front of much else', [NAMED + `data: ${'x'.repeat(100_000)}\n\n`, MESSAGE]],
    ['and names once only', [NAMED, NAMED.replace('1', '2')]],
  ])('is noted until the stream is over: %s', async (_title, pieces) => {
    const { noted, over } = await passed(pieces);
    expect(noted).toEqual(['/m/1']);
    await over;
  });

  test('is forgotten when the client leaves', async () => {
    const [told, over] = [Promise.withResolvers<string>(), Promise.withResolvers<void>()];
    const upstream = await upstreamOf((response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(NAMED);
    });
    const { port } = await gatewayTo(upstream.url, {
      onEndpoint: (endpoint) => {
        told.resolve(endpoint);
        return () => over.resolve();
      },
    });
    const answer = await open(port);
    expect(await told.promise).toBe('/m/1');
    answer.on('error', () => {}).destroy();
    await over.promise;
  });

  // Rule passthrough-10.
  test.each<[string, string[], object, Sent]>([
    ['after a message', [MESSAGE, NAMED], {}, {}],
    ['after more than an event takes', [`: ${'x'.repeat(20_000)}\n`, NAMED], {}, {}],
    ['when it does not come whole', ['event: endpoint\ndata: /m/1\n'], {}, {}],
    ['in what is no event stream', [NAMED], { 'content-type': 'text/plain' }, {}],
    ['in what is compressed', [NAMED], { 'content-encoding': 'x-own' }, {}],
    ['in the answer to a POST', [NAMED], {}, { method: 'POST', body: '{}' }],
    ['on another path', [NAMED], {}, { path: '/sse' }],
  ])('is not noted %s', async (_title, pieces, headers, sent) => {
    expect((await passed(pieces, headers, sent)).noted).toEqual([]);
  });

  test('is noted of a long stream, which loses no byte', async () => {
    const pieces = [
      NAMED,
      ...Array.from({ length: 200 }, (_, at) => `data: ${at}${'y'.repeat(65_536)}\n\n`),
    ];
    expect((await passed(pieces)).noted).toEqual(['/m/1']);
  });
});

describe('the responses that the process must not leave before', () => {
  /** How many there are when the head of the answer has come, and when it is over. */
  async function counted(sent: Sent, contentType: string) {
    const openResponses = new OpenResponses();
    const answers: ServerResponse[] = [];
    const upstream = await upstreamOf((response) => {
      answers.push(response);
      response.writeHead(200, { 'content-type': contentType }).flushHeaders();
    });
    const { port } = await gatewayTo(upstream.url, { openResponses });
    const answer = await open(port, sent);
    const underWay = openResponses.count;
    answers[0]?.end('data: 1\n\n');
    await answer.toArray();
    await expect.poll(() => openResponses.count).toBe(0);
    return underWay;
  }

  // Rule passthrough-14: A drain waits for every response that is passed through, except the event streams of GETs,
  // which would not end by themselves.
  test.each([undefined, '*/*', 'text/event-stream', 'application/json, text/event-stream'])(
    'are not the event streams of a GET, whatever it accepts: %s',
    async (accept) => {
      const headers = accept === undefined ? {} : { accept };
      expect(await counted({ headers }, 'text/event-stream')).toBe(0);
      expect(await counted({ headers, path: '/sse' }, 'Text/Event-Stream; charset=utf-8')).toBe(0);
    },
  );

  // Rule passthrough-14.
  test.each(['*/*', 'text/event-stream'])(
    'are any other answers to a GET, whatever it accepts: %s',
    async (accept) => {
      expect(await counted({ headers: { accept } }, 'application/json')).toBe(1);
    },
  );

  // Rule passthrough-14.
  test.each(['text/event-stream', 'application/json'])(
    'are all answers to a POST: %s',
    async (contentType) => {
      const headers = { accept: 'application/json, text/event-stream' };
      expect(await counted({ method: 'POST', body: '{}', headers }, contentType)).toBe(1);
    },
  );

  test('are those that have not begun, unless a stream was asked for', async () => {
    const arrived: (() => void)[] = [];
    const upstream = await upstreamOf(() => arrived.shift()?.());
    for (const [accept, underWay] of [
      ['text/event-stream', 0],
      ['application/json', 1],
    ] as const) {
      const openResponses = new OpenResponses();
      const { port } = await gatewayTo(upstream.url, { openResponses });
      const arrival = new Promise<void>((resolve) => arrived.push(resolve));
      const leaving = open(port, { headers: { accept } }).catch(() => {});
      await arrival;
      expect(openResponses.count).toBe(underWay);
      void leaving;
    }
  });
});

describe('a client that leaves before the response', () => {
  test.each([
    ['a GET', 'GET', '/mcp'],
    ['a POST that was read', 'POST', '/mcp'],
    ['a POST that was streamed', 'POST', '/message'],
  ])('ends %s upstream', async (_name, method, path) => {
    let arrived: (request: IncomingMessage) => void = () => {};
    const arrival = new Promise<IncomingMessage>((resolve) => (arrived = resolve));
    const upstream = await upstreamOf((_response, request) => arrived(request));
    const { port, failures } = await gatewayTo(upstream.url);
    const request = httpRequest({ host: '127.0.0.1', port, method, path, agent: false });
    request.on('error', () => {}).end(method === 'POST' ? '{}' : undefined);
    const seen = await arrival;
    const closed = once(seen.socket, 'close');
    request.destroy();
    await closed;
    expect(failures).toEqual([]);
  });

  test('ends an upload that it had begun', async () => {
    const server = createServer();
    await listen(server);
    stopAfterTest(() => new Promise((resolve) => server.close(resolve)));
    const { port } = await gatewayTo(`http://127.0.0.1:${portOf(server)}/mcp`);
    const arrival = once(server, 'request');
    const request = httpRequest({
      host: '127.0.0.1',
      port,
      method: 'POST',
      path: '/message',
      headers: { 'content-length': 100 },
      agent: false,
    });
    request.on('error', () => {}).write('half');
    const [seen] = (await arrival) as [IncomingMessage];
    seen.resume();
    const cut = once(seen, 'error');
    request.destroy();
    await cut;
    expect(seen.complete).toBe(false);
  });
});

describe('bodies that are too large', () => {
  const limited = { maxBodyBytes: 1_000 };

  test('one of just the size passes', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url, limited);
    const body = Buffer.alloc(1_000, 'x');
    expect((await send(port, { method: 'POST', path: '/m', body })).status).toBe(200);
    expect((await send(port, { method: 'POST', path: '/m', body: [body] })).status).toBe(200);
    expect(upstream.seen.map(({ body: { length } }) => length)).toEqual([1_000, 1_000]);
  });

  // Rule passthrough-16: A body beyond `limits.maxBody` is refused (413); if that turns out in the middle,
  // the server gets no whole request.
  test('one that says so is refused before the upstream hears of it', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url, limited);
    const body = Buffer.alloc(1_001, 'x');
    const answer = await send(port, { method: 'POST', path: '/m', body });
    expect(answer.status).toBe(413);
    expect(JSON.parse(answer.text)).toEqual(jsonRpcError(-32600));
    expect(upstream.seen).toEqual([]);
  });

  // Rule passthrough-16.
  test('one that turns out so is refused, and the upstream gets no whole request', async () => {
    const upstream = await upstreamOf();
    const { port, failures } = await gatewayTo(upstream.url, limited);
    const pieces = [Buffer.alloc(600, 'x'), Buffer.alloc(401, 'x')];
    const answer = await send(port, { method: 'POST', path: '/m', body: pieces });
    expect(answer.status).toBe(413);
    expect(JSON.parse(answer.text)).toEqual(jsonRpcError(-32600));
    expect(upstream.seen).toEqual([]);
    expect(failures.map(({ httpStatus }) => httpStatus)).toEqual([413]);
  });
});

describe('a body that nobody wants', () => {
  test.each([
    ['is declared too large', 413, false],
    ['turns out too large', 413, true],
    ['has no upstream to go to', 502, true],
  ])(
    '%s: the client gets its answer, and its connection lives on',
    async (_name, status, chunked) => {
      const nobody = `http://127.0.0.1:${await freePort()}/mcp`;
      const { port } = await gatewayTo(status === 502 ? nobody : (await upstreamOf()).url, {
        maxBodyBytes: status === 502 ? 8_000_000 : 1_000,
      });
      const body = 'x'.repeat(4_000_000);
      const framing = chunked
        ? `Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n${body}\r\n0\r\n\r\n`
        : `Content-Length: ${body.length}\r\n\r\n${body}`;
      const answers = await sendRaw(
        port,
        `POST /message HTTP/1.1\r\nHost: g\r\n${framing}${rawRequest('GET', '/..%2f')}`,
      );
      expect(answers.match(/HTTP\/1\.1 \d+/g)).toEqual([`HTTP/1.1 ${status}`, 'HTTP/1.1 400']);
    },
  );
});

// Rule passthrough-17: A server that cannot be reached is 502, one that takes longer than
// `upstream.headersTimeout` over the head of its response 504, both with a JSON-RPC error (-32603) that does
// not name it. It is 502 as well when the connection breaks; `data.mayHaveActed` is `unknown` once anything
// was sent, else `no`.
describe('an upstream that does not respond', () => {
  // Rule passthrough-17.
  test.each([
    ['GET', '/mcp'],
    ['POST', '/mcp'],
    ['POST', '/message'],
  ])('%s %s: nobody listens there', async (method, path) => {
    const upstreamPort = await freePort();
    const { port, failures } = await gatewayTo(`http://127.0.0.1:${upstreamPort}/mcp`);
    const answer = await send(port, { method, path, ...(method === 'POST' ? { body: '{}' } : {}) });
    expect(answer.status).toBe(502);
    expect(answer.headers['content-type']).toBe('application/json');
    expect(JSON.parse(answer.text)).toEqual(jsonRpcError(-32603));
    expect(answer.text).not.toMatch(new RegExp(`${upstreamPort}|127\\.0|ECONN`));
    expect(failures.map(({ httpStatus }) => httpStatus)).toEqual([502]);
  });

  // Rule passthrough-17.
  test('it takes longer than allowed over the head', async () => {
    const upstream = await upstreamOf(() => {});
    const { port } = await gatewayTo(upstream.url, { headersTimeoutMs: 100 });
    const answer = await send(port, { method: 'POST', body: '{}' });
    expect(answer.status).toBe(504);
    expect(JSON.parse(answer.text)).toEqual(jsonRpcError(-32603));
    expect(answer.text).not.toContain('127.0');
  });

  test.each([
    ['it hangs up', ''],
    ['it speaks something else', 'SSH-2.0-OpenSSH_9.2\r\n'],
    ['its head holds a NUL', 'HTTP/1.1 200 OK\r\nX-A: a\0b\r\nContent-Length: 0\r\n\r\n'],
    ['its status does not exist', 'HTTP/1.1 999 Odd\r\nContent-Length: 2\r\n\r\nok'],
    [
      'it switches protocols',
      'HTTP/1.1 101 Switching\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n',
    ],
    ['it has no end of head', `HTTP/1.1 200 OK\r\nX-A: ${'a'.repeat(70_000)}\r\n\r\n`],
  ])('%s', async (_name, bytes) => {
    const { port } = await gatewayTo(await rawUpstream(bytes));
    for (const method of ['GET', 'POST']) {
      const answer = await send(port, { method });
      expect(answer.status).toBe(502);
      expect(JSON.parse(answer.text)).toEqual(jsonRpcError(-32603));
    }
  });

  test('its body breaks off: so does ours', async () => {
    const { port } = await gatewayTo(
      await rawUpstream('HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf'),
    );
    const answer = await open(port);
    await expect(answer.toArray()).rejects.toThrow();
    expect(answer.complete).toBe(false);
  });

  test('headers with bytes beyond ASCII pass as bytes', async () => {
    const head = 'HTTP/1.1 200 OK\r\nX-Euro: \u20ac\r\nConnection: close\r\n\r\nok';
    const { port } = await gatewayTo(await rawUpstream(Buffer.from(head, 'utf8')));
    const answer = await send(port);
    expect(answer.text).toBe('ok');
    expect(Buffer.from(String(answer.headers['x-euro']), 'latin1').toString('utf8')).toBe('\u20ac');
  });
});
