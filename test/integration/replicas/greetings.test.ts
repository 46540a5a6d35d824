/**
 * What a gateway knows of a server that is down when it starts.
 * @module-tag redis
 */
import { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import { send } from '../../fixtures/clients/modern-client.ts';
import {
  legacyServer,
  redisServer,
  replica,
  greeter,
} from '../../fixtures/gateways/replica-testbed.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const ROUTES = (url: string) => ({
  routes: ['one', 'other'].map((id) => ({ id, path: `/${id}`, upstream: { url } })),
});

// Rules discover-7, shared-17.
test('a gateway that starts while its server is down knows from Redis what the server offers', async () => {
  const { url } = await redisServer();
  const server = await legacyServer(greeter());
  const start = () => replica(server, { redis: url, config: ROUTES(server.url) });
  const before = await start();
  const at = (gateway: typeof before, path: string) => new URL(path, gateway.url).href;
  const told = (await send(at(before, '/one'), 'server/discover')).response.result;
  expect(told.capabilities.logging).toBeDefined();
  const redis = new Redis(url.href);
  stopAfterTest(async () => redis.disconnect());
  const kept = () => redis.keys('mrtr:*{greeting:*}:greeting');
  await expect.poll(async () => (await kept()).length).toBe(2);
  await before.kill();
  await server.stop();
  const after = await start();
  const again = (await send(at(after, '/one'), 'server/discover')).response.result;
  expect(again).toEqual({ ...told, ttlMs: 0, supportedVersions: ['2026-07-28'] });
  await after.kill();
  // What one route was told opens at no other one.
  const [first = '', second = ''] = await kept();
  const [one, other] = [await redis.getBuffer(first), await redis.getBuffer(second)];
  await redis.set(first, other ?? '');
  await redis.set(second, one ?? '');
  const moved = await start();
  const vague = (await send(at(moved, '/one'), 'server/discover')).response.result;
  expect(vague.capabilities).not.toHaveProperty('logging');
  expect(vague.capabilities).toHaveProperty('tools');
});
