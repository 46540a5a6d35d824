import { expect, test } from 'vitest';
import { randomId } from '../../../src/lib/crypto.ts';

test('ids are 128 bits that a URL can carry, and none comes twice', () => {
  const ids = Array.from({ length: 10_000 }, randomId);
  expect(ids.filter((id) => Buffer.from(id, 'base64url').length !== 16)).toEqual([]);
  expect(new Set(ids).size).toBe(10_000);
});
