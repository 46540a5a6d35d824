/**
 * Replicas that share a store: owners that freeze, clients that race, and the store itself failing. A
 * call has its effect once, whatever happens, and what cannot be settled is told as retryable.
 */
import { describe, expect, test } from 'vitest';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  redisServer,
  replicas,
  slowGreeter,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import type { RedisServer } from '../../fixtures/redis/redis-server.ts';
import { overseer } from '../../fixtures/redis/redis-topologies.ts';
import { Severable } from '../../fixtures/network/flaky-proxy.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

/** Levels as they stand in a log line. */
const LOUD = ['warn', 'error', 'fatal'];

describe('with a shared store', { tags: ['redis'] }, () => {
  test.each([
    ['over HTTP', { listen: '127.0.0.1:0' }],
    ['through the store', { via: 'redis' }],
  ])(
    'a clean stop of replicas that relay %s warns of nothing',
    { tags: ['long'] },
    async (_title, relay) => {
      const { tools } = greeter();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const { url } = await redisServer();
      const options = { redis: url, relay: false, config: { relay } };
      const [one, other] = await replicas(legacy, 2, options);
      const asked = await callTool(one.url, 'greet');
      expect(text(await callTool(other.url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
      await callTool(one.url, 'greet');
      for (const replica of [one, other]) {
        expect(await replica.drain()).toBe(0);
        await replica.saw('gateway.stopped');
        const lines = replica.lines();
        const stop = lines.findIndex(
          (line) => 'event' in line && line.event === 'gateway.draining',
        );
        expect(stop).toBeGreaterThan(0);
        const loud = lines
          .slice(stop)
          .filter((line) => 'level' in line && LOUD.includes(String(line.level)));
        expect(loud).toEqual([]);
      }
    },
  );

  describe('an owner that is frozen', () => {
    // Rule store-7.
    test('is replaced, and when it runs again it leaves the call alone', async () => {
      const { effects, tools } = greeter();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const { url } = await redisServer();
      const route = { parking: { ttl: '3s' } };
      const [one, other] = await replicas(legacy, 2, { redis: url, route });
      const asked = await callTool(one.url, 'greet');
      one.freeze();
      const done = await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
      one.thaw();
      expect(text(done)).toBe('Hello Ada');
      expect(await other.recoveries()).toEqual(['reattach']);
      await one.saw('call.ended');
      expect(legacy.methods()).not.toContain('notifications/cancelled');
      expect(effects).toEqual(['Ada']);
    });

    // Rule store-7.
    test(
      'does not end a call that is at work elsewhere when it wakes up',
      { tags: ['long'] },
      async () => {
        const { effects, tools, finish } = slowGreeter();
        const legacy = await legacyServer({ tools, keepsEvents: true });
        const { url } = await redisServer();
        const route = { parking: { ttl: '4s' } };
        const [one, other] = await replicas(legacy, 2, { redis: url, route });
        const asked = await callTool(one.url, 'greet');
        one.freeze();
        const retried = callTool(other.url, 'greet', answersOf(asked, 'Ada'));
        await other.saw('call.resumed');
        one.thaw();
        await one.saw('call.ended');
        finish();
        expect(text(await retried)).toBe('Hello Ada');
        expect(effects).toEqual(['Ada']);
      },
    );
  });

  // Rule reattach-7: If the server refuses a second reader with 409, the retry gets `coordination_unavailable` and
  // `data.retryable`.
  test(
    'a call whose frozen owner still has the only stream is not lost: it goes on when that is gone',
    { tags: ['long'] },
    async () => {
      const { effects, tools } = greeter();
      const legacy = await legacyServer({ tools, keepsEvents: 'for one reader' });
      const { url } = await redisServer();
      const [one, other, third] = await replicas(legacy, 3, { redis: url });
      const asked = await callTool(one.url, 'greet');
      one.freeze();
      const refused = await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
      expect(reasonOf(refused)).toBe('coordination_unavailable');
      expect(refused.response.error.data.retryable).toBe(true);
      await one.kill();
      // Whoever tried in vain holds the call no more.
      expect(text(await callTool(third.url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
      expect(effects).toEqual(['Ada']);
    },
  );

  describe('retries that race', () => {
    // Rule store-1 (MRTR, "Server Requirements" 5): Of several replicas, one takes up a call without its owner.
    // Identical retries get one outcome, and one of different ones counts.
    test('with the same answers get the same outcome, and the server is answered once', async () => {
      const { effects, tools } = greeter();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const { url } = await redisServer();
      const fleet = await replicas(legacy, 3, { redis: url });
      const asked = await callTool(fleet[0].url, 'greet');
      const answers = answersOf(asked, 'Ada');
      // A call lets 16 retries wait at once. Further ones are told to retry, and do.
      const retry = async (replica: string): Promise<Awaited<ReturnType<typeof callTool>>> => {
        const reply = await callTool(replica, 'greet', answers);
        if (reply.response.error === undefined) return reply;
        expect(reply.response.error.data).toMatchObject({ reason: 'overloaded', retryable: true });
        return retry(replica);
      };
      const retries = Array.from({ length: 99 }, (_, index) => retry(fleet[index % 3]!.url));
      const outcomes = new Set(
        (await Promise.all(retries)).map((one) => JSON.stringify(one.response.result)),
      );
      expect([...outcomes].map((outcome) => JSON.parse(outcome).content[0].text)).toEqual([
        'Hello Ada',
      ]);
      expect(effects).toEqual(['Ada']);
      expect(legacy.methods().filter((method) => method === 'response')).toHaveLength(1);
    });

    // Rule store-1.
    test(
      'on two replicas, when the owner is gone, are served by the one that is faster',
      { tags: ['long'] },
      async () => {
        const { effects, tools } = greeter();
        const legacy = await legacyServer({ tools, keepsEvents: true });
        const { url } = await redisServer();
        const [one, other, third] = await replicas(legacy, 3, { redis: url });
        const asked = await callTool(one.url, 'greet');
        await one.kill();
        const answers = answersOf(asked, 'Ada');
        const done = await Promise.all(
          [other, third].map((gateway) => callTool(gateway.url, 'greet', answers)),
        );
        expect(done.map(text)).toEqual(['Hello Ada', 'Hello Ada']);
        expect(effects).toEqual(['Ada']);
        const recoveries = [...(await other.recoveries()), ...(await third.recoveries())];
        expect(recoveries.filter((recoveredBy) => recoveredBy === 'reattach')).toHaveLength(1);
      },
    );

    // Rule store-1.
    test('with different answers: one counts, the other is refused', async () => {
      const { effects, tools } = greeter();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const { url } = await redisServer();
      const [one, other, third] = await replicas(legacy, 3, { redis: url });
      const asked = await callTool(one.url, 'greet');
      await one.kill();
      const done = await Promise.all([
        callTool(other.url, 'greet', answersOf(asked, 'Ada')),
        callTool(third.url, 'greet', answersOf(asked, 'Eve')),
      ]);
      expect(effects).toHaveLength(1);
      const greeted = done.map(text).filter((words) => words !== undefined);
      expect(greeted).toEqual([`Hello ${effects[0]}`]);
      expect(done.map(reasonOf)).toContain('invalid_request_state');
    });
  });

  test.each([
    ['over HTTP', {}],
    ['through the store', { relay: false, config: { relay: { via: 'redis' } } }],
  ])(
    'a client that leaves while its retry is relayed %s leaves no call behind',
    { tags: ['long'] },
    async (_, way) => {
      const { tools } = slowGreeter();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const { url } = await redisServer();
      const [one, other] = await replicas(legacy, 2, { redis: url, ...way });
      const asked = await callTool(one.url, 'greet');
      const leaving = new AbortController();
      const { signal } = leaving;
      const retried = callTool(other.url, 'greet', answersOf(asked, 'Ada'), { signal });
      await legacy.saw('response');
      leaving.abort();
      await expect(retried).rejects.toThrow();
      await legacy.saw('notifications/cancelled');
      expect((await one.saw('call.ended'))[0]?.['end']).toBe('cancelled');
      expect(await Promise.all([one.drain(), other.drain()])).toEqual([0, 0]);
      expect(await overseer(url).keys('*:claim')).toEqual([]);
      expect(other.named('relay.failed'), 'the owner did not fail').toEqual([]);
      expect(await other.recoveries()).toEqual([]);
    },
  );

  // Rule store-1.
  test(
    'a call whose reattachment fails stays free for the next replica',
    { tags: ['long'] },
    async () => {
      const { effects, tools } = greeter();
      const legacy = await legacyServer({ tools });
      const { url } = await redisServer();
      const route = { continuation: { replay: { tools: ['greet'] } } };
      const [one, other, third] = await replicas(legacy, 3, { redis: url, route });
      const asked = await callTool(one.url, 'greet');
      await one.kill();
      const answers = answersOf(asked, 'Ada');
      const [key] = Object.keys(answers.inputResponses);
      const illFormed = { ...answers, inputResponses: { [String(key)]: { action: 'perhaps' } } };
      expect((await callTool(other.url, 'greet', illFormed)).response.error.code).toBe(-32602);
      expect(text(await callTool(third.url, 'greet', answers))).toBe('Hello Ada');
      expect(effects).toEqual(['Ada']);
    },
  );

  // Rule replay-2.
  test(
    'a call that has ended where it was replayed is not made again at another replica',
    { tags: ['long'] },
    async () => {
      const { effects, tools } = greeter();
      const legacy = await legacyServer({ tools });
      const { url } = await redisServer();
      const continuation = { replay: { tools: ['greet'] } };
      const route = { continuation };
      const [one, other, third] = await replicas(legacy, 3, { redis: url, route });
      const asked = await callTool(one.url, 'greet');
      await one.kill();
      await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
      await forgetOutcome(url);
      const late = await callTool(third.url, 'greet', answersOf(asked, 'Eve'));
      expect(reasonOf(late)).toBe('invalid_request_state');
      expect(effects).toEqual(['Ada']);
    },
  );

  describe('an outcome', () => {
    // Rule store-3: An outcome outlives its owner, encrypted with a key that only the pointer has.
    test('is there for the same retry when its owner is gone', async () => {
      const { effects, tools } = greeter();
      const legacy = await legacyServer({ tools });
      const { url } = await redisServer();
      const [one, other] = await replicas(legacy, 2, { redis: url });
      const asked = await callTool(one.url, 'greet');
      const first = await callTool(one.url, 'greet', answersOf(asked, 'Ada'));
      await keptIn(url, 'outcome');
      await one.kill();
      const again = await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
      expect(again.response.result).toEqual(first.response.result);
      expect(await other.recoveries()).toEqual(['outcome']);
      const different = await callTool(other.url, 'greet', answersOf(asked, 'Eve'));
      expect(reasonOf(different)).toBe('call_lost');
      expect(effects).toEqual(['Ada']);
    });

    // Rule store-3.
    test('is stored unreadably', async () => {
      const { tools } = greeter();
      const legacy = await legacyServer({ tools });
      const { url } = await redisServer();
      const [one] = await replicas(legacy, 1, { redis: url });
      const asked = await callTool(one.url, 'greet');
      await callTool(one.url, 'greet', answersOf(asked, 'Augusta'));
      const key = await keptIn(url, 'outcome');
      const redis = overseer(url);
      expect((await redis.getBuffer(key))?.toString('latin1')).not.toMatch(/Hello|Augusta/);
    });
  });

  // Rule store-9: All keys in the store expire.
  test('every key in the store expires by itself', async () => {
    const { tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const { url } = await redisServer();
    const [one, other] = await replicas(legacy, 2, { redis: url });
    const [asked, parked] = [await callTool(one.url, 'greet'), await callTool(one.url, 'greet')];
    await callTool(one.url, 'greet', answersOf(asked, 'Ada'));
    await one.kill();
    await callTool(other.url, 'greet', answersOf(parked, 'Eve'));
    await keptIn(url, 'claim');
    const redis = overseer(url);
    const keys = await redis.keys('*');
    const lives = await Promise.all(keys.map((key) => redis.pttl(key)));
    expect(keys.length).toBeGreaterThanOrEqual(4);
    expect(lives.filter((life) => life < 0)).toEqual([]);
  });

  describe('a store that fails', () => {
    // Rule store-5: While the store is unavailable, owners serve their retries. Others get `coordination_unavailable`
    // and `data.retryable`.
    test('does not keep a retry from its owner, here or on another replica', async () => {
      const { tools } = greeter();
      const legacy = await legacyServer({ tools });
      const redis = await redisServer();
      const [one, other] = await replicas(legacy, 2, { redis: redis.url });
      const [first, second] = [await callTool(one.url, 'greet'), await callTool(one.url, 'greet')];
      await redis.kill();
      const here = await callTool(one.url, 'greet', answersOf(first, 'Ada'));
      const elsewhere = await callTool(other.url, 'greet', answersOf(second, 'Eve'));
      expect([here, elsewhere].map(text)).toEqual(['Hello Ada', 'Hello Eve']);
      const [closed, refused] = await other.saw('redis.down', 2);
      const store = `Redis at redis://127.0.0.1:${redis.port}`;
      expect(closed?.['problem']).toMatch(store);
      expect(refused?.['problem']).toBe(
        `${store} refused the connection; check that Redis runs at redis.url`,
      );
      expect(await other.metric('mrtr_gateway_redis_up')).toBe(0);
      expect((await fetch(`${other.adminUrl}/readyz`)).status).toBe(200);
    });

    // Rule store-5.
    test.each([
      ['killed', (redis: RedisServer) => redis.kill(), (redis: RedisServer) => redis.restart()],
      [
        'frozen',
        async (redis: RedisServer) => redis.pause(),
        async (redis: RedisServer) => redis.resume(),
      ],
    ])(
      'and is %s holds up only what needs it: that is told as retryable, and served when it is back',
      { tags: ['long'] },
      async (_, fail, heal) => {
        const { effects, tools } = greeter();
        const legacy = await legacyServer({ tools, keepsEvents: true });
        const redis = await redisServer();
        const [one, other] = await replicas(legacy, 2, { redis: redis.url });
        const asked = await callTool(one.url, 'greet');
        await one.kill();
        await fail(redis);
        const refused = await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
        expect(reasonOf(refused)).toBe('coordination_unavailable');
        expect(refused.response.error.data.retryable).toBe(true);
        expect(effects).toEqual([]);
        await other.saw('redis.down');
        await heal(redis);
        await other.saw('redis.up', 2);
        const done = await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
        expect(text(done)).toBe('Hello Ada');
        expect(effects).toEqual(['Ada']);
      },
    );

    // Rule store-5.
    test('by being emptied, loses no call', { tags: ['long'] }, async () => {
      const { effects, tools } = greeter();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const { url } = await redisServer();
      const [one, other] = await replicas(legacy, 2, { redis: url });
      const asked = await callTool(one.url, 'greet');
      await overseer(url).flushall();
      await one.kill();
      expect(text(await callTool(other.url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
      expect(effects).toEqual(['Ada']);
    });

    test(
      'for one replica only: that one relays still, and takes nothing up',
      { tags: ['long'] },
      async () => {
        const { effects, tools } = greeter();
        const legacy = await legacyServer({ tools, keepsEvents: true });
        const redis = await redisServer();
        const way = await Severable.to({ host: '127.0.0.1', port: redis.port });
        stopAfterTest(() => way.stop());
        const [one, third] = await replicas(legacy, 2, { redis: redis.url });
        const [cutOff] = await replicas(legacy, 1, {
          redis: new URL(`redis://127.0.0.1:${way.port}`),
        });
        const [first, second] = [
          await callTool(one.url, 'greet'),
          await callTool(one.url, 'greet'),
        ];
        way.cut();
        await cutOff.saw('redis.down');
        expect(text(await callTool(cutOff.url, 'greet', answersOf(first, 'Ada')))).toBe(
          'Hello Ada',
        );
        await one.kill();
        const refused = await callTool(cutOff.url, 'greet', answersOf(second, 'Eve'));
        expect(reasonOf(refused)).toBe('coordination_unavailable');
        expect(text(await callTool(third.url, 'greet', answersOf(second, 'Eve')))).toBe(
          'Hello Eve',
        );
        way.mend();
        await cutOff.saw('redis.up', 2);
        const again = await callTool(cutOff.url, 'greet', answersOf(second, 'Eve'));
        expect(text(again)).toBe('Hello Eve');
        expect(effects).toEqual(['Ada', 'Eve']);
      },
    );
  });
});

/** Has the store forget the only outcome that it keeps, as it does after two minutes. */
async function forgetOutcome(url: URL): Promise<void> {
  const key = await keptIn(url, 'outcome');
  await overseer(url).del(key);
}

/** Resolves with the first key of a kind as soon as there is one. */
async function keptIn(url: URL, kind: 'outcome' | 'claim'): Promise<string> {
  const redis = overseer(url);
  for (;;) {
    const key = (await redis.keys(`*:${kind}`))[0];
    if (key !== undefined) return key;
  }
}
