import { expect, test } from 'vitest';
import { RateLimit } from '../../../src/limits/rates.ts';

test('a window is full after its requests, for each key', async () => {
  const limit = new RateLimit({ requests: 2, windowMs: 60_000 }, 'test', null);
  expect([await limit.take('a'), await limit.take('a'), await limit.take('b')]).toEqual([0, 0, 0]);
  const waitMs = await limit.take('a');
  expect(waitMs).toBeGreaterThan(59_000);
  expect(waitMs).toBeLessThanOrEqual(60_000);
  expect(await limit.take('b')).toBe(0);
});

test('callers that are made up take no memory without end', async () => {
  const limit = new RateLimit({ requests: 1, windowMs: 3_600_000 }, 'test', null, 10);
  for (let caller = 0; caller < 10; caller += 1) expect(await limit.take(`${caller}`)).toBe(0);
  expect(await limit.take('9')).toBeGreaterThan(0);
  // The eleventh: what was counted is forgotten.
  expect(await limit.take('10')).toBe(0);
  expect(await limit.take('9')).toBe(0);
  expect(await limit.take('9')).toBeGreaterThan(0);
});
