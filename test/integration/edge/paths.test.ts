/** The path of a route, however it is spelled, and the paths beside it. */
import { describe, expect, test } from 'vitest';
import { startGateway } from '../../../src/app/gateway.ts';
import { RecordedLog, testConfig, type GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { modernBody, modernHeaders } from '../../fixtures/clients/modern-client.ts';
import { rawRequest, sendRaw, valuesOf } from '../../fixtures/clients/raw-http.ts';
import { ground, type Ground } from '../../fixtures/gateways/survival-testbed.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { passedTo, REJECT, serverWith } from '../../fixtures/gateways/eras-testbed.ts';

// Rule eras-9: The path of a route counts in any URL encoding. A difference in case or slashes makes another path.
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

const MODERN = modernHeaders('tools/list', {});

async function posted(url: URL | string, headers: Record<string, string> = MODERN) {
  const body = JSON.stringify(modernBody('tools/list', {}));
  const response = await fetch(url, { method: 'POST', headers, body });
  return { status: response.status, body: await response.text() };
}

/** A gateway with two routes to one server. */
async function twoRoutes(overrides: GatewayOverrides = {}) {
  const server = await serverWith(() => ({ headers: {}, body: { of: 'server' } }));
  const config = testConfig(server.url, overrides);
  const [first] = config.routes;
  if (first === undefined) throw new Error('no route');
  const routes = [first, { ...first, id: 'other', path: '/other' }];
  const gateway = await startGateway({ ...config, routes }, { log: new RecordedLog() });
  stopAfterTest(() => gateway.close());
  return { gateway, server };
}

// Rule eras-18: A request of 2026-07-28 to a path without a route gets 404, unless a server is modern. Identified
// callers are told the paths.
describe('a modern request to a path that no route has', () => {
  test.each([
    ['/MCP', '/mcp'],
    ['/mcp/', '/mcp'],
    ['/other//', '/other'],
    ['/', '/mcp, /other'],
    ['/tools', '/mcp, /other'],
  ])('is refused with the paths that were meant: %s', async (path, expected) => {
    const { gateway, server } = await twoRoutes();
    const { status, body } = await posted(`${new URL(gateway.url).origin}${path}`);
    expect(status).toBe(404);
    expect(JSON.parse(body).error).toMatchObject({
      code: -32600,
      message: `No route of the gateway has this path; expected ${expected}`,
    });
    expect(server.seen.map(({ url }) => url)).not.toContain(path);
  });

  test.each([
    ['/', 'No route of the gateway has this path'],
    ['/MCP', 'No route of the gateway has this path; expected /mcp'],
  ])('names no further routes to a stranger: %s', async (path, message) => {
    const identity = { source: 'header', header: 'x-user' } as const;
    const { gateway } = await twoRoutes({ identity });
    const to = new URL(path, gateway.url);
    const stranger = await posted(to);
    expect([stranger.status, JSON.parse(stranger.body).error.message]).toEqual([404, message]);
    const known = await posted(to, { ...MODERN, 'x-user': 'ada' });
    expect(JSON.parse(known.body).error.message).toContain('; expected /mcp');
  });

  test('is passed through if it is not a modern one', async () => {
    const { gateway } = await twoRoutes();
    const { 'mcp-protocol-version': _version, ...legacy } = MODERN;
    const { body } = await posted(new URL('/MCP', gateway.url), legacy);
    expect(JSON.parse(body)).toEqual({ of: 'server' });
  });
});

describe('a path beside those of the routes', () => {
  const METADATA = '/.well-known/oauth-protected-resource/mcp';
  const metadata = () =>
    serverWith(({ url }) => ({
      headers: { 'x-of': 'server' },
      body: { resource: 'https://mcp.example/mcp', asked: url },
    }));

  // Rule passthrough-4 (authorization server discovery, "Protected Resource Metadata Discovery Requirements"): If all
  // routes have one server, other paths belong to it. With several servers, or `edge.legacyClients: reject`, they get
  // 404.
  test('is the server’s own, such as its OAuth metadata, which we do not touch', async () => {
    const server = await metadata();
    const gateway = await testGateway(server.url);
    for (const path of [METADATA, '/health?deep=1']) {
      const answer = await fetch(new URL(path, gateway.url));
      expect(answer.headers.get('x-of')).toBe('server');
      expect(await answer.json()).toEqual({ resource: 'https://mcp.example/mcp', asked: path });
    }
  });

  // Rule passthrough-4.
  test('is closed where legacy clients are rejected, but for what tells how to authorize', async () => {
    const server = await metadata();
    const gateway = await testGateway(server.url, REJECT);
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
