/** Rates that several replicas count together, and what becomes of them without their store. */
import { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import {
  legacyServer,
  reasonOf,
  redisServer,
  replicas,
  text,
} from '../../fixtures/gateways/replica-testbed.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

// Rule admission-9: With `redis`, all replicas count together. While Redis is unavailable, each counts for itself.
test(
  'replicas count together in Redis, and each for itself while it is unreachable',
  { tags: ['redis'] },
  async () => {
    const legacy = await legacyServer({ tools: { work: async () => 'done' } });
    const redis = await redisServer();
    const config = { identity: { source: 'header', header: 'x-user' } };
    const route = { limits: { ratePerPrincipal: '2/1h' } };
    const [one, other] = await replicas(legacy, 2, { redis: redis.url, config, route });
    const call = (url: string, user: string) =>
      callTool(url, 'work', {}, { headers: { 'x-user': user } });
    expect([text(await call(one.url, 'Ada')), text(await call(other.url, 'Ada'))]).toEqual([
      'done',
      'done',
    ]);
    for (const { url } of [one, other])
      expect(reasonOf(await call(url, 'Ada'))).toBe('rate_limited');
    expect(text(await call(one.url, 'Eve'))).toBe('done');

    const client = new Redis(redis.url.href).on('error', () => {});
    stopAfterTest(async () => client.disconnect());
    const keys = await client.keys('*:rate:*');
    expect(keys).toHaveLength(2);
    expect(keys.join()).not.toMatch(/Ada|Eve/);

    await redis.kill();
    await one.saw('redis.down');
    const reasons: unknown[] = [];
    for (let index = 0; index < 3; index += 1) reasons.push(reasonOf(await call(one.url, 'Bea')));
    expect(reasons).toEqual([undefined, undefined, 'rate_limited']);
  },
);
