import { expect, test } from 'vitest';
import { growthTo } from '../../../src/lib/young-generation.ts';

test('it grows up to the bound, and again once V8 has made it smaller', () => {
  let bytes = 2;
  const set: number[] = [];
  const adjust = growthTo(32, { bytes: () => bytes, setGrowth: (factor) => set.push(factor) });
  for (bytes of [2, 16, 32, 32, 64, 8, 32]) adjust();
  expect(set).toEqual([2, 1, 2, 1]);
});
