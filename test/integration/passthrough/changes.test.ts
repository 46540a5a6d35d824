/** What the pass-through must change or refuse, as any proxy must. */
import { describe, expect, test } from 'vitest';
import {
  gatewayTo,
  jsonRpcError,
  rawRequest,
  send,
  sendRaw,
  upstreamOf,
} from '../../fixtures/passthrough/pass-through.ts';

describe('what a proxy must change', () => {
  // Rule passthrough-6: `Host` names the server. The gateway sets `X-Forwarded-For`, `-Host` and `-Proto`, and keeps
  // those of `edge.trustedProxies`.
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
    const { port } = await gatewayTo(upstream.url, {
      trustedProxies: ['127.0.0.1', '10.0.0.1'],
    });
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
      rules: { headers: { authorization: 'Bearer operator', 'x-api-key': 'ours' } },
    });
    await send(port, {
      headers: { authorization: 'Bearer client', x_api_key: 'theirs', 'x-api-key': 'theirs' },
    });
    const headers = upstream.seen[0]?.headers ?? {};
    expect(headers).toMatchObject({ authorization: 'Bearer operator', 'x-api-key': 'ours' });
    expect(JSON.stringify(headers)).not.toMatch(/client|theirs/);
  });

  // Rule passthrough-7.
  test("the operator's headers win if they have underscores", async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url, { rules: { headers: { x_api_key: 'ours' } } });
    await send(port, { headers: { 'x-api-key': 'theirs', x_api_key: 'theirs' } });
    const headers = upstream.seen[0]?.headers ?? {};
    expect(headers).toMatchObject({ x_api_key: 'ours' });
    expect(JSON.stringify(headers)).not.toContain('theirs');
  });

  // Rule passthrough-7.
  test("the client's credentials stay here when they are to be stripped", async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url, { rules: { authorization: 'strip' } });
    await send(port, { headers: { authorization: 'Bearer client' } });
    expect(upstream.seen[0]?.headers).not.toHaveProperty('authorization');
  });

  // Rule passthrough-8: Hop-by-hop headers and upgrades do not pass. A `Connection` header that names one such as
  // `Authorization` gets 400.
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

  // Rule passthrough-9: A redirect into the server leads to the gateway's own address. CORS headers of the gateway
  // stay.
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

// Rule http-5.
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

  // Rule http-5.
  test('a target that was encoded twice stays so', async () => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(upstream.url);
    await sendRaw(port, rawRequest('GET', '/a/%252e%252e/b'));
    expect(upstream.seen.map(({ url }) => url)).toEqual(['/a/%252e%252e/b']);
  });
});
