/** Replicas that cannot reach each other: the relay goes through the store that they share. */
import { describe, expect, test } from 'vitest';
import {
  answersOf,
  greeter,
  legacyServer,
  redisServer,
  replicas,
  slowGreeter,
  text,
  whileRetryable,
} from '../../fixtures/gateways/replica-testbed.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { monitored, overseer } from '../../fixtures/redis/redis-topologies.ts';

const options = (redis: URL) => ({ redis, relay: false, config: { relay: { via: 'redis' } } });

describe('a retry that lands on another replica', { tags: ['redis'] }, () => {
  // Rule relay-13: With `relay.via: redis`, messages go through lists in Redis, which expire, and hold at most 10,000
  // messages and 64 MiB.
  test('whose owner is frozen is served by the next recovery', async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const { url } = await redisServer();
    const [one, other] = await replicas(legacy, 2, options(url));
    const asked = await callTool(one.url, 'greet');
    one.freeze();
    const done = await callTool(other.url, 'greet', answersOf(asked, 'Augusta'));
    expect(text(done)).toBe('Hello Augusta');
    expect(await other.recoveries()).toEqual(['reattach']);
    expect(effects).toEqual(['Augusta']);
  });

  // Rule relay-13.
  test('is written to the store unreadably, in a queue that expires', async () => {
    const { tools } = greeter();
    const { url } = await redisServer();
    const written: string[] = [];
    await monitored(overseer(url), (words) => written.push(words.join(' ')));
    const [one, other] = await replicas(await legacyServer({ tools }), 2, options(url));
    const asked = await callTool(one.url, 'greet');
    await callTool(other.url, 'greet', answersOf(asked, 'Augusta'));
    expect(written.filter((command) => /rpush .*:mail /i.test(command)).length).toBeGreaterThan(1);
    expect(written.filter((command) => /pexpire .*:mail /i.test(command)).length).toBeGreaterThan(
      1,
    );
    expect(written.filter((command) => /Augusta|\bgreet\b/i.test(command))).toEqual([]);
  });

  test('finds the owner again when the store was unreachable', async () => {
    const { tools } = greeter();
    const redis = await redisServer();
    const [one, other] = await replicas(await legacyServer({ tools }), 2, options(redis.url));
    const asked = await callTool(one.url, 'greet');
    await redis.kill();
    await Promise.all([one.saw('redis.down'), other.saw('redis.down')]);
    await redis.restart();
    await Promise.all([one.saw('redis.up', 2), other.saw('redis.up', 2)]);
    // The mailbox has connections of its own, which may be back a moment later: until then the answer
    // says that the retry may be repeated.
    const answers = answersOf(asked, 'Ada');
    const done = await whileRetryable(() => callTool(other.url, 'greet', answers));
    expect(text(done)).toBe('Hello Ada');
  });

  // Rule relay-3.
  test(
    'and that the client must repeat, since the store was unavailable, finds its call when it is repeated',
    { tags: ['long'], timeout: 60_000 },
    async () => {
      const { effects, tools, finish } = slowGreeter();
      const legacy = await legacyServer({ tools });
      const store = await redisServer();
      const [one, other] = await replicas(legacy, 2, options(store.url));
      const asked = await callTool(one.url, 'greet');
      const refused = callTool(other.url, 'greet', answersOf(asked, 'Ada'));
      await legacy.saw('response');
      await store.kill();
      expect((await refused).response.error?.data).toMatchObject({ retryable: true });
      await store.restart();
      const signs = new Map<string, number>();
      await monitored(overseer(store), ([command, key = '']) => {
        if (command?.toLowerCase() === 'rpush') signs.set(key, (signs.get(key) ?? 0) + 1);
      });
      // The owner was told that the client retries: it sends heartbeats for longer than a client may
      // be silent.
      const most = () => Math.max(0, ...signs.values());
      await expect.poll(most, { timeout: 15_000 }).toBeGreaterThan(14);
      const done = callTool(other.url, 'greet', answersOf(asked, 'Ada'));
      finish();
      expect(text(await done)).toBe('Hello Ada');
      expect(effects).toEqual(['Ada']);
    },
  );
});
