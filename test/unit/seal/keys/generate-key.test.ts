import { expect, test } from 'vitest';
import { generateKey } from '../../../../src/seal/key-ring.ts';
import { createKeyRing, KEY_ID } from '../../../../src/seal/key-ring.ts';

test('a generated key is fit for a ring', () => {
  const generated = generateKey();
  expect(generated.kid).toMatch(KEY_ID);
  expect(generated.secret).toHaveLength(32);
  expect(createKeyRing([generated], 'seal').sealing.kid).toBe(generated.kid);
});

test('two generated keys share neither name nor bytes', () => {
  const [one, other] = [generateKey(), generateKey()];
  expect(one.kid).not.toBe(other.kid);
  expect(one.secret).not.toEqual(other.secret);
});

test('name and secret come from the given randomness, drawn separately', () => {
  let draws = 0;
  const generated = generateKey((bytes) => new Uint8Array(bytes).fill((draws += 1)));
  expect(generated.kid).toBe('010101010101');
  expect(generated.secret).toEqual(new Uint8Array(32).fill(2));
});
