import { expect, test } from 'vitest';
import { randomRequestId } from '../../../src/upstream/discovery/broadcast-detector.ts';

// Rule wire-3.
test('ids of requests are exact integers of 53 bits, and none is used twice', () => {
  const ids = Array.from({ length: 20_000 }, () => randomRequestId());
  expect(ids.every((id) => Number.isSafeInteger(id) && Number(id) >= 2 ** 52)).toBe(true);
  expect(new Set(ids).size).toBe(ids.length);
  // Each of the 52 bits below the highest is set in some and clear in others, so none lost its randomness.
  const everSet = ids.reduce((bits, id) => bits | BigInt(id), 0n);
  const alwaysSet = ids.reduce((bits, id) => bits & BigInt(id), ~0n);
  expect(everSet).toBe(2n ** 53n - 1n);
  expect(alwaysSet).toBe(2n ** 52n);
});
