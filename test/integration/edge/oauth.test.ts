/** Servers behind OAuth: clients log in through the gateway, for its public URL. */
import { describe, expect, test } from 'vitest';
import { connectWithLogin } from '../../fixtures/clients/login.ts';
import { send } from '../../fixtures/clients/modern-client.ts';
import { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import type { GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { gatewayBefore } from '../../fixtures/gateways/test-gateway.ts';
import { greeter } from '../../fixtures/gateways/replica-testbed.ts';
import { hurriedClock } from '../../fixtures/hurried-clock.ts';
import { freePort } from '../../fixtures/processes.ts';
import { startOAuthServer } from '../../fixtures/servers/oauth-server.ts';
import { ScriptedServer, json } from '../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const PUBLIC = new URL('https://mcp.example/team/mcp');
const METADATA = 'https://mcp.example/.well-known/oauth-protected-resource/team/mcp';

describe('a legacy server of the official SDK behind OAuth', () => {
  async function stage(audience: (publicUrl: string) => string | undefined) {
    const listen = `127.0.0.1:${await freePort()}`;
    const publicUrl = `http://${listen}/mcp`;
    const server = await startOAuthServer({ tools: greeter().tools }, audience(publicUrl));
    const gateway = await GatewayProcess.start({
      upstream: server.url,
      route: { publicUrl },
      config: { listen },
    });
    stopAfterTest(() => gateway.kill());
    return { server, gateway, publicUrl };
  }

  // Rule oauth-1 (RFC 9728, section 3; authorization, "Protected Resource Metadata Discovery Requirements"): The
  // metadata of the server is served at the well-known paths of `publicUrl`, with that as `resource` and without
  // `signed_metadata`.
  test('takes the official client, which registers, logs in with PKCE, and answers a question', async () => {
    const { server, publicUrl } = await stage((url) => url);
    const client = await connectWithLogin(publicUrl, () => ({ name: 'Ada' }));
    const done = await client.callTool({ name: 'greet', arguments: {} });
    expect(done.content).toEqual([{ type: 'text', text: 'Hello Ada' }]);
    expect(server.resources).toEqual([publicUrl]);
    await client.close();
  });

  // Rule oauth-3: A server that accepts no token is logged once, with what to do.
  test('that takes no token for the public URL is logged with what to do', async () => {
    const { gateway, publicUrl } = await stage(() => undefined);
    await expect(connectWithLogin(publicUrl, () => ({}))).rejects.toThrow();
    const [line] = await gateway.saw('upstream.token_refused');
    expect(line).toMatchObject({ route: 'mcp', resource: publicUrl, error: 'invalid_token' });
    expect(line?.['msg']).toMatch(/publicUrl .*upstream\.authorization: strip/);
  });
});

describe('with publicUrl', () => {
  const document = (resource: string) => ({
    resource,
    authorization_servers: ['https://login.example'],
    scopes_supported: ['a'],
    signed_metadata: 'e30.e30.e30',
  });

  /** A server that refuses all, and has metadata at one path. */
  async function start(at: string, overrides: GatewayOverrides = { publicUrl: PUBLIC }) {
    const server = await ScriptedServer.start(({ method, path }, response) => {
      if (method === 'GET' && path === at) return json(response, 200, document(server.url));
      if (path !== '/mcp') return json(response, 404, {});
      const challenge = `Bearer realm="see resource_metadata=x", resource_metadata="${new URL(at, server.url).href}", scope="a"`;
      return json(response, 401, {}, { 'www-authenticate': challenge });
    });
    const { gateway } = await gatewayBefore(server, overrides);
    const read = (path: string, init?: RequestInit) => fetch(new URL(path, gateway.url), init);
    return { server, gateway, read };
  }

  // Rule oauth-1.
  test.each([
    '/.well-known/oauth-protected-resource/mcp',
    '/.well-known/oauth-protected-resource/team/mcp',
    '/.well-known/oauth-protected-resource',
  ])('metadata that the server has at %s is found at each path', async (at) => {
    const { read, server } = await start(at);
    for (const path of ['/team/mcp', '/mcp', '']) {
      const response = await read(`/.well-known/oauth-protected-resource${path}`);
      expect(response.headers.get('access-control-allow-origin')).toBe('*');
      const { signed_metadata: _, ...rest } = document(server.url);
      expect(await response.json()).toEqual({ ...rest, resource: PUBLIC.href });
    }
  });

  // Rule oauth-1.
  test('metadata at a path of its own is found once the server has named it', async () => {
    const { read, gateway } = await start('/oauth/resource.json');
    const path = '/.well-known/oauth-protected-resource/team/mcp';
    expect((await read(path)).status).toBe(404);
    expect((await send(gateway.url, 'server/discover')).status).toBe(401);
    expect(await (await read(path)).json()).toMatchObject({ resource: PUBLIC.href });
  });

  test.each(['/.well-known/oauth-protected-resource', '/nowhere'])(
    'metadata at %s is read once, however many ask for it',
    async (at) => {
      const { read, server } = await start(at, { publicUrl: PUBLIC, clock: hurriedClock(0.01) });
      const path = '/.well-known/oauth-protected-resource/team/mcp';
      const ask = () => Promise.all(Array.from({ length: 20 }, () => read(path)));
      const statuses = new Set([...(await ask()), ...(await ask())].map(({ status }) => status));
      expect([...statuses]).toEqual([at === '/nowhere' ? 404 : 200]);
      const asked = server.received.map(({ method, path: of }) => `${method} ${of}`);
      const reads = asked.filter((request) => request.includes('/.well-known/'));
      expect(reads.length).toBeGreaterThan(0);
      expect(reads).toEqual([...new Set(reads)]);
    },
  );

  // Rule oauth-2 (RFC 9728, section 5.1): `resource_metadata` in the challenges of the server names the metadata of
  // `publicUrl`. All else in a challenge stays.
  test.each(['a modern client', 'a legacy client'])(
    'the challenge of %s names them',
    async (who) => {
      const { gateway } = await start('/.well-known/oauth-protected-resource');
      const legacy = {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: '{"jsonrpc":"2.0","id":1,"method":"ping"}',
      };
      const { status, headers: got } =
        who === 'a modern client'
          ? await send(gateway.url, 'server/discover')
          : await fetch(gateway.url, legacy);
      expect(status).toBe(401);
      expect(got.get('www-authenticate')).toBe(
        `Bearer realm="see resource_metadata=x", resource_metadata="${METADATA}", scope="a"`,
      );
    },
  );

  // Rule oauth-1.
  test('a page can send a preflight for metadata, and an unreachable server is not one without metadata', async () => {
    const { read, server } = await start('/.well-known/oauth-protected-resource');
    const path = '/.well-known/oauth-protected-resource/team/mcp';
    const asked = await read(path, { method: 'OPTIONS' });
    expect([asked.status, asked.headers.get('access-control-allow-headers')]).toEqual([204, '*']);
    await server.stop();
    expect((await read(path)).status).toBe(502);
  });
});
