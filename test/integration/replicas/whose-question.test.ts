/** A question that names no call, over several replicas: it is shown in the call that asked it, and in no other. */
import { expect, test } from 'vitest';
import { callTool, type SendOptions } from '../../fixtures/clients/modern-client.ts';
import type { GatewayProcess } from '../../fixtures/gateways/gateway-process.ts';
import {
  answersOf,
  legacyServer,
  redisServer,
  replicas,
  text,
  whileRetryable,
} from '../../fixtures/gateways/replica-testbed.ts';
import { Severable } from '../../fixtures/network/flaky-proxy.ts';
import { overseer } from '../../fixtures/redis/redis-topologies.ts';
import { askBeside, askName } from '../../fixtures/servers/legacy-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const ADA: SendOptions = { headers: { authorization: 'Bearer ada' } };
const call = (gateway: GatewayProcess, name: string, more: object = {}) =>
  callTool(gateway.url, name, more, ADA);

/** `twice` asks on its stream and then works until the test lets it end; `asks` asks beside its stream. */
async function workingServer() {
  const working = Promise.withResolvers<void>();
  stopAfterTest(async () => working.resolve());
  const server = await legacyServer({
    keepsEvents: true,
    tools: {
      twice: async (asking) => {
        const name = await askName(asking);
        await working.promise;
        return name;
      },
      asks: askBeside,
      plain: async () => 'plain',
    },
  });
  return { server, finish: working.resolve };
}

// Rule questions-10: With several processes, only the one with the home of a session shows a question that names no
// call. After a takeover without homes, it is held for 30 s and declined.
test(
  'a resumed call is not asked what another call of its caller asks at a third replica',
  { tags: ['redis', 'long'] },
  async () => {
    const redis = await redisServer();
    const { server, finish } = await workingServer();
    const [a, b, c] = await replicas(server, 3, { redis: redis.url });
    const asked = await call(a, 'twice');
    await a.kill();
    const twice = whileRetryable(() => call(b, 'twice', answersOf(asked, 'Ada')));
    await server.saw('response');
    expect(text(await whileRetryable(() => call(c, 'plain')))).toBe('plain');
    const asks = call(c, 'asks');
    await server.saw('tools/call', 3);
    finish();
    expect(text(await twice)).toBe('Ada');
    expect(text(await call(c, 'asks', answersOf(await asks, 'Bob')))).toBe('Bob');
  },
);

// Rule questions-10.
test(
  'a replica that has lost the home of a caller, and cannot know it, asks no call what another call asks elsewhere',
  { tags: ['redis', 'long'], timeout: 120_000 },
  async () => {
    const redis = await redisServer();
    const { server, finish } = await workingServer();
    const way = await Severable.to({ host: '127.0.0.1', port: redis.port });
    stopAfterTest(() => way.stop());
    const [a] = await replicas(server, 1, { redis: new URL(`redis://127.0.0.1:${way.port}`) });
    const [b] = await replicas(server, 1, { redis: redis.url });
    const asked = await call(a, 'twice');
    const twice = call(a, 'twice', answersOf(asked, 'Ada'));
    await server.saw('response');
    way.cut();
    // It reaches the replica of the home as long as that has a lease.
    const leases = () => overseer(redis).keys('*:lease');
    await expect.poll(leases, { timeout: 10_000 }).toHaveLength(1);
    const asks = call(b, 'asks');
    await server.saw('tools/call', 2);
    expect(text(await asks)).toBe('cancel');
    finish();
    expect(text(await twice)).toBe('Ada');
  },
);

// Rule questions-10.
test(
  'a call is not asked what a tool asks whose call ended with its replica',
  { tags: ['redis', 'long'] },
  async () => {
    const redis = await redisServer();
    const [lost, working] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    const later = Promise.withResolvers<string>();
    stopAfterTest(async () => working.resolve());
    const server = await legacyServer({
      keepsEvents: true,
      tools: {
        asks: askBeside,
        lost: async (asking) => {
          await lost.promise;
          later.resolve(await askBeside(asking));
          return 'late';
        },
        works: async () => {
          await working.promise;
          return 'done';
        },
      },
    });
    const [a, b] = await replicas(server, 2, { redis: redis.url });
    const asked = await call(a, 'asks');
    expect(text(await call(a, 'asks', answersOf(asked, 'Ada')))).toBe('Ada');
    const broken = call(a, 'lost').catch(() => 'broken');
    await server.saw('tools/call', 2);
    await a.kill();
    expect(await broken).toBe('broken');
    const works = whileRetryable(() => call(b, 'works'));
    await server.saw('tools/call', 3);
    lost.resolve();
    const shown = works.then(() => 'shown in another call');
    expect(await Promise.race([later.promise, shown])).toBe('cancel');
    working.resolve();
    expect(text(await works)).toBe('done');
  },
);
