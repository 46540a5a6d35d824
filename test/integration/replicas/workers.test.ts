/** A gateway of several worker processes, over real sockets. Every request opens a connection of its own. */
import { setTimeout as sleep } from 'node:timers/promises';
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { availableParallelism } from 'node:os';
import { expect, test } from 'vitest';
import type { Exchanged } from '../../fixtures/clients/modern-client.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  replica,
  replicas,
  stateOf,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import {
  call,
  lastOwner,
  pidOf,
  pids,
  preload,
  TWO,
  twoWorkers,
} from '../../fixtures/gateways/two-workers.ts';

test('a retry on any connection is served, by its worker or by one hop to it', async () => {
  const { gateway, effects } = await twoWorkers();
  const names = Array.from({ length: 24 }, (_, index) => `name ${index}`);
  const answers = await Promise.all(
    names.map(async (name) => call(gateway, answersOf(await call(gateway), name))),
  );
  expect(answers.map(text)).toEqual(names.map((name) => `Hello ${name}`));
  expect(effects.toSorted()).toEqual(names.toSorted());
  const recoveries = await gateway.recoveries();
  // The owner logs each retry as served here, and the other worker that it was relayed, once.
  expect(recoveries.filter((recoveredBy) => recoveredBy === 'here')).toHaveLength(names.length);
  const relayed = recoveries.filter((recoveredBy) => recoveredBy === 'relay').length;
  expect(relayed).toBeGreaterThan(0);
  expect(relayed).toBeLessThan(names.length);
  expect(recoveries).toHaveLength(names.length + relayed);
  expect(new Set(gateway.named('call.parked').map(({ worker }) => worker))).toEqual(
    new Set([1, 2]),
  );
});

test('without configured keys, all workers seal with one that the primary generated', async () => {
  const { gateway } = await twoWorkers({ config: { seal: {} } });
  const answers = await Promise.all(
    Array.from({ length: 24 }, async () => call(gateway, answersOf(await call(gateway), 'Ada'))),
  );
  expect(answers.map(text)).toEqual(answers.map(() => 'Hello Ada'));
  expect(await gateway.recoveries()).toContain('relay');
  expect(gateway.named('gateway.key_ephemeral')).toHaveLength(1);
});

test('a retry at another gateway reaches the worker that holds its call through the one relay listener', async () => {
  const { tools, effects } = greeter();
  const legacy = await legacyServer({ tools });
  const [gateway, other] = await replicas(legacy, 2, { config: { workers: 2 } });
  const names = Array.from({ length: 24 }, (_, index) => `name ${index}`);
  const answers = await Promise.all(
    names.map(async (name) => call(other, answersOf(await call(gateway), name))),
  );
  expect(answers.map(text)).toEqual(names.map((name) => `Hello ${name}`));
  expect(effects.toSorted()).toEqual(names.toSorted());
  expect(new Set((await gateway.written('call.parked')).map(({ worker }) => worker)).size).toBe(2);
  expect(await gateway.recoveries()).toEqual(names.map(() => 'here'));
  expect(await other.recoveries()).toEqual(names.map(() => 'relay'));
});

test('workers that may have any port share one that nobody else can have taken meanwhile', async () => {
  // Whatever port the primary lets go of, somebody else has at once.
  const greedy = preload(`
    import { createServer, Server } from 'node:net';
    const { close } = Server.prototype;
    if (process.argv[2] !== 'worker') Server.prototype.close = function (...args) {
      const { port } = this.address() ?? {};
      this.once('close', () => createServer().listen(port, '127.0.0.1').unref());
      return close.apply(this, args);
    };`);
  const { gateway } = await twoWorkers({ env: greedy });
  await Promise.all(Array.from({ length: 24 }, () => call(gateway)));
  const workers = (await gateway.written('call.parked')).map(({ worker }) => worker);
  expect(new Set(workers)).toEqual(new Set([1, 2]));
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
  const limits = { maxParkedCalls: 20, maxParkedCallsPerPrincipal: 20 };
  const { gateway } = await twoWorkers({ config: { limits } });
  const asked: Exchanged[] = [];
  for (let times = 0; times < 20; times += 1) {
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
