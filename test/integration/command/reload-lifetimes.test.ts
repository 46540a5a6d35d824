/** How long calls are remembered by a route whose settings have changed. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import {
  startTestGateway,
  testConfig,
  type GatewayOverrides,
} from '../../fixtures/gateways/gateway.ts';
import { answersOf, greeter, legacyServer, text } from '../../fixtures/gateways/replica-testbed.ts';
import { advanceUntil, ManualClock } from '../../fixtures/manual-clock.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const SHORT_MS = 60_000;
const LONG_MS = 600_000;

function settings(lifeMs: number): GatewayOverrides {
  return {
    parking: { ttlMs: lifeMs, callTtlMs: lifeMs, release: 'when-resumable' },
    tasks: { promote: 'never' },
    sessions: { idleTimeoutMs: SHORT_MS },
  };
}

async function stage() {
  const { tools, effects } = greeter();
  const legacy = await legacyServer({ tools, keepsEvents: true });
  const clock = new ManualClock();
  const gateway = await startTestGateway(legacy.url, { ...settings(SHORT_MS), clock });
  stopAfterTest(() => gateway.close());
  const reload = gateway.reload(() => testConfig(legacy.url, settings(LONG_MS)));
  await advanceUntil(clock, reload);
  const call = (more: object = {}) => advanceUntil(clock, callTool(gateway.url, 'greet', more));
  return { effects, legacy, clock, gateway, call };
}

// Rule reload-3.
test('a call that was released lives as long as the settings say with which it began', async () => {
  const { effects, clock, gateway, call } = await stage();
  const asked = await call();
  expect(gateway.log.named('call.ended').map(({ end }) => end)).toEqual(['left']);
  clock.advance(LONG_MS / 2);
  expect(text(await call(answersOf(asked, 'Ada')))).toBe('Hello Ada');
  expect(effects).toEqual(['Ada']);
  expect(gateway.log.named('call.release_expired')).toEqual([]);
});

// Rule reload-3.
test('the session of such a call is not ended while the call can be continued', async () => {
  const { effects, legacy, clock, call } = await stage();
  const asked = await call();
  clock.advance(2 * SHORT_MS);
  expect(text(await call(answersOf(await call(), 'Eve')))).toBe('Hello Eve');
  clock.advance(2 * SHORT_MS);
  await nextTurn();
  expect(legacy.sessions).toBe(1);
  expect(text(await call(answersOf(asked, 'Ada')))).toBe('Hello Ada');
  expect(effects).toEqual(['Eve', 'Ada']);
});
