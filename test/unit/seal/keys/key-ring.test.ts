import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { createKeyRing, InvalidKeyRing, type SecretKey } from '../../../../src/seal/key-ring.ts';
import { CARRIED, openBytes, sealBytes } from '../../../../src/seal/envelope.ts';
import { InvalidRequestState } from '../../../../src/seal/invalid-request-state.ts';
import { createSealer } from '../../../../src/seal/seal.ts';
import { key, NEW_KEY, NOW_MS, OLD_KEY, pointer, request, sealer } from '../sealing-fixture.ts';

function problem(keys: readonly SecretKey[]): InvalidKeyRing {
  let outcome: unknown = 'it was created';
  try {
    createKeyRing(keys, 'seal');
  } catch (error) {
    outcome = error;
  }
  expect(outcome).toBeInstanceOf(InvalidKeyRing);
  return outcome as InvalidKeyRing;
}

describe('a ring', () => {
  test('seals with the first key and finds each by its name alone', () => {
    const ring = createKeyRing([NEW_KEY, OLD_KEY], 'seal');
    expect(ring.purpose).toBe('seal');
    expect(ring.sealing.kid).toBe(NEW_KEY.kid);
    expect(ring.find(NEW_KEY.kid)).toBe(ring.sealing);
    expect(ring.find(OLD_KEY.kid)?.kid).toBe(OLD_KEY.kid);
    expect(ring.find('toString')).toBeUndefined();
  });

  // Rule pointer-1.
  test('derives a key of its own for each purpose', () => {
    const [seal, relay] = [createKeyRing([OLD_KEY], 'seal'), createKeyRing([OLD_KEY], 'relay')];
    expect(relay.sealing.key.equals(seal.sealing.key)).toBe(false);
    const token = sealBytes(relay, CARRIED, Buffer.from('for the relay'));
    expect(() => openBytes({ ...seal, purpose: 'relay' }, CARRIED, token, 1000)).toThrow(
      InvalidRequestState,
    );
    expect(Buffer.from(openBytes(relay, CARRIED, token, 1000)).toString()).toBe('for the relay');
  });

  test('derives the same key on every replica that has the same secret', () => {
    const requestState = sealer().seal(pointer);
    expect(sealer().open(requestState, request)).toMatchObject({ round: 1 });
  });

  test('keeps no reference to the secret, which its caller can wipe', () => {
    const material = key('2026-09');
    const ring = createKeyRing([material], 'seal');
    material.secret.fill(0);
    const { seal } = createSealer({
      ring,
      audience: 'fleet-a',
      clock: { now: () => NOW_MS },
      maxTokenBytes: 4096,
    });
    expect(sealer().open(seal(pointer), request)).toMatchObject({ round: 1 });
  });

  test('shows its keys in no log', () => {
    const ring = createKeyRing([OLD_KEY], 'seal');
    const derived = ring.sealing.key.export();
    const shown = `${inspect(ring, { depth: 9, showHidden: true })} ${JSON.stringify(ring)}`;
    for (const secret of [derived, OLD_KEY.secret]) {
      expect(shown).not.toContain(secret.subarray(0, 6).join(', '));
      expect(shown).not.toContain(Buffer.from(secret).toString('hex', 0, 6));
      expect(shown).not.toContain(Buffer.from(secret).toString('base64url', 0, 6));
    }
  });
});

describe('a ring is refused, with what to do about it,', () => {
  test('when it is empty', () => {
    const { code, message } = problem([]);
    expect(code).toBe('key_ring_empty');
    expect(message).toContain('mrtr-gateway keygen');
  });

  test.each([0, 16, 31, 33, 64])('when a key has %i bytes', (length) => {
    const short = { kid: 'short', secret: new Uint8Array(length).fill(7) };
    const { code, message } = problem([OLD_KEY, short]);
    expect(code).toBe('key_length');
    expect(message).toContain('sealing key 2 ("short")');
    expect(message).toContain('exactly 32 random bytes');
    expect(message).toContain(`${length} bytes`);
    expect(message).toContain('mrtr-gateway keygen');
  });

  test.each(['k'.repeat(32), 32, null])('when a key is %j and not bytes', (secret) => {
    const wrong = { kid: 'wrong', secret: secret as unknown as Uint8Array };
    expect(problem([wrong]).code).toBe('key_length');
  });

  test('when two keys have the same name', () => {
    const { code, message } = problem([OLD_KEY, { ...NEW_KEY, kid: OLD_KEY.kid }]);
    expect(code).toBe('key_id_duplicate');
    expect(message).toContain(OLD_KEY.kid);
  });

  test('when two names stand for the same bytes', () => {
    const { code, message } = problem([OLD_KEY, { kid: 'rotated', secret: OLD_KEY.secret }]);
    expect(code).toBe('key_reused');
    expect(message).toContain('"rotated" has the same bytes as "2026-09"');
  });

  test.each(['', 'a b', 'k'.repeat(65), 'kid\n', 'schlüssel', '../key', 'a.b'])(
    'when a key is named %j',
    (kid) => {
      expect(problem([{ ...OLD_KEY, kid }]).code).toBe('key_id_malformed');
    },
  );

  test('without repeating a secret that stands in the place of a name', () => {
    const misplaced = Buffer.from(OLD_KEY.secret).toString('base64');
    const { code, message } = problem([{ ...OLD_KEY, kid: misplaced }]);
    expect(code).toBe('key_id_malformed');
    expect(message).not.toContain(misplaced);
  });
});
