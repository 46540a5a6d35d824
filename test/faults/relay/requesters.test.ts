/**
 * Replicas that ask another one to serve a retry, and then die or freeze. Their client has gone with them,
 * as far as the owner can tell: it ends the call, and keeps nothing for a replica that does not read.
 */
import { expect, test } from 'vitest';
import {
  answersOf,
  legacyServer,
  redisServer,
  replicas,
  slowGreeter,
} from '../../fixtures/gateways/replica-testbed.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { monitored, overseer } from '../../fixtures/redis/redis-topologies.ts';

const throughRedis = async () => {
  const { url: redis } = await redisServer();
  return { redis, relay: false, config: { relay: { via: 'redis' } } };
};

// Rule relay-13.
test(
  'no replica writes for long to the queue of a dead one',
  { tags: ['long', 'redis'] },
  async () => {
    const { tools } = slowGreeter();
    const legacy = await legacyServer({ tools });
    const { redis: url, ...options } = await throughRedis();
    const [one, other] = await replicas(legacy, 2, { ...options, redis: url });
    const asked = await callTool(one.url, 'greet');
    const lost = callTool(other.url, 'greet', answersOf(asked, 'Ada')).catch(() => 'lost');
    await legacy.saw('response');
    await other.kill();
    await lost;
    await one.saw('call.ended');
    const redis = overseer(url);
    const [queue = ''] = await redis.keys('*:mail');
    const messages = await redis.llen(queue);
    expect(messages).toBeGreaterThan(0);
    // It was the last to be written to: from here on its time runs out.
    const written: string[] = [];
    await monitored(redis, (words) => written.push(words.join(' ')));
    // The lease is renewed every one and a half seconds; messages came twice a second.
    const renewals = () => written.filter((command) => command.includes(':lease')).length;
    await expect.poll(renewals, { timeout: 10_000 }).toBeGreaterThan(1);
    expect(written.filter((command) => /rpush/i.test(command))).toEqual([]);
    expect(await redis.llen(queue)).toBe(messages);
  },
);
