/** A gateway of several worker processes, over real sockets. Every request opens a connection of its own. */
import { setTimeout as sleep } from 'node:timers/promises';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { callTool, type Exchanged } from '../../fixtures/clients/modern-client.ts';
import type {
  GatewayProcess,
  GatewayProcessOptions,
} from '../../fixtures/gateways/gateway-process.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  redisServer,
  replica,
  replicas,
  stateOf,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const NEW_CONNECTION = { headers: { connection: 'close' } };
const TWO = { config: { workers: 2 }, relay: false };

function call(gateway: GatewayProcess, more: object = {}): Promise<Exchanged> {
  return callTool(gateway.url, 'greet', more, NEW_CONNECTION);
}

async function twoWorkers(options: Partial<GatewayProcessOptions> = {}, keepsEvents = false) {
  const { tools, effects } = greeter();
  const legacy = await legacyServer({ tools, keepsEvents });
  const gateway = await replica(legacy, {
    ...TWO,
    ...options,
    config: { ...TWO.config, ...options.config },
  });
  return { gateway, effects };
}

/** The processes of the workers, in the order in which they started. */
function pids(gateway: GatewayProcess): number[] {
  return gateway.named('worker.started').map(({ pid }) => Number(pid));
}

/** The worker that parked the call that was parked last. */
async function lastOwner(gateway: GatewayProcess): Promise<number> {
  return Number((await gateway.written('call.parked')).at(-1)?.['worker']);
}

function pidOf(gateway: GatewayProcess, worker: number): number {
  const started = gateway.named('worker.started').findLast((line) => line['worker'] === worker);
  return Number(started?.['pid']);
}

/** The environment in which every process of a gateway runs this module first. */
function preload(code: string): Record<string, string> {
  return { NODE_OPTIONS: `--import=data:text/javascript,${encodeURIComponent(code)}` };
}

/** False for a process that has ended and is not reaped yet, too (Linux). */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

test('a retry on any connection is served, by its worker or by one hop to it', async () => {
  const { gateway, effects } = await twoWorkers();
  const names = Array.from({ length: 24 }, (_, index) => `name ${index}`);
  const answers = await Promise.all(
    names.map(async (name) => call(gateway, answersOf(await call(gateway), name))),
  );
  expect(answers.map(text)).toEqual(names.map((name) => `Hello ${name}`));
  expect(effects.toSorted()).toEqual(names.toSorted());
  const rungs = await gateway.rungs();
  // The owner logs each retry as served here, and the other worker that it was relayed, once.
  expect(rungs.filter((rung) => rung === 'here')).toHaveLength(names.length);
  const relayed = rungs.filter((rung) => rung === 'relay').length;
  expect(relayed).toBeGreaterThan(0);
  expect(relayed).toBeLessThan(names.length);
  expect(rungs).toHaveLength(names.length + relayed);
  expect(new Set(gateway.named('call.parked').map(({ worker }) => worker))).toEqual(
    new Set([1, 2]),
  );
});

test('without configured keys, all workers seal with one that the primary generated', async () => {
  const { gateway } = await twoWorkers({ config: { seal: {} } });
  const answers = await Promise.all(
    Array.from({ length: 12 }, async () => call(gateway, answersOf(await call(gateway), 'Ada'))),
  );
  expect(answers.map(text)).toEqual(answers.map(() => 'Hello Ada'));
  expect(await gateway.rungs()).toContain('relay');
  expect(gateway.named('gateway.key_ephemeral')).toHaveLength(1);
});

test('a retry at another gateway reaches the worker that holds its call through the one relay listener', async () => {
  const { tools, effects } = greeter();
  const legacy = await legacyServer({ tools });
  const [gateway, other] = await replicas(legacy, 2, { config: { workers: 2 } });
  const names = Array.from({ length: 12 }, (_, index) => `name ${index}`);
  const answers = await Promise.all(
    names.map(async (name) => call(other, answersOf(await call(gateway), name))),
  );
  expect(answers.map(text)).toEqual(names.map((name) => `Hello ${name}`));
  expect(effects.toSorted()).toEqual(names.toSorted());
  expect(new Set((await gateway.written('call.parked')).map(({ worker }) => worker)).size).toBe(2);
  expect(await gateway.rungs()).toEqual(names.map(() => 'here'));
  expect(await other.rungs()).toEqual(names.map(() => 'relay'));
});

test('at another gateway, the call of a killed worker is not waited for', async () => {
  const { tools } = greeter();
  const legacy = await legacyServer({ tools, keepsEvents: true });
  const [gateway, other] = await replicas(legacy, 2, { config: { workers: 2 } });
  const asked = await call(gateway);
  process.kill(pidOf(gateway, await lastOwner(gateway)), 'SIGKILL');
  await gateway.saw('worker.ended');
  expect(text(await call(other, answersOf(asked, 'Ada')))).toBe('Hello Ada');
  expect(await other.rungs()).toEqual(['reattach']);
});

test('when a worker is killed, another resumes its parked calls at once', async () => {
  const { gateway, effects } = await twoWorkers({}, true);
  const asked = await Promise.all(Array.from({ length: 8 }, () => call(gateway)));
  const owner = await lastOwner(gateway);
  const lost = gateway.named('call.parked').filter(({ worker }) => worker === owner).length;
  process.kill(pidOf(gateway, owner), 'SIGKILL');
  await gateway.saw('worker.ended');
  const answers = await Promise.all(asked.map((one) => call(gateway, answersOf(one, 'Ada'))));
  expect(answers.map(text)).toEqual(asked.map(() => 'Hello Ada'));
  expect(effects).toHaveLength(asked.length);
  expect((await gateway.rungs()).filter((rung) => rung === 'reattach')).toHaveLength(lost);
});

test('calls of a killed worker that nobody can resume are lost at once', async () => {
  const { gateway } = await twoWorkers();
  const asked = await call(gateway);
  process.kill(pidOf(gateway, await lastOwner(gateway)), 'SIGKILL');
  await gateway.saw('worker.ended');
  expect(reasonOf(await call(gateway, answersOf(asked, 'Ada')))).toBe('call_lost');
});

test(
  'with Redis, the calls of a killed worker are not held by its lease',
  { tags: ['redis'] },
  async () => {
    const redis = await redisServer();
    const { gateway, effects } = await twoWorkers({ redis: redis.url }, true);
    const asked = await call(gateway);
    process.kill(pidOf(gateway, await lastOwner(gateway)), 'SIGKILL');
    await gateway.saw('worker.ended');
    expect(text(await call(gateway, answersOf(asked, 'Ada')))).toBe('Hello Ada');
    expect(effects).toEqual(['Ada']);
  },
);

test('a worker that ends is logged and replaced, and its replacement relays', async () => {
  const { gateway } = await twoWorkers();
  const [first = 0] = pids(gateway);
  process.kill(first, 'SIGKILL');
  const [ended] = await gateway.saw('worker.ended');
  expect(ended).toMatchObject({ pid: first, problem: 'SIGKILL', restartMs: 100 });
  const started = await gateway.saw('worker.started', 3);
  expect(started.at(-1)).toMatchObject({ worker: ended?.['worker'] });
  const answers = await Promise.all(
    Array.from({ length: 16 }, async () => call(gateway, answersOf(await call(gateway), 'Ada'))),
  );
  expect(answers.map(text)).toEqual(answers.map(() => 'Hello Ada'));
  expect(await gateway.rungs()).toContain('relay');
  const workers = gateway.named('call.parked').map(({ worker }) => worker);
  expect(new Set(workers)).toEqual(new Set([1, 2]));
});

test('workers that end again and again end the gateway, with exit code 70', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'mrtr-gateway-workers-'));
  stopAfterTest(async () => rmSync(folder, { recursive: true }));
  const isBroken = join(folder, 'is-broken');
  const { gateway } = await twoWorkers({
    env: preload(`
      import { existsSync } from 'node:fs';
      if (process.argv[2] === 'worker' && existsSync(${JSON.stringify(isBroken)})) process.exit(9);`),
  });
  writeFileSync(isBroken, '');
  const ended = gateway.ended();
  process.kill(pids(gateway)[0] ?? 0, 'SIGKILL');
  expect(await ended).toBe(70);
  expect(
    gateway.named('worker.ended').map(({ problem, restartMs }) => [problem, restartMs]),
  ).toEqual([
    ['SIGKILL', 100],
    ['exit code 9', 300],
    ['exit code 9', 900],
    ['exit code 9', 2_700],
    ['exit code 9', null],
  ]);
  expect(gateway.named('gateway.draining')).toHaveLength(1);
  expect(gateway.named('gateway.crashed')).toHaveLength(1);
  expect(pids(gateway).filter(isRunning)).toEqual([]);
});

test('SIGTERM drains all workers together', async () => {
  const finishing = Promise.withResolvers<void>();
  const tools = {
    greet: async () => {
      await finishing.promise;
      return 'done';
    },
  };
  const legacy = await legacyServer({ tools });
  const gateway = await replica(legacy, TWO);
  const running = Array.from({ length: 8 }, () => call(gateway));
  await gateway.saw('call.started', 8);
  expect(new Set(gateway.named('call.started').map(({ worker }) => worker)).size).toBe(2);
  const drained = gateway.drain();
  const draining = await gateway.saw('gateway.draining', 2);
  expect(draining.map(({ worker }) => worker).toSorted()).toEqual([1, 2]);
  finishing.resolve();
  expect((await Promise.all(running)).map(text)).toEqual(running.map(() => 'done'));
  expect(await drained).toBe(0);
  expect(gateway.named('worker.ended')).toEqual([]);
  expect(pids(gateway).filter(isRunning)).toEqual([]);
});

test('a signal to every process, as from a terminal, drains once', async () => {
  const { gateway } = await twoWorkers();
  await call(gateway);
  for (const pid of pids(gateway)) process.kill(pid, 'SIGTERM');
  expect(await gateway.drain()).toBe(0);
  expect(gateway.named('gateway.draining')).toHaveLength(2);
  expect(gateway.named('worker.ended')).toEqual([]);
});

test('a second signal ends all workers at once', async () => {
  const tools = { greet: () => new Promise<string>(() => {}) };
  const legacy = await legacyServer({ tools });
  const gateway = await replica(legacy, { ...TWO, config: { ...TWO.config, drain: {} } });
  call(gateway).catch(() => {});
  await gateway.saw('call.started');
  const ended = gateway.drain();
  await gateway.saw('gateway.draining', 2);
  // Two signals within half a second count as one.
  await sleep(600);
  expect(await gateway.drain()).toBe(143);
  expect(await ended).toBe(143);
  await expect.poll(() => pids(gateway).filter(isRunning)).toEqual([]);
});

test('workers do not outlive their primary', async () => {
  const { gateway } = await twoWorkers();
  const workers = pids(gateway);
  await gateway.kill();
  await expect.poll(() => workers.filter(isRunning)).toEqual([]);
});

test('metrics are the sums over all workers, and do not fall when one ends', async () => {
  const { gateway } = await twoWorkers();
  await Promise.all(Array.from({ length: 10 }, () => call(gateway)));
  const parked = 'mrtr_gateway_parked_calls{route="mcp"}';
  const rounds = 'mrtr_gateway_rounds_total{route="mcp"}';
  expect(await gateway.metric(parked)).toBe(10);
  expect(await gateway.metric(rounds)).toBe(10);
  expect(await gateway.metric('mrtr_gateway_workers')).toBe(2);
  const owner = await lastOwner(gateway);
  const lost = gateway.named('call.parked').filter(({ worker }) => worker === owner).length;
  process.kill(pidOf(gateway, owner), 'SIGKILL');
  await gateway.saw('worker.started', 3);
  expect(await gateway.metric(rounds)).toBe(10);
  expect(await gateway.metric(parked)).toBe(10 - lost);
  expect(await gateway.metric('mrtr_gateway_worker_ends_total')).toBe(1);
});

test('the gateway is ready while a worker is replaced, and not healthy while one is stuck', async () => {
  const { gateway } = await twoWorkers();
  const [first = 0, second = 0] = pids(gateway);
  const status = async (path: string) => (await fetch(`${gateway.adminUrl}${path}`)).status;
  expect(await status('/healthz')).toBe(200);
  process.kill(first, 'SIGKILL');
  await gateway.saw('worker.ended');
  expect(await status('/readyz')).toBe(200);
  await gateway.saw('worker.started', 3);
  process.kill(second, 'SIGSTOP');
  expect(await status('/healthz')).toBe(503);
  process.kill(second, 'SIGCONT');
  expect(await status('/healthz')).toBe(200);
});

test('limits count the calls of all workers', async () => {
  const limits = { maxParkedCalls: 12, maxParkedCallsPerPrincipal: 12 };
  const { gateway } = await twoWorkers({ config: { limits } });
  const asked: Exchanged[] = [];
  for (let times = 0; times < 12; times += 1) {
    asked.push(await call(gateway));
    // The delay after which a worker knows the counts of the others.
    await sleep(100);
  }
  expect(new Set((await gateway.written('call.parked')).map(({ worker }) => worker)).size).toBe(2);
  for (let times = 0; times < 8; times += 1) {
    const refused = await call(gateway);
    expect(reasonOf(refused)).toBe('too_many_parked_calls');
  }
  const [one] = asked;
  if (one !== undefined) await call(gateway, answersOf(one, 'Ada'));
  await sleep(100);
  expect(stateOf(await call(gateway))).toEqual(expect.any(String));
});

test('"auto" starts a worker for each core', async () => {
  const legacy = await legacyServer({ tools: greeter().tools });
  const gateway = await replica(legacy, { ...TWO, config: { workers: 'auto' } });
  const cores = availableParallelism();
  expect(gateway.named('worker.started')).toHaveLength(cores === 1 ? 0 : cores);
});

test('a platform on which processes cannot share a port gets one process, and a line in the log', async () => {
  const env = preload(`
    import net from 'node:net';
    const { listen } = net.Server.prototype;
    net.Server.prototype.listen = function (...args) {
      if (args[0]?.reusePort) throw Object.assign(new Error('listen ENOTSUP'), { code: 'ENOTSUP' });
      return listen.apply(this, args);
    };`);
  const legacy = await legacyServer({ tools: greeter().tools });
  const gateway = await replica(legacy, { ...TWO, env });
  expect(gateway.named('gateway.one_worker')).toHaveLength(1);
  expect(gateway.named('worker.started')).toEqual([]);
  expect(text(await call(gateway, answersOf(await call(gateway), 'Ada')))).toBe('Hello Ada');
});

test('a port that another gateway of several workers uses is in use', async () => {
  const { gateway } = await twoWorkers();
  const listen = new URL(gateway.url).host;
  await expect(twoWorkers({ config: { listen } })).rejects.toThrow(
    /^the gateway ended with 73: \[.*"gateway\.start_failed","code":"port_in_use","problem":"[^"]* is in use by another process/,
  );
});

test('a server that is no MCP server is one message, and ends the gateway', async () => {
  const web = createServer((_request, response) => response.writeHead(404).end('<h1>Hi</h1>'));
  web.listen(0, '127.0.0.1');
  await once(web, 'listening');
  stopAfterTest(async () => void web.close());
  const url = `http://127.0.0.1:${(web.address() as AddressInfo).port}/mcp`;
  await expect(replica({ url }, TWO)).rejects.toThrow(
    /^the gateway ended with 69: (?:(?!start_failed).)*"gateway\.start_failed"(?:(?!start_failed).)*$/,
  );
});
