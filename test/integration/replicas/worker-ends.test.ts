/** Workers that are killed, that end again and again, or that are told to stop. */
import { setTimeout as sleep } from 'node:timers/promises';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  redisServer,
  replica,
  replicas,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import type { Exchanged } from '../../fixtures/clients/modern-client.ts';
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

/** False for a process that has ended and is not reaped yet, too (Linux). */
function isRunning(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

test('at another gateway, the call of a killed worker is not waited for', async () => {
  const { tools } = greeter();
  const legacy = await legacyServer({ tools, keepsEvents: true });
  const [gateway, other] = await replicas(legacy, 2, { config: { workers: 2 } });
  const asked = await call(gateway);
  process.kill(pidOf(gateway, await lastOwner(gateway)), 'SIGKILL');
  await gateway.saw('worker.ended');
  expect(text(await call(other, answersOf(asked, 'Ada')))).toBe('Hello Ada');
  expect(await other.recoveries()).toEqual(['reattach']);
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
  expect(
    (await gateway.recoveries()).filter((recoveredBy) => recoveredBy === 'reattach'),
  ).toHaveLength(lost);
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
    Array.from({ length: 24 }, async () => call(gateway, answersOf(await call(gateway), 'Ada'))),
  );
  expect(answers.map(text)).toEqual(answers.map(() => 'Hello Ada'));
  expect(await gateway.recoveries()).toContain('relay');
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

// Rule upgrade-5.
test('workers of another version than their primary say so, and end the gateway', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'mrtr-gateway-workers-'));
  stopAfterTest(async () => rmSync(folder, { recursive: true }));
  const isReplaced = join(folder, 'is-replaced');
  const { gateway } = await twoWorkers({
    env: preload(`
      import { existsSync } from 'node:fs';
      const { emit } = process;
      process.emit = function (name, message, ...rest) {
        const isStart = name === 'message' && message.type === 'start';
        if (isStart && existsSync(${JSON.stringify(isReplaced)})) message.version = '0.0.0';
        return emit.call(this, name, message, ...rest);
      };`),
  });
  writeFileSync(isReplaced, '');
  const ended = gateway.ended();
  process.kill(pids(gateway)[0] ?? 0, 'SIGKILL');
  expect(await ended).toBe(70);
  const [killed, ...others] = gateway.named('worker.ended').map(({ problem }) => problem);
  expect(killed).toBe('SIGKILL');
  expect(others).toHaveLength(4);
  for (const problem of others) {
    expect(problem).toMatch(/^the gateway runs version 0\.0\.0, .*; start it again$/);
  }
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
  const running: Promise<Exchanged>[] = [];
  // The system chooses the worker of each connection.
  while (new Set(gateway.named('call.started').map(({ worker }) => worker)).size < 2) {
    running.push(call(gateway));
    await gateway.saw('call.started', running.length);
  }
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
