/**
 * Replicas that ask another one to serve a retry, and then die or freeze. Their client has gone with them,
 * as far as the owner can tell: it ends the call, and keeps nothing for a replica that does not read.
 */
import { describe, expect, test } from 'vitest';
import {
  answersOf,
  legacyServer,
  redisServer,
  replicas,
  slowGreeter,
} from '../fixtures/gateways/replica-testbed.ts';
import { askName, type LegacyServerOptions } from '../fixtures/servers/legacy-server.ts';
import { callTool } from '../fixtures/clients/modern-client.ts';
import { monitored, overseer } from '../fixtures/redis/redis-topologies.ts';
import { redisAvailable } from '../fixtures/redis/redis-server.ts';

const overHttp = async () => ({});
const throughRedis = async () => {
  const { url: redis } = await redisServer();
  return { redis, relay: false, config: { relay: { via: 'redis' } } };
};

describe.each([
  { way: 'over HTTP', isThere: true, options: overHttp },
  { way: 'through Redis', isThere: redisAvailable, options: throughRedis },
])('a replica that relayed a retry $way', ({ isThere, options }) => {
  test.skipIf(!isThere)('and is killed has its call cancelled by the owner', async () => {
    const { tools } = slowGreeter();
    const legacy = await legacyServer({ tools });
    const [one, other] = await replicas(legacy, 2, await options());
    const asked = await callTool(one.url, 'greet');
    const lost = callTool(other.url, 'greet', answersOf(asked, 'Ada')).catch(() => 'lost');
    await legacy.saw('response');
    await other.kill();
    expect(await lost).toBe('lost');
    await legacy.saw('notifications/cancelled');
    expect((await one.saw('call.ended'))[0]?.['end']).toBe('cancelled');
  });

  test.skipIf(!isThere)(
    'and is frozen has its call cancelled when more and more waits for it',
    async () => {
      const data = 'x'.repeat(100_000);
      const tools: LegacyServerOptions['tools'] = {
        flood: async (call) => {
          const { extra } = call;
          const name = await askName(call);
          while (!extra.signal.aborted) {
            await extra.sendNotification({
              method: 'notifications/message',
              params: { level: 'info', data },
            });
            await new Promise(setImmediate);
          }
          return name;
        },
      };
      const legacy = await legacyServer({ tools });
      const [one, other] = await replicas(legacy, 2, await options());
      const meta = { 'io.modelcontextprotocol/logLevel': 'debug' };
      const asked = await callTool(one.url, 'flood', {}, { meta });
      const lost = callTool(other.url, 'flood', answersOf(asked, 'Ada'), { meta }).catch(
        () => 'lost',
      );
      await legacy.saw('response');
      other.freeze();
      await legacy.saw('notifications/cancelled');
      expect((await one.saw('call.ended'))[0]?.['end']).toBe('cancelled');
      await other.kill();
      expect(await lost).toBe('lost');
    },
  );
});

test.skipIf(!redisAvailable)('nobody writes for long to the mailbox of the dead', async () => {
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
  const [mailbox = ''] = await redis.keys('*:mail');
  const letters = await redis.llen(mailbox);
  expect(letters).toBeGreaterThan(0);
  // It was the last to be written to: from here on its time runs out.
  const written: string[] = [];
  await monitored(redis, (words) => written.push(words.join(' ')));
  // The lease is renewed every one and a half seconds; letters came twice a second.
  const renewals = () => written.filter((command) => /:lease/.test(command)).length;
  await expect.poll(renewals, { timeout: 10_000 }).toBeGreaterThan(1);
  expect(written.filter((command) => /rpush/i.test(command))).toEqual([]);
  expect(await redis.llen(mailbox)).toBe(letters);
});
