import { expect, test } from 'vitest';
import { Restarts } from '../../../src/workers/number-of-workers.ts';

test('a worker is replaced later each time, and the fifth end within a minute is the last', () => {
  const restarts = new Restarts();
  const delays = [0, 1_000, 2_000, 3_000, 59_000].map((nowMs) => restarts.next(nowMs));
  expect(delays).toEqual([100, 300, 900, 2_700, null]);
});

test('ends that are a minute apart do not count together', () => {
  const restarts = new Restarts();
  const delays = Array.from({ length: 20 }, (_, index) => restarts.next(index * 60_001));
  expect(new Set(delays)).toEqual(new Set([100]));
});
