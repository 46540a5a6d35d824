/** Probes while a gateway waits for Redis at its start, over real sockets. */
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { greeter, legacyServer, replica, text } from '../../fixtures/gateways/replica-testbed.ts';
import { freePorts } from '../../fixtures/processes.ts';
import { startRedis } from '../../fixtures/redis/redis-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';
import { answersOf } from '../../fixtures/gateways/replica-testbed.ts';

/** A process loads its program before it listens. */
const LOADED = { timeout: 30_000, interval: 20 };

// Rule start-2: While the gateway waits for Redis (`redis.startWait`), it is alive and not ready.
test.each([1, 2])(
  'probes are answered while Redis is awaited, with %i workers',
  { tags: ['redis'] },
  async (workers) => {
    const { tools } = greeter();
    const legacy = await legacyServer({ tools });
    const [adminPort = 0, redisPort = 0] = await freePorts(2);
    const admin = `http://127.0.0.1:${adminPort}`;
    const config = {
      workers,
      admin: `127.0.0.1:${adminPort}`,
      redis: { url: `redis://127.0.0.1:${redisPort}`, startWait: '1m' },
    };
    const starting = replica(legacy, { config });
    const health = () => fetch(`${admin}/healthz`).then(({ status }) => status, String);
    await expect.poll(health, LOADED).toBe(200);
    // When probes are answered, a gateway of one process may not yet have begun to wait.
    const ready = () => fetch(`${admin}/readyz`);
    const awaited = { status: 'not ready', redis: 'no response yet', routes: {} };
    expect(await (await ready()).json()).toEqual(awaited);
    expect((await ready()).status).toBe(503);
    const metrics = await (await fetch(`${admin}/metrics`)).text();
    expect(metrics).toContain(workers === 1 ? 'mrtr_gateway_redis_up 0\n' : 'gateway_workers 0\n');
    expect(await (await fetch(`${admin}/live.json`)).json()).toMatchObject({
      status: 'not ready',
      routes: [],
      calls: [],
    });

    const redis = await startRedis({ port: redisPort });
    stopAfterTest(() => redis.stop());
    const gateway = await starting;
    await expect.poll(async () => (await ready()).status).toBe(200);
    expect(await (await ready()).json()).toEqual({ status: 'ready', routes: expect.anything() });
    const asked = await callTool(gateway.url, 'greet');
    expect(text(await callTool(gateway.url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
    expect(await gateway.metric('mrtr_gateway_redis_up')).toBe(1);
  },
);
