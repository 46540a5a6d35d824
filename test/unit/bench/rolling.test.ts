/** How many of the calls that were released over replicas the benchmark answers. */
import { expect, test } from 'vitest';
import { sampleOf } from '../../../bench/rolling/rolling.ts';

test.each([
  [1_000_000, 10_000],
  [20_050, 201],
  [2_000, 100],
  [40, 40],
])('of %i parked calls %i', (parked, answered) => {
  expect(sampleOf(parked)).toBe(answered);
});
