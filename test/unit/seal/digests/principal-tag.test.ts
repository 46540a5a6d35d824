import { expect, test } from 'vitest';
import { principalTag } from '../../../../src/seal/digests.ts';

const KEY = 'fleet';

test('an anonymous caller has no tag', () => {
  expect(principalTag(KEY, null)).toBeNull();
});

test('one principal has one tag, of at least 16 bytes, that does not show who it is', () => {
  const tag = principalTag(KEY, 'https://issuer.example alice');
  expect(principalTag(KEY, 'https://issuer.example alice')).toBe(tag);
  expect(tag).toMatch(/^[A-Za-z0-9_-]+$/);
  expect(Buffer.from(tag ?? '', 'base64url').byteLength).toBeGreaterThanOrEqual(16);
  expect(tag).not.toContain('alice');
});

test('different principals have different tags, however alike they are as UTF-8', () => {
  const principals = ['alice', 'Alice', 'alice ', '', 'null', 'a\ud800', 'a\ud801', 'a\ufffd'];
  expect(new Set(principals.map((principal) => principalTag(KEY, principal))).size).toBe(8);
});

test('without the key a tag cannot be computed from a guessed name', () => {
  const otherKey = 'another fleet';
  expect(principalTag(otherKey, 'alice')).not.toBe(principalTag(KEY, 'alice'));
  expect(principalTag('fleet-a', 'alice')).not.toBe(principalTag('fleet-b', 'alice'));
});
