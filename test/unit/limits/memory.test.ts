import { expect, test } from 'vitest';
import { MemoryMonitor, processMemory } from '../../../src/limits/memory.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const MAX_PERCENT = 80;

function monitor() {
  const clock = new ManualClock();
  const now = { used: 0, calls: 0 };
  const observed = new MemoryMonitor(
    () => now.used,
    () => now.calls,
    clock,
  );
  /** Reads the memory with so much used and so many calls. */
  const at = async (used: number, calls: number) => {
    clock.advance(250);
    Object.assign(now, { used, calls });
    return observed.isShort(MAX_PERCENT);
  };
  return { at, now, isShort: () => observed.isShort(MAX_PERCENT) };
}

// Rule admission-7.
test('any number of calls can come until the limit is reached, and as many as there are then', async () => {
  const { at, now, isShort } = monitor();
  expect(await at(0.8, 5_000)).toBe(false);
  expect(await at(0.80001, 5_000)).toBe(true);
  now.calls = 4_900;
  expect(isShort()).toBe(false);
  now.calls = 5_000;
  expect(isShort()).toBe(true);
});

test('the more is used beyond it, the fewer calls can come, and one always can', async () => {
  const { at } = monitor();
  await at(0.81, 1_000);
  expect(await at(0.9, 501)).toBe(true);
  expect(await at(0.9, 499)).toBe(false);
  expect(await at(1.1, 1)).toBe(true);
  expect(await at(1.1, 0)).toBe(false);
});

test('it ends when memory is free again, with some distance', async () => {
  const { at } = monitor();
  await at(0.81, 1_000);
  expect(await at(0.76, 1_201)).toBe(true);
  expect(await at(0.74, 5_000)).toBe(false);
  expect(await at(0.79, 5_000)).toBe(false);
});

test('it is read at most every 250 ms', async () => {
  const { at, now, isShort } = monitor();
  await at(0.5, 1_000);
  now.used = 0.95;
  expect(isShort()).toBe(false);
});

test('a process uses some of its memory, and as one of several workers a larger part of their share', () => {
  const alone = processMemory(() => 1)();
  expect(alone).toBeGreaterThan(0);
  expect(alone).toBeLessThan(1);
  expect(processMemory(() => 1_000)()).toBeGreaterThan(alone);
});
