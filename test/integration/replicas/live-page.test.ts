/** The live page of one replica shows all of them, and cancels calls of all. */
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import type { GatewayProcessOptions } from '../../fixtures/gateways/gateway-process.ts';
import { cancel, looksLike } from '../../fixtures/gateways/live.ts';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  redisServer,
  replica,
  replicas,
} from '../../fixtures/gateways/replica-testbed.ts';

/** One replica has a call; the other shows it, cancels it, and tells its client. */
async function showsAndCancels(options: Partial<GatewayProcessOptions>): Promise<void> {
  const legacy = await legacyServer({ tools: greeter().tools });
  const redis = await redisServer();
  const config = { ...options.config, adminActions: 'cancel' };
  const [one, other] = await replicas(legacy, 2, { ...options, redis: redis.url, config });
  const asked = await callTool(one.url, 'greet', {});
  const whole = { allCalls: 1, missing: [], routes: [{ id: 'mcp', parked: 1 }] };
  const { calls, processes } = await looksLike(other, whole);
  await looksLike(one, whole);
  expect(processes).toContain(calls[0]?.owner);
  expect(await cancel(other, calls[0]?.id)).toBe(200);
  expect(await one.saw('audit.stopped')).toMatchObject([{ call: calls[0]?.id, by: '127.0.0.1' }]);
  const refused = await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
  expect(reasonOf(refused)).toBe('cancelled_by_operator');
}

// Rule live-10: All workers and, with Redis, all replicas are shown. Those that do not reply are named.
test('the live page shows and cancels calls of all replicas', { tags: ['redis'] }, () =>
  showsAndCancels({ relay: true }),
);

test(
  'the live page shows and cancels calls of replicas that relay over Redis',
  { tags: ['redis', 'long'] },
  () => showsAndCancels({ relay: false, config: { relay: { via: 'redis' } } }),
);

test(
  'the live page shows and cancels calls of the workers of two gateways',
  { tags: ['redis', 'long'] },
  () => showsAndCancels({ relay: true, config: { workers: 2 } }),
);

// Rule live-10.
test('the live page names a replica that it cannot ask', { tags: ['redis'] }, async () => {
  const legacy = await legacyServer({ tools: greeter().tools });
  const { url } = await redisServer();
  const gateways = await Promise.all([
    replica(legacy, { redis: url }),
    replica(legacy, { redis: url, relay: false }),
  ]);
  for (const gateway of gateways) {
    const missing = [expect.stringMatching(/^replica \S{6}$/)];
    await looksLike(gateway, { status: 'ready', missing });
  }
});
