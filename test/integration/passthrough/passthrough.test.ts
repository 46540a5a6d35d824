/** The pass-through on the wire: what it must not touch. */
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { createStreamingApp } from '../../../src/front/passthrough/streaming-app.ts';
import { registerPassThrough } from '../../../src/front/passthrough/passthrough.ts';
import { PASS_THROUGH_OPTIONS } from '../../fixtures/pass-through-options.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { gatewayTo, portOf, send, upstreamOf } from '../../fixtures/passthrough/pass-through.ts';

// Rule passthrough-1 (versioning, "Backward Compatibility with Initialization-Based Versions"): Bodies, queries,
// methods, statuses, redirects, compression and event streams pass byte for byte. The public path stands for the path
// of `upstream.url`.
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

  // Rule passthrough-18: A client's query parameter is dropped if a server could take it for one of `upstream.url`.
  test.each([
    ...[
      'read_only=false',
      'READ_ONLY=false',
      'read%5Fonly=false',
      'read_only[]=false',
      'read_only',
    ],
    ...[
      'read_only%5B0%5D=false',
      'read.only=false',
      'read+only=false',
      'read[only=false',
      'a=1;read_only=0',
    ],
    ...['%20read_only=false', 'read_only%00=false', 'a=1&read_only=false&Project=x'],
  ])("the operator's query, which %s does not contradict", async (query) => {
    const upstream = await upstreamOf();
    const { port } = await gatewayTo(`${upstream.url}?project=pinned&read_only=true`);
    await send(port, { path: `/mcp?x=%201&${query}&y` });
    const { searchParams } = new URL(upstream.seen[0]?.url ?? '', upstream.url);
    expect([...searchParams.keys()].filter((name) => name !== 'a')).toEqual([
      'project',
      'read_only',
      'x',
      'y',
    ]);
    expect(upstream.seen[0]?.url).toMatch(/^\/mcp\?project=pinned&read_only=true&x=%201&/);
  });

  // Rule passthrough-7: `Authorization`, `Mcp-*` and unknown headers pass. `upstream.headers` win, and
  // `upstream.authorization: strip` holds.
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

  test('two upstreams behind one app', async () => {
    const [one, other] = [await upstreamOf(), await upstreamOf()];
    const app = createStreamingApp({ forceCloseConnections: true });
    for (const [path, { url }] of [['/one', one] as const, ['/other', other] as const]) {
      registerPassThrough(app, { ...PASS_THROUGH_OPTIONS, upstream: new URL(url), path });
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
