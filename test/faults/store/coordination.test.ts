/**
 * What replicas tell each other goes through a store and a network that fail in part: a failover, a
 * Cluster, replies that get lost, replicas that do not reach each other. A call still has its effect
 * once, and what the fleet keeps of it goes by itself.
 */
import type { Redis } from 'ioredis';
import { describe, expect, test } from 'vitest';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  redisServer,
  replica,
  replicas,
  slowGreeter,
  text,
  whileRetryable,
} from '../../fixtures/gateways/replica-testbed.ts';
import type {
  GatewayProcess,
  GatewayProcessOptions,
} from '../../fixtures/gateways/gateway-process.ts';
import type { LegacyServer } from '../../fixtures/servers/legacy-server.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { freePort } from '../../fixtures/processes.ts';
import { overseer, redisCluster, sentinelGroup } from '../../fixtures/redis/redis-topologies.ts';
import { Severable } from '../../fixtures/network/flaky-proxy.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

describe('a store of several servers', { tags: ['redis'] }, () => {
  test('that fails over while calls are parked loses none: here, relayed or resumed', async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const store = await sentinelGroup();
    const [one, other] = await replicas(legacy, 2, { config: store.config });
    const [here, relayed, takenUp] = [
      await callTool(one.url, 'greet'),
      await callTool(one.url, 'greet'),
      await callTool(one.url, 'greet'),
    ];
    const promoted = await store.failOver();
    expect(text(await callTool(one.url, 'greet', answersOf(here, 'Ada')))).toBe('Hello Ada');
    expect(text(await callTool(other.url, 'greet', answersOf(relayed, 'Eve')))).toBe('Hello Eve');
    await servedBy(promoted, 2);
    await one.kill();
    // A replica that learns late of the failover reconnects, and says so until it has.
    const zoe = answersOf(takenUp, 'Zoe');
    const last = await whileRetryable(() => callTool(other.url, 'greet', zoe));
    expect(text(last)).toBe('Hello Zoe');
    expect([await other.recoveries(), effects]).toEqual([
      ['relay', 'reattach'],
      ['Ada', 'Eve', 'Zoe'],
    ]);
    // One claim has decided who goes on with the call: that of its home.
    expect(await promoted.keys('mrtr:*:claim')).toHaveLength(1);
  });

  test(
    'that is a Cluster serves calls on every node of it: claimed once, repeated, and expired by themselves',
    { tags: ['long'] },
    async () => {
      const { effects, tools } = greeter();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const { nodes, config } = await redisCluster();
      const [one, other, third] = await replicas(legacy, 3, { config, route: WITHOUT_HOMES });
      const names = Array.from({ length: 16 }, (_, index) => `caller ${index}`);
      const asked = await Promise.all(names.map(() => callTool(one.url, 'greet')));
      await one.kill();
      const retry = (gateway: GatewayProcess) =>
        Promise.all(
          asked.map((each, index) =>
            callTool(gateway.url, 'greet', answersOf(each, names[index] ?? '')),
          ),
        );
      const done = await Promise.all([retry(other), retry(third)]);
      const expected = names.map((name) => `Hello ${name}`);
      expect(done.map((answers) => answers.map(text))).toEqual([expected, expected]);
      expect(effects.toSorted()).toEqual(names.toSorted());
      const clients = nodes.map(overseer);
      const claims = await Promise.all(clients.map((client) => claimsOfCalls(client)));
      expect(claims.flat()).toHaveLength(names.length);
      expect(claims.filter((keys) => keys.length > 0).length).toBeGreaterThan(1);
      for (const client of clients) expect(await endless(client)).toEqual([]);
    },
  );
});

/** The claims of calls that are in homes of their own. Homes of callers have some, too. */
async function claimsOfCalls(client: Pick<Redis, 'keys'>): Promise<string[]> {
  return (await client.keys('mrtr:*:claim')).filter((key) => !key.includes('{home:'));
}

/** Each call has a session of its own. */
const WITHOUT_HOMES = { sessions: { concurrency: 'separate' } };

describe('what the store holds', { tags: ['redis'] }, () => {
  // Rule store-9.
  test('of calls that are parked is nothing: only their owners show that they live, and the homes of callers', async () => {
    const { tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const redis = await redisServer();
    const [one] = await replicas(legacy, 1, { redis: redis.url });
    await Promise.all(Array.from({ length: 30 }, () => callTool(one.url, 'greet')));
    const keys = await overseer(redis).keys('*');
    const ofHomes = keys.filter((key) => key.includes('{home:'));
    expect(ofHomes.map((key) => key.split(':').at(-1)).sort()).toEqual([
      'claim',
      'session',
      'token',
    ]);
    // What the server said to the gateway itself is of no call.
    const others = keys.filter((key) => !ofHomes.includes(key) && !key.includes('{greeting:'));
    expect(others).toEqual([expect.stringMatching(/:lease$/)]);
  });
});

describe('a claim whose reply got lost', { tags: ['redis'] }, () => {
  // Rule store-1.
  test('is given up when the store is back, so that any replica goes on with the call', async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const redis = await redisServer();
    const way = await wayTo(redis.port);
    const [one, third] = await replicas(legacy, 2, { redis: redis.url, route: WITHOUT_HOMES });
    const throughWay = new URL(`redis://127.0.0.1:${way.port}`);
    const claimer = await replica(legacy, { redis: throughWay, route: WITHOUT_HOMES });
    const asked = await callTool(one.url, 'greet');
    const answers = answersOf(asked, 'Ada');
    await one.kill();
    const store = overseer(redis);
    let evals = 0;
    way.watch((chunk) => {
      // Redis gets the claim, and not that it is given up.
      if (/\beval\b/i.test(chunk.toString())) way.cut((evals += 1) === 1 ? 'back' : 'both');
    });
    const unsure = await callTool(claimer.url, 'greet', answers);
    expect(reasonOf(unsure)).toBe('coordination_unavailable');
    expect(effects).toEqual([]);
    const [claim = ''] = await claimsOfCalls(store);
    const made = (await store.get(claim)) ?? '{}';
    // Its signs of life get through as well, though it does not know.
    const { instance } = JSON.parse(made).owner;
    const signs = setInterval(() => {
      void store.set(`mrtr:fault-tests:{${instance}}:lease`, 'alive', 'PX', 5_000);
    }, 500);
    const refused = await callTool(third.url, 'greet', answers);
    clearInterval(signs);
    expect(reasonOf(refused)).toBe('coordination_unavailable');
    way.watch(() => {});
    way.mend();
    await claimer.saw('redis.up', 2);
    await expect.poll(() => store.get(claim)).toBeNull();
    expect(text(await callTool(third.url, 'greet', answers))).toBe('Hello Ada');
    expect(JSON.parse((await store.get(claim)) ?? '{}').fencingToken).toBe(2);
    expect(text(await callTool(claimer.url, 'greet', answers))).toBe('Hello Ada');
    expect(effects).toEqual(['Ada']);
  });
});

describe('replicas that do not reach each other, but the store', { tags: ['redis'] }, () => {
  // Rule relay-3.
  test(
    'leave a call where its caller has the home, and serve it when they do',
    { tags: ['long'] },
    async () => {
      const { effects, tools } = greeter();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const { url: redis } = await redisServer();
      const { owner, way } = await reachableBy(legacy, { redis });
      const other = await replica(legacy, { redis });
      const asked = await callTool(owner.url, 'greet');
      const answers = answersOf(asked, 'Ada');
      way.cut();
      const refused = await callTool(other.url, 'greet', answers);
      expect(reasonOf(refused)).toBe('coordination_unavailable');
      expect(refused.response.error.data.retryable).toBe(true);
      expect(effects).toEqual([]);
      way.mend();
      const retry = () => callTool(other.url, 'greet', answers);
      expect(text(await whileRetryable(retry))).toBe('Hello Ada');
      expect(await other.recoveries()).toEqual(['relay']);
    },
  );

  test('still serve a retry of a call without a home, and its owner leaves the call alone', async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const { url: redis } = await redisServer();
    const { owner, way } = await reachableBy(legacy, { redis, route: WITHOUT_HOMES });
    const other = await replica(legacy, { redis, route: WITHOUT_HOMES });
    const asked = await callTool(owner.url, 'greet');
    const answers = answersOf(asked, 'Ada');
    way.cut();
    expect(text(await callTool(other.url, 'greet', answers))).toBe('Hello Ada');
    expect(await other.recoveries()).toEqual(['reattach']);
    expect(text(await callTool(owner.url, 'greet', answers))).toBe('Hello Ada');
    expect(legacy.methods()).not.toContain('notifications/cancelled');
    expect(effects).toEqual(['Ada']);
  });

  // Rule store-3.
  test(
    'in one direction only: an outcome that could not be brought back is found in the store',
    { tags: ['long'] },
    async () => {
      const { effects, tools } = greeter();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const { url: redis } = await redisServer();
      const { owner, way } = await reachableBy(legacy, { redis, route: WITHOUT_HOMES });
      const other = await replica(legacy, { redis, route: WITHOUT_HOMES });
      const asked = await callTool(owner.url, 'greet');
      way.cut('back');
      expect(text(await callTool(other.url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
      expect(effects).toEqual(['Ada']);
      expect(legacy.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
    },
  );

  // Rule store-7.
  test(
    'in one direction only: a running call is resumed elsewhere, and its owner does not cancel it',
    { tags: ['long'] },
    async () => {
      const { effects, tools, finish } = slowGreeter();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const { url: redis } = await redisServer();
      const { owner, way } = await reachableBy(legacy, { redis, route: WITHOUT_HOMES });
      const other = await replica(legacy, { redis, route: WITHOUT_HOMES });
      const asked = await callTool(owner.url, 'greet');
      way.cut('back');
      const retried = callTool(other.url, 'greet', answersOf(asked, 'Ada'));
      await other.saw('call.resumed');
      finish();
      expect(text(await retried)).toBe('Hello Ada');
      expect((await owner.saw('call.ended'))[0]?.['end']).toBe('left');
      expect(legacy.methods()).not.toContain('notifications/cancelled');
      expect(effects).toEqual(['Ada']);
    },
  );
});

// Rule store-10: Without a store, two replicas can read one call. The tool acts once.
test('replicas that do not reach each other and share no store have the effect once', async () => {
  const { effects, tools } = greeter();
  const legacy = await legacyServer({ tools, keepsEvents: true });
  const { owner, way } = await reachableBy(legacy);
  const other = await replica(legacy);
  const asked = await callTool(owner.url, 'greet');
  const answers = answersOf(asked, 'Ada');
  way.cut();
  const done = await Promise.all([owner, other].map(({ url }) => callTool(url, 'greet', answers)));
  expect(done.map(text)).toContain('Hello Ada');
  expect(effects).toEqual(['Ada']);
});

/** An owner, and the way by which the others reach it. */
async function reachableBy(
  legacy: LegacyServer,
  options: Partial<GatewayProcessOptions> = {},
): Promise<{ owner: GatewayProcess; way: Severable }> {
  const port = await freePort();
  const way = await wayTo(port);
  const advertise = `http://127.0.0.1:${way.port}`;
  const relay = { listen: `127.0.0.1:${port}`, advertise };
  return { owner: await replica(legacy, { ...options, config: { relay } }), way };
}

async function wayTo(port: number): Promise<Severable> {
  const way = await Severable.to({ host: '127.0.0.1', port });
  stopAfterTest(() => way.stop());
  return way;
}

/** Resolves when so many gateways have written to the server: what they wrote before does not count. */
async function servedBy(redis: Redis, gateways: number): Promise<void> {
  const leases = () => redis.keys('mrtr:*:lease');
  const written = await leases();
  if (written.length > 0) await redis.del(...written);
  await expect.poll(leases, { timeout: 20_000, interval: 20 }).toHaveLength(gateways);
}

/** The keys that would stay for ever. */
async function endless(redis: Redis): Promise<string[]> {
  const keys = await redis.keys('*');
  const lives = await Promise.all(keys.map((key) => redis.pttl(key)));
  return keys.filter((_, index) => (lives[index] ?? -1) < 0);
}
