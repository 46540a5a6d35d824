/** How long calls are remembered by a route whose settings have changed. */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { testConfig, type GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { answersOf, greeter, legacyServer, text } from '../../fixtures/gateways/replica-testbed.ts';
import { advanceUntil, ManualClock } from '../../fixtures/manual-clock.ts';

const SHORT_MS = 60_000;
const LONG_MS = 600_000;

function settings(lifeMs: number): GatewayOverrides {
  return {
    parking: { ttlMs: lifeMs, callTtlMs: lifeMs, release: 'when-resumable' },
    tasks: { promote: 'never' },
    sessions: { idleTimeoutMs: SHORT_MS },
  };
}

async function stage(more: GatewayOverrides = {}) {
  const { tools, effects } = greeter();
  const legacy = await legacyServer({ tools, keepsEvents: true });
  const clock = new ManualClock();
  const gateway = await testGateway(legacy.url, { ...settings(SHORT_MS), ...more, clock });
  const reload = gateway.reload(() => testConfig(legacy.url, { ...settings(LONG_MS), ...more }));
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

// Rule reload-3.
test('it lives so long, too, if calls live shorter by the time that its client comes back', async () => {
  const { effects, legacy, clock, gateway, call } = await stage();
  const asked = await call();
  await advanceUntil(
    clock,
    gateway.reload(() => testConfig(legacy.url, settings(SHORT_MS))),
  );
  clock.advance(LONG_MS / 2);
  expect(text(await call(answersOf(asked, 'Ada')))).toBe('Hello Ada');
  expect(effects).toEqual(['Ada']);
});

const sealedBy = (kid: string) => ({
  keys: [{ kid, key: Buffer.alloc(32, kid).toString('base64url') }],
  audience: 'test',
});

// Rule reload-7.
test('a key that is removed opens a call that began when calls lived longer', async () => {
  const { effects, legacy, clock, gateway, call } = await stage({ seal: sealedBy('old') });
  const asked = await call();
  for (const kid of ['old', 'new']) {
    const config = testConfig(legacy.url, { ...settings(SHORT_MS), seal: sealedBy(kid) });
    await advanceUntil(
      clock,
      gateway.reload(() => config),
    );
  }
  expect(gateway.log.named('config.reloaded')).toHaveLength(3);
  clock.advance(LONG_MS / 2);
  expect(text(await call(answersOf(asked, 'Ada')))).toBe('Hello Ada');
  expect(effects).toEqual(['Ada']);
});

// Rule reload-4.
test('a route that is removed serves a released call that began when calls lived longer', async () => {
  const { effects, legacy, clock, gateway, call } = await stage();
  const asked = await call();
  const other = testConfig(legacy.url, settings(SHORT_MS));
  const routes = other.routes.map((route) => ({ ...route, id: 'other', path: '/other' }));
  for (const config of [other, { ...other, routes }]) {
    await advanceUntil(
      clock,
      gateway.reload(() => config),
    );
  }
  expect(gateway.log.named('config.reloaded')).toHaveLength(3);
  clock.advance(LONG_MS / 4);
  await nextTurn();
  clock.advance(LONG_MS / 4);
  expect(text(await call(answersOf(asked, 'Ada')))).toBe('Hello Ada');
  expect(effects).toEqual(['Ada']);
});
