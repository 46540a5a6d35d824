/**
 * Homes while Redis is unreachable, and after it has lost its data.
 * @module-tag redis
 * @module-tag long
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { callTool, type SendOptions } from '../../fixtures/clients/modern-client.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import { redisServer, replicas, text } from '../../fixtures/gateways/replica-testbed.ts';
import { overseer } from '../../fixtures/redis/redis-topologies.ts';
import { countingServer } from '../../fixtures/servers/counting-server.ts';

const STDIO_SERVER = join(import.meta.dirname, '../../fixtures/servers/stdio-server.js');
/** A replica lease, and a little more, in ms. */
const LEASE_MS = 5_500;

const of = (user: string): SendOptions => ({ headers: { authorization: `Bearer ${user}` } });
const call = async ({ url }: GatewayProcess, name: string, options: SendOptions) =>
  text(await callTool(url, name, {}, options));

/** Resolves when both replicas have a lease in Redis. */
async function untilLeased(redis: Parameters<typeof overseer>[0]) {
  const stored = overseer(redis);
  await expect.poll(() => stored.keys('*:lease'), { timeout: 10_000 }).toHaveLength(2);
}

// Rule sessions-24.
test('a caller of a server over stdio keeps its process when Redis was unreachable for longer than a lease', async () => {
  const redis = await redisServer();
  const route = { upstream: { command: process.execPath, args: [STDIO_SERVER, 'plain'] } };
  const [a, b] = await replicas({ url: '' }, 2, { redis: redis.url, route });
  const pid = await call(a, 'pid', of('ada'));
  expect(await call(b, 'pid', of('ada'))).toBe(pid);
  const isUpAgain = [a, b].map((one) => one.saw('redis.up', one.named('redis.up').length + 1));
  redis.pause();
  await Promise.all([a.saw('redis.down'), b.saw('redis.down')]);
  await sleep(LEASE_MS);
  redis.resume();
  await Promise.all(isUpAgain);
  await untilLeased(redis);
  expect(await call(b, 'pid', of('ada'))).toBe(pid);
});

// Rule sessions-24.
test('a home that was opened just after Redis had lost its data is left with its session', async () => {
  const redis = await redisServer();
  const { server } = await countingServer();
  const [a, b] = await replicas(server, 2, { redis: redis.url });
  expect(await call(a, 'count', of('ada'))).toBe('1');
  await redis.restart();
  await untilLeased(redis);
  expect(await call(a, 'count', of('bob'))).toBe('1');
  await sleep(LEASE_MS);
  expect(await call(a, 'count', of('bob'))).toBe('2');
  await a.kill();
  expect(await call(b, 'count', of('ada'))).toBe('2');
  expect(await call(b, 'count', of('bob'))).toBe('3');
});
