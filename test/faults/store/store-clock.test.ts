/**
 * Redis whose clock is set back, as by a fail-over to a host with another clock: leases then seem to last longer, and pointers to
 * be from the future.
 * @module-tag redis
 * @module-tag faketime
 * @module-tag long
 */
import { expect, test } from 'vitest';
import {
  answersOf,
  legacyServer,
  reasonOf,
  redisServer,
  replicas,
  text,
  whileRetryable,
} from '../../fixtures/gateways/replica-testbed.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import { callTool, type Exchanged } from '../../fixtures/clients/modern-client.ts';
import { askName, type LegacyServerOptions } from '../../fixtures/servers/legacy-server.ts';

/** A lease, and the time in which an owner counts as silent. */
const ANSWER_WITHIN_MS = 10_000;

const tools: LegacyServerOptions['tools'] = {
  greet: async (call) => `Hello ${await askName(call)} and ${await askName(call)}`,
};

/** Retries until the answer is final. Each attempt has its answer in time. */
function retried({ url }: GatewayProcess, asked: Exchanged, name: string): Promise<Exchanged> {
  return whileRetryable(() =>
    callTool(url, 'greet', answersOf(asked, name), {
      signal: AbortSignal.timeout(ANSWER_WITHIN_MS),
    }),
  );
}

// Rule store-6.
test.each([
  ['a minute', 60],
  ['a day', 86_400],
])(
  'a call that two dead replicas had goes on soon after the clock of Redis was set back by %s',
  { timeout: 40_000 },
  async (_, seconds) => {
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const redis = await redisServer({ hasOwnClock: true });
    const [one, other, third] = await replicas(legacy, 3, { redis: redis.url });
    const asked = await callTool(one.url, 'greet');
    await one.kill();
    const askedAgain = await retried(other, asked, 'Ada');
    await other.kill();
    await redis.setClock(-seconds);
    await third.saw('clock.skewed');
    expect(text(await retried(third, askedAgain, 'Eve'))).toBe('Hello Ada and Eve');
  },
);

// Rule store-6.
test('a call that nobody can continue is lost soon after the clock of Redis was set back', async () => {
  const legacy = await legacyServer({ tools });
  const redis = await redisServer({ hasOwnClock: true });
  const [one, other] = await replicas(legacy, 2, { redis: redis.url });
  const asked = await callTool(one.url, 'greet');
  await one.kill();
  await redis.setClock(-60);
  expect(reasonOf(await retried(other, asked, 'Ada'))).toBe('call_lost');
});

// Rule store-6.
test.each([
  ['ahead', 60],
  ['back', -60],
])(
  'calls whose owners live, or have died, go on after the clock of Redis was set %s, and right again',
  { timeout: 60_000 },
  async (_, seconds) => {
    const effects: string[] = [];
    const legacy = await legacyServer({
      keepsEvents: true,
      tools: {
        greet: async (call) => {
          const names = `${await askName(call)} and ${await askName(call)}`;
          effects.push(names);
          return `Hello ${names}`;
        },
      },
    });
    const redis = await redisServer({ hasOwnClock: true });
    const [one, other, third] = await replicas(legacy, 3, { redis: redis.url });
    const [here, gone] = await Promise.all([
      callTool(one.url, 'greet'),
      callTool(third.url, 'greet'),
    ]);
    await redis.setClock(seconds);
    await other.saw('clock.skewed');
    const askedAgain = await retried(other, here, 'Ada');
    await third.kill();
    const goneAgain = await retried(other, gone, 'Bob');
    await redis.setClock(0);
    await other.saw('clock.skewed', 2);
    expect(text(await retried(other, askedAgain, 'Eve'))).toBe('Hello Ada and Eve');
    expect(text(await retried(one, goneAgain, 'Cyd'))).toBe('Hello Bob and Cyd');
    expect(effects.toSorted()).toEqual(['Ada and Eve', 'Bob and Cyd']);
  },
);
