/**
 * Replicas whose clocks are two minutes apart, by libfaketime. With a store its clock counts, and nothing is
 * refused; without one the owner of a call judges its pointers, and what is refused for the clocks says so.
 */
import { describe, expect, test } from 'vitest';
import { adjustableClock } from '../fixtures/hurried-clock.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  redisServer,
  replica,
  text,
} from '../fixtures/gateways/replica-testbed.ts';
import { testGateway } from '../fixtures/gateways/test-gateway.ts';
import { callTool } from '../fixtures/clients/modern-client.ts';
import { overseer } from '../fixtures/redis/redis-topologies.ts';

const APART_SECONDS = 120;
const SKEW = 'mrtr_gateway_clock_skew_seconds';
const REFUSALS = 'mrtr_gateway_clock_refusals_total{of="pointer"}';
const AHEAD_AND_BEHIND = [
  ['ahead', APART_SECONDS],
  ['behind', -APART_SECONDS],
] as const;

describe('clocks two minutes apart', { tags: ['faketime'], timeout: 60_000 }, () => {
  describe('with a store: a replica', { tags: ['long', 'redis'] }, () => {
    // Rule store-6: The clock of the store counts. Clocks that differ or are set back end nothing early or late.
    test.each([
      ['ahead, over HTTP,', APART_SECONDS, {}],
      [
        'behind, through Redis,',
        -APART_SECONDS,
        { relay: false, config: { relay: { via: 'redis' } } },
      ],
    ])(
      '%s relays and reattaches to the calls of the others, and they to its calls',
      async (_, by, options) => {
        const { effects, tools } = greeter();
        const legacy = await legacyServer({ tools, keepsEvents: true });
        const { url: redis } = await redisServer();
        // Shorter than the clocks are apart: by its own clock the pointers of the other one have expired.
        // Calls have sessions of their own: those of one home would all be made by the same replica.
        const route = {
          parking: { ttl: '60s', callTtl: '90s' },
          sessions: { scope: 'call' },
        };
        const [right, wrong, third] = await Promise.all([
          replica(legacy, { ...options, redis, route }),
          replica(legacy, { ...options, redis, route, clockAheadSeconds: by }),
          replica(legacy, { ...options, redis, route }),
        ]);
        const skews = await wrong.saw('clock.skewed');
        expect(skews.map((line) => line['aheadSeconds'])).toEqual([by]);
        expect(Math.abs(Number(await wrong.metric(SKEW)) - by)).toBeLessThan(2);
        expect(Math.abs(Number(await right.metric(SKEW)))).toBeLessThan(2);

        const [ofRight, ofWrong] = [
          await callTool(right.url, 'greet'),
          await callTool(wrong.url, 'greet'),
        ];
        expect(text(await callTool(wrong.url, 'greet', answersOf(ofRight, 'Ada')))).toBe(
          'Hello Ada',
        );
        expect(text(await callTool(right.url, 'greet', answersOf(ofWrong, 'Eve')))).toBe(
          'Hello Eve',
        );
        const [leftByRight, leftByWrong] = [
          await callTool(right.url, 'greet'),
          await callTool(wrong.url, 'greet'),
        ];
        await right.kill();
        const zoe = await callTool(wrong.url, 'greet', answersOf(leftByRight, 'Zoe'));
        expect(text(zoe)).toBe('Hello Zoe');
        await wrong.kill();
        const ida = await callTool(third.url, 'greet', answersOf(leftByWrong, 'Ida'));
        expect(text(ida)).toBe('Hello Ida');
        expect(effects).toEqual(['Ada', 'Eve', 'Zoe', 'Ida']);
        expect([await wrong.recoveries(), await third.recoveries()]).toEqual([
          ['relay', 'here', 'reattach'],
          ['reattach'],
        ]);
        for (const gateway of [right, wrong, third]) {
          expect(gateway.named('pointer.refused')).toEqual([]);
        }
      },
    );
  });

  // Rule store-6.
  test(
    'with a store: leases of a replica whose clock is wrong are renewed and end as those of any other',
    { tags: ['long', 'redis'] },
    async () => {
      const legacy = await legacyServer({ tools: greeter().tools });
      const redis = await redisServer();
      const wrong = await replica(legacy, { redis: redis.url, clockAheadSeconds: APART_SECONDS });
      const store = overseer(redis);
      const [lease = ''] = await store.keys('mrtr:*:lease');
      await store.pexpire(lease, 2_000);
      const leftMs = () => store.pttl(lease);
      await expect.poll(leftMs, { timeout: 5_000 }).toBeGreaterThan(2_500);
      expect(await leftMs()).toBeLessThanOrEqual(5_000);
      await wrong.kill();
      await expect.poll(() => store.exists(lease), { timeout: 8_000 }).toBe(0);
    },
  );

  describe.each(AHEAD_AND_BEHIND)('without a store: a replica %s', (_, by) => {
    // Rule pointer-8.
    test('serves the clients of calls that live elsewhere, and they its own', async () => {
      const { effects, tools } = greeter();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      // Shorter than the clocks are apart: by the clock that is ahead, pointers of the other one have expired.
      const route = { parking: { ttl: '60s', callTtl: '90s' } };
      const [right, wrong] = await Promise.all([
        replica(legacy, { route }),
        replica(legacy, { route, clockAheadSeconds: by }),
      ]);
      for (const [owner, other] of [
        [right, wrong],
        [wrong, right],
      ] as const) {
        const asked = await callTool(owner.url, 'greet');
        const done = await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
        expect(text(done)).toBe('Hello Ada');
        expect((await other.recoveries()).at(-1)).toBe('relay');
      }
      expect(effects).toEqual(['Ada', 'Ada']);
    });
  });

  // Rule pointer-8.
  test('without a store: a call whose owner is gone waits for a replica with the right time', async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const [owner, right, behind] = await Promise.all([
      replica(legacy),
      replica(legacy),
      replica(legacy, { clockAheadSeconds: -APART_SECONDS }),
    ]);
    const asked = await callTool(owner.url, 'greet');
    await owner.kill();
    const refused = await callTool(behind.url, 'greet', answersOf(asked, 'Ada'));
    expect(reasonOf(refused)).toBe('coordination_unavailable');
    expect(behind.named('clock.refused').at(-1)).toMatchObject({ of: 'pointer' });
    expect(await behind.metric(REFUSALS)).toBe(1);
    expect(text(await callTool(right.url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
    expect(effects).toEqual(['Ada']);
  });
});

// Rule pointer-8.
test.each([
  ['forward', 86_400_000],
  ['back', -86_400_000],
])(
  'a clock that is set %s while a call is parked has no effect at the owner, whose timer counts',
  async (_, byMs) => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools });
    const { clock, set } = adjustableClock();
    const gateway = await testGateway(legacy.url, { clock });
    const asked = await callTool(gateway.url, 'greet');
    set(byMs);
    expect(text(await callTool(gateway.url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
    expect(effects).toEqual(['Ada']);
  },
);
