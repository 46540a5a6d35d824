/** A gateway of several workers whose configuration changes: all of them have the same one, whatever happens meanwhile. */
import { once } from 'node:events';
import { createServer, type AddressInfo } from 'node:net';
import { expect, test } from 'vitest';
import { callTool, type Exchanged } from '../../fixtures/clients/modern-client.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  replica,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { until } from '../../fixtures/process-ids.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const NEW_CONNECTION = { headers: { connection: 'close' } };
const TWO = { config: { workers: 2 }, relay: false };
const NAMED = { questions: { keyNames: { greet: ['name'] } } };

function call({ url }: GatewayProcess, more: object = {}): Promise<Exchanged> {
  return callTool(url, 'greet', more, NEW_CONNECTION);
}

/** Calls until both workers have served some of the calls. */
async function callsOfBoth(gateway: GatewayProcess): Promise<Exchanged[]> {
  const before = gateway.named('call.parked').length;
  const asked: Exchanged[] = [];
  const workers = () =>
    new Set(
      gateway
        .named('call.parked')
        .slice(before)
        .map(({ worker }) => worker),
    );
  while (workers().size < 2) {
    asked.push(await call(gateway));
    await gateway.saw('call.parked', before + asked.length);
  }
  return asked;
}

const keysOf = (asked: readonly Exchanged[]) => [
  ...new Set(asked.flatMap(({ response }) => Object.keys(response.result.inputRequests))),
];

function pidOf(gateway: GatewayProcess, worker: number): number {
  const started = gateway.named('worker.started').findLast((line) => line['worker'] === worker);
  return Number(started?.['pid']);
}

/** A configuration with another route, whose server sends nothing: the reload waits for it for a while. */
async function withSilentRoute(url: string, route: object) {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  stopAfterTest(async () => server.close());
  const silent = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const routes = [
    { id: 'mcp', path: '/mcp', upstream: { url }, ...route },
    { id: 'slow', path: '/slow', upstream: { url: silent } },
  ];
  return { config: { workers: 2, routes } };
}

/** Has this worker reach another port in place of one. */
function detour(worker: number, from: string, to: string): Record<string, string> {
  const code = `
    import net from 'node:net';
    if (process.argv[2] === 'worker' && process.argv[3] === '${worker}') {
      const { connect } = net.Socket.prototype;
      net.Socket.prototype.connect = function (...args) {
        const [options] = [args[0]].flat();
        if (String(options?.port) === '${new URL(from).port}') options.port = ${new URL(to).port};
        return connect.apply(this, args);
      };
    }`;
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}` };
}

// Rule reload-8: With several workers, all of them have a new configuration, or none.
test('all workers have the new settings, and serve the calls that were parked before', async () => {
  const legacy = await legacyServer({ tools: greeter().tools });
  const gateway = await replica(legacy, TWO);
  const before = await callsOfBoth(gateway);
  expect(await gateway.reload({ route: NAMED })).toMatchObject({
    event: 'config.reloaded',
    changed: 'mcp',
  });
  expect(keysOf(await callsOfBoth(gateway))).toEqual(['name']);
  const answers = await Promise.all(before.map((asked) => call(gateway, answersOf(asked, 'Ada'))));
  expect(answers.map(text)).toEqual(before.map(() => 'Hello Ada'));
});

// Rule reload-8.
test('what one worker cannot use is in force in none', async () => {
  const legacy = await legacyServer({ tools: greeter().tools });
  const next = await legacyServer({ tools: greeter().tools });
  const other = await replica(legacy, { relay: false });
  const gateway = await replica(legacy, { ...TWO, env: detour(2, next.url, other.adminUrl) });
  expect(await gateway.reload({ upstream: next.url, route: NAMED })).toMatchObject({
    event: 'config.refused',
    problem: expect.stringMatching(/does not speak MCP/),
  });
  expect(await gateway.metric('mrtr_gateway_config_last_reload_successful')).toBe(0);
  expect(keysOf(await callsOfBoth(gateway))).not.toContain('name');
  expect(next.methods()).not.toContain('tools/call');
  expect(await gateway.reload({ route: NAMED })).toMatchObject({ event: 'config.reloaded' });
  expect(keysOf(await callsOfBoth(gateway))).toEqual(['name']);
});

// Rule reload-8.
test(
  'the late response of a worker to an earlier configuration says nothing of the next one',
  { tags: ['long'], timeout: 120_000 },
  async () => {
    const legacy = await legacyServer({ tools: greeter().tools });
    const gateway = await replica(legacy, TWO);
    process.kill(pidOf(gateway, 2), 'SIGSTOP');
    await gateway.reload({ upstream: `${gateway.adminUrl}/mcp` });
    const problems = (await gateway.saw('config.refused', 2)).map(({ problem }) => problem);
    expect(problems).toEqual([
      expect.stringMatching(/does not speak MCP/),
      'worker 2 does not respond',
    ]);
    process.kill(pidOf(gateway, 2), 'SIGCONT');
    // This one takes longer.
    const next = await withSilentRoute(legacy.url, NAMED);
    expect(await gateway.reload(next)).toMatchObject({ event: 'config.reloaded' });
    expect(keysOf(await callsOfBoth(gateway))).toEqual(['name']);
  },
);

// Rule reload-8.
test(
  'a worker that is replaced during reloads has the last one',
  { tags: ['long'], timeout: 120_000 },
  async () => {
    const legacy = await legacyServer({ tools: greeter().tools });
    const gateway = await replica(legacy, TWO);
    const [first, last] = [
      await withSilentRoute(legacy.url, { parking: { maxRounds: 3 } }),
      await withSilentRoute(legacy.url, NAMED),
    ];
    const reloaded = gateway.reload(first);
    process.kill(pidOf(gateway, 1), 'SIGKILL');
    expect(await reloaded).toMatchObject({ event: 'config.reloaded' });
    expect(await gateway.reload(last)).toMatchObject({ event: 'config.reloaded' });
    await gateway.saw('worker.started', 3);
    await until(async () => keysOf(await callsOfBoth(gateway)).join() === 'name');
    expect(gateway.named('worker.ended')).toHaveLength(1);
  },
);
