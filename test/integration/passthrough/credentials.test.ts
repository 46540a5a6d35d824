/** Who may have something passed through, and where the operator's own headers go. */
import { describe, expect, test } from 'vitest';
import {
  CREDENTIALS,
  gatewayTo,
  NAMED,
  OPERATOR,
  serverOf,
  streamable,
} from '../../fixtures/passthrough/credentials-testbed.ts';

const METADATA = '/.well-known/oauth-protected-resource/mcp';

describe('a header that names callers', () => {
  const OTHERS = [
    'X_User',
    'x_user',
    'X.User',
    'X_API_Key',
    'X_Chat',
    'X_Tenant',
    'X_Forwarded_For',
  ];
  const start = async () => {
    const server = await serverOf(streamable);
    const gateway = await gatewayTo(`${server.origin}/mcp`, {
      identity: { ...NAMED.identity, credentialHeaders: ['x-api-key'] },
      sessions: { key: { header: 'x-chat' } },
      upstream: { headers: { 'x-tenant': 'operator' } },
    });
    return { server, ...gateway };
  };
  const own = { 'x-user': 'ada', 'x-api-key': 'key of ada', 'x-chat': '1' };

  // Rule passthrough-19: Of two headers that differ in hyphens and underscores, the one with hyphens passes.
  test.each(['/mcp', '/page'])('reaches %s under its own name only', async (path) => {
    const { server, ask } = await start();
    const others = Object.fromEntries(OTHERS.map((name) => [name, 'admin']));
    const kept = { 'x_of-nobody': '1', 'mcp-param-user_id': '2' };
    const doubled = { 'x-proxy': 'front', x_proxy: 'admin' };
    await ask('GET', path, { ...others, ...own, ...kept, ...doubled, mcp_method: 'admin' });
    const [passed] = server.ofClient();
    expect(passed?.headers).toMatchObject({ ...own, ...kept, 'x-proxy': 'front' });
    expect(JSON.stringify(passed)).not.toContain('admin');
  });

  // Rule passthrough-19.
  test('does not reach the server under another name where the client has not sent it', async () => {
    const { server, ask } = await start();
    await ask('GET', '/mcp', { 'x-user': 'ada', x_api_key: 'admin', x_chat: 'admin' });
    expect(server.ofClient()).toHaveLength(1);
    expect(JSON.stringify(server.ofClient())).not.toContain('admin');
  });

  // Rule passthrough-8.
  test.each(['x-user', 'X-API-Key', 'x-chat', 'x_user', 'x_tenant', 'x-tenant', 'x-forwarded-for'])(
    'is none that Connection can take away: %s',
    async (name) => {
      const { server, ask } = await start();
      const answer = await ask('GET', '/mcp', { ...own, connection: `close, ${name}` });
      expect(answer.status).toBe(400);
      expect(server.ofClient()).toEqual([]);
    },
  );
});

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
      const mayHaveActed = method === 'POST' ? 'unknown' : 'no';
      for (const headers of [{}, { 'x-user': '' }, { authorization: 'Bearer any' }]) {
        const answer = await ask(method, target, headers);
        expect(answer.status).toBe(401);
        expect(JSON.parse(answer.body)).toEqual({
          jsonrpc: '2.0',
          error: { code: -32600, message: expect.any(String), data: { mayHaveActed } },
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
