import { expect, test } from 'vitest';
import { EventLoopMonitor } from '../../../src/limits/load.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

function monitor() {
  const clock = new ManualClock();
  let delayMs = 0;
  const meter = { read: () => delayMs, close: () => {} };
  const observed = new EventLoopMonitor(100, meter, clock);
  /** Lets some time pass with this delay. */
  const after = async (ms: number, meanMs: number) => {
    await clock.advance(ms);
    delayMs = meanMs;
    return observed.isLate();
  };
  return { after };
}

// Rule admission-7.
test('two slow seconds in a row are an overload, and one that is not ends it', async () => {
  const { after } = monitor();
  expect(await after(1_000, 101)).toBe(false);
  expect(await after(500, 101)).toBe(false);
  expect(await after(500, 101)).toBe(true);
  expect(await after(1_000, 500)).toBe(true);
  expect(await after(1_000, 100)).toBe(false);
});

test('one long task is no overload', async () => {
  const { after } = monitor();
  expect(await after(3_000, 1_500)).toBe(false);
  expect(await after(1_000, 10)).toBe(false);
  expect(await after(1_000, 1_500)).toBe(false);
});

test('what was long ago says nothing', async () => {
  const { after } = monitor();
  expect(await after(1_000, 200)).toBe(false);
  expect(await after(60_000, 200)).toBe(false);
  expect(await after(1_000, 200)).toBe(true);
});
