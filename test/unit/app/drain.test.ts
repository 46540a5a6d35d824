/** How long a drain waits, by a clock that somebody sets meanwhile. */
import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { drainCalls } from '../../../src/app/drain.ts';
import { LocalCounts } from '../../../src/lib/counts.ts';
import { Capacity } from '../../../src/calls/registry.ts';
import { OpenResponses } from '../../../src/lib/http.ts';
import { PendingRequests } from '../../../src/routes/pending-requests.ts';
import { Routes } from '../../../src/routes/routes.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { configOf, withRoute } from '../config/problems-of.ts';

/** A clock whose time of day can be set back; durations go on. */
class SettableClock extends ManualClock {
  setBackMs = 0;

  override now(): number {
    return super.now() - this.setBackMs;
  }
}

test('a drain ends in its time when the clock is set back meanwhile', async () => {
  const clock = new SettableClock();
  const capacity = new Capacity(
    () => ({
      maxRunningCalls: 1,
      maxParkedCalls: 1,
      maxParkedCallsPerPrincipal: 1,
    }),
    new LocalCounts(),
  );
  capacity.move('none', 'running', 'Ada');
  let isOver = false;
  const drain = { delayMs: 0, parkedMs: 0, timeoutMs: 1_000 };
  const drained = drainCalls(
    new Routes(),
    { drain: () => {}, close: async () => {} },
    {
      config: { ...configOf(withRoute()), drain },
      capacity,
      pendingRequests: new PendingRequests(),
      openResponses: new OpenResponses(),
      clock,
      log: { event: () => {}, takes: () => true },
    },
  ).then(() => (isOver = true));
  const passMs = async (ms: number) => {
    for (let passed = 0; passed < ms; passed += 50) {
      clock.advance(50);
      await turn();
    }
  };
  await passMs(500);
  clock.setBackMs = 3_600_000;
  expect(isOver).toBe(false);
  await passMs(2_600);
  expect(isOver).toBe(true);
  await drained;
});
