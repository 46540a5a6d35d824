/** A gateway whose configuration changes while it runs: real processes, sockets and signals. */
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { ListeningClient } from '../../fixtures/clients/listening-client.ts';
import {
  callTool,
  type Exchanged,
  type SendOptions,
} from '../../fixtures/clients/modern-client.ts';
import type {
  GatewayProcess,
  GatewayProcessOptions,
} from '../../fixtures/gateways/gateway-process.ts';
import { answersOf, replica, text } from '../../fixtures/gateways/replica-testbed.ts';
import { countingServer } from '../../fixtures/servers/counting-server.ts';

const ADA: SendOptions = { headers: { authorization: 'Bearer ada' } };

/** Calls a tool of the route on this path. */
function call(
  { url }: GatewayProcess,
  tool: string,
  more: object = {},
  path = '/mcp',
): Promise<Exchanged> {
  return callTool(new URL(path, url).href, tool, more, ADA);
}

/** Whether the stream of a listener goes on. */
function isOpen({ answered }: ListeningClient): Promise<boolean> {
  return Promise.race([answered.then(() => false), sleep(50).then(() => true)]);
}

const TWO = [{ path: '/one' }, { path: '/two' }];

/** The settings of several routes in front of one server. */
function routes(url: string, settings: readonly object[]): Partial<GatewayProcessOptions> {
  const upstream = { url };
  return { relay: false, config: { routes: settings.map((route) => ({ upstream, ...route })) } };
}

// Rule reload-2: An unchanged route keeps its sessions, calls and listeners.
test('a route whose settings are the same is not touched', async () => {
  const { server } = await countingServer();
  const gateway = await replica(server, routes(server.url, TWO));
  expect(text(await call(gateway, 'count', {}, '/one'))).toBe('1');
  const asked = await call(gateway, 'ask', {}, '/one');
  const url = new URL('/one', gateway.url).href;
  const listener = await ListeningClient.open(url, { toolsListChanged: true }, ADA);
  const line = await gateway.reload(
    routes(server.url, [
      { path: '/one' },
      { path: '/two', parking: { maxRounds: 3 } },
      { path: '/three' },
    ]),
  );
  expect(line).toMatchObject({
    event: 'config.reloaded',
    ...{ added: 'three', changed: 'two', removed: '' },
  });
  expect(text(await call(gateway, 'count', {}, '/one'))).toBe('2');
  expect(text(await call(gateway, 'ask', answersOf(asked, 'Ada'), '/one'))).toBe('Ada 3');
  expect(text(await call(gateway, 'count', {}, '/three'))).toBe('1');
  expect(await isOpen(listener)).toBe(true);
  await listener.leave();
});

// Rule reload-3: New settings hold for new calls. Sessions end only if settings of the server or of sessions change.
test('new settings of a route that concern neither its server nor its sessions keep both', async () => {
  const { server } = await countingServer();
  const gateway = await replica(server, { relay: false });
  expect(text(await call(gateway, 'count'))).toBe('1');
  const asked = await call(gateway, 'ask');
  await gateway.reload({ route: { questions: { keyNames: { ask: ['name'] } } } });
  expect(text(await call(gateway, 'count'))).toBe('2');
  const named = await call(gateway, 'ask');
  expect(Object.keys(named.response.result.inputRequests)).toEqual(['name']);
  expect(text(await call(gateway, 'ask', answersOf(asked, 'Ada')))).toBe('Ada 3');
  expect(text(await call(gateway, 'ask', answersOf(named, 'Bob')))).toBe('Bob 4');
});

// Rule reload-3.
test('calls of a route whose server changed end at the old one, whose sessions then close', async () => {
  const { server: old } = await countingServer();
  const { server: next } = await countingServer();
  const gateway = await replica(old, { relay: false });
  const listener = await ListeningClient.open(gateway.url, { toolsListChanged: true }, ADA);
  expect(text(await call(gateway, 'count'))).toBe('1');
  const asked = await call(gateway, 'ask');
  const line = await gateway.reload({ upstream: next.url });
  expect(line).toMatchObject({ event: 'config.reloaded', changed: 'mcp' });
  expect((await listener.answered)?.response.result).toBeDefined();
  expect(text(await call(gateway, 'count'))).toBe('1');
  expect(old.sessions).toBe(1);
  expect(text(await call(gateway, 'ask', answersOf(asked, 'Ada')))).toBe('Ada 2');
  await old.isLeft();
  expect(text(await call(gateway, 'count'))).toBe('2');
});

// Rule reload-4: A removed route takes no new calls (404), and serves retries until its sessions end.
test('a route that is removed takes no new calls, and serves the retries of its own', async () => {
  const { server } = await countingServer();
  const { server: other } = await countingServer();
  const both = [{ path: '/one', upstream: { url: other.url } }, { path: '/two' }];
  const gateway = await replica(server, routes(server.url, both));
  const asked = await call(gateway, 'ask', {}, '/one');
  const again = await call(gateway, 'ask', {}, '/one');
  expect(await gateway.reload(routes(server.url, [{ path: '/two' }]))).toMatchObject({
    removed: 'one',
  });
  const refused = await call(gateway, 'count', {}, '/one');
  expect(refused).toMatchObject({
    status: 404,
    response: { error: { message: 'No route of the gateway has this path' } },
  });
  expect(text(await call(gateway, 'ask', answersOf(asked, 'Ada'), '/one'))).toBe('Ada 1');
  expect(other.sessions).toBe(1);
  expect(text(await call(gateway, 'ask', answersOf(again, 'Bob'), '/one'))).toBe('Bob 2');
  await other.isLeft();
  await gateway.reload(routes(server.url, both));
  expect(text(await call(gateway, 'count', {}, '/one'))).toBe('1');
  expect(text(await call(gateway, 'count', {}, '/one'))).toBe('2');
});

// Rule start-3.
test('what is risky is logged when it changes, once for all workers, and not if the reload is refused', async () => {
  const { server } = await countingServer();
  const workers = { workers: 2, limits: { maxParkedCalls: 2_000 } };
  const gateway = await replica(server, { relay: false, config: workers });
  // The key of the tests is one byte repeated.
  const keys = { level: 'warn', field: 'seal.keys[0].key' };
  expect(await gateway.saw('config.risky')).toMatchObject([keys]);
  const rate = { field: 'routes[0].limits', problem: expect.stringMatching(/counts separately/) };
  const limited = { route: { limits: { rate: '5/s' } }, config: workers };
  await gateway.reload({ ...limited, upstream: `${gateway.adminUrl}/mcp` });
  await gateway.reload({ route: { parking: { maxRounds: 3 } }, config: workers });
  expect(gateway.named('config.risky')).toHaveLength(1);
  await gateway.reload(limited);
  expect((await gateway.saw('config.risky', 3)).slice(1)).toMatchObject([keys, rate]);
});

// Rule reload-1: A configuration is applied whole or not at all. An invalid one is logged with its problems.
test('what cannot be used is refused, with its place, and changes nothing', async () => {
  const { server } = await countingServer();
  const gateway = await replica(server, { relay: false });
  const successful = () => gateway.metric('mrtr_gateway_config_last_reload_successful');
  const succeededAt = () =>
    gateway.metric('mrtr_gateway_config_last_reload_success_timestamp_seconds');
  expect(text(await call(gateway, 'count'))).toBe('1');
  const asked = await call(gateway, 'ask');
  const startedAt = await succeededAt();
  expect(await successful()).toBe(1);
  for (const [change, problem] of [
    ['routes: [', /config\.yaml:1:10 /],
    [
      'routes: [{upstream: {url: "http://a/"}}]\nlistn: ":1"\n',
      /config\.yaml:2:1 listn: unknown key/,
    ],
    [
      { config: { admin: 'off', workers: 2, limits: { maxParkedCalls: 1_000 } } },
      /^admin, workers: cannot change without a restart; restart the gateway, or undo the change$/,
    ],
    [{ upstream: `${gateway.adminUrl}/mcp` }, /does not speak MCP/],
    [{ route: { id: 'other' } }, /^routes\[0\]\.id: \/mcp was the path of "mcp", .* keep the id/],
  ] as const) {
    const line = await gateway.reload(change);
    expect(line).toMatchObject({
      event: 'config.refused',
      problem: expect.stringMatching(problem),
    });
    expect(await successful()).toBe(0);
  }
  expect(await succeededAt()).toBe(startedAt);
  expect(text(await call(gateway, 'ask', answersOf(asked, 'Ada')))).toBe('Ada 2');
  expect(
    await gateway.reload({ config: { log: { level: 'info', format: 'json' } } }),
  ).toMatchObject({ event: 'config.reloaded', changed: '', settings: 'log' });
  expect(await successful()).toBe(1);
  expect(await succeededAt()).toBeGreaterThan(startedAt ?? Infinity);
});
