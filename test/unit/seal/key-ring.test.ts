import { inspect } from 'node:util';
import { describe, expect, test } from 'vitest';
import { createKeyRing, InvalidKeyRing, type SecretKey } from '../../../src/seal/key-ring.ts';
import { createSealer } from '../../../src/seal/seal.ts';
import { key, NEW_KEY, NOW_MS, OLD_KEY, pointer, request, sealer } from './sealing-fixture.ts';

async function problem(keys: readonly SecretKey[]): Promise<InvalidKeyRing> {
  const error: unknown = await createKeyRing(keys, 'seal').catch((thrown: unknown) => thrown);
  expect(error).toBeInstanceOf(InvalidKeyRing);
  return error as InvalidKeyRing;
}

describe('a ring', () => {
  test('seals with the first key and finds each by its name alone', async () => {
    const ring = await createKeyRing([NEW_KEY, OLD_KEY], 'seal');
    expect(ring.purpose).toBe('seal');
    expect(ring.sealing.kid).toBe(NEW_KEY.kid);
    expect(ring.find(NEW_KEY.kid)).toBe(ring.sealing);
    expect(ring.find(OLD_KEY.kid)?.kid).toBe(OLD_KEY.kid);
    expect(ring.find('toString')).toBeUndefined();
  });

  test('derives a key of its own for each purpose', async () => {
    const [seal, relay] = [
      await createKeyRing([OLD_KEY], 'seal'),
      await createKeyRing([OLD_KEY], 'relay'),
    ];
    const iv = new Uint8Array(12);
    const encrypted = await crypto.subtle.encrypt(
      { name: 'AES-GCM', iv },
      relay.sealing.key,
      Buffer.from('for the relay'),
    );
    const decrypt = (by: typeof relay.sealing) =>
      crypto.subtle.decrypt({ name: 'AES-GCM', iv }, by.key, encrypted);
    await expect(decrypt(seal.sealing)).rejects.toThrow();
    expect(Buffer.from(await decrypt(relay.sealing)).toString()).toBe('for the relay');
  });

  test('derives the same key on every replica that has the same secret', async () => {
    const requestState = await (await sealer()).seal(pointer);
    expect(await (await sealer()).open(requestState, request)).toMatchObject({ round: 1 });
  });

  test('does not notice when its caller wipes the secret, even before it is ready', async () => {
    const material = key('2026-09');
    const making = createKeyRing([material], 'seal');
    material.secret.fill(0);
    const { seal } = createSealer({
      ring: await making,
      audience: 'fleet-a',
      clock: { now: () => NOW_MS },
      maxTokenBytes: 4096,
    });
    const requestState = await seal(pointer);
    expect(await (await sealer()).open(requestState, request)).toMatchObject({ round: 1 });
  });

  test('keeps its keys where no log and no export can reach them', async () => {
    const ring = await createKeyRing([OLD_KEY], 'seal');
    expect(ring.sealing.key.extractable).toBe(false);
    await expect(crypto.subtle.exportKey('raw', ring.sealing.key)).rejects.toThrow();
    const shown = `${inspect(ring, { depth: 9 })} ${JSON.stringify(ring)}`;
    expect(shown).not.toContain(OLD_KEY.secret.subarray(0, 6).join(', '));
    expect(shown).not.toContain(Buffer.from(OLD_KEY.secret).toString('base64url'));
  });
});

describe('a ring is refused, with what to do about it,', () => {
  test('when it is empty', async () => {
    const { code, message } = await problem([]);
    expect(code).toBe('key_ring_empty');
    expect(message).toContain('mrtr-gateway keygen');
  });

  test.each([0, 16, 31, 33, 64])('when a key has %i bytes', async (length) => {
    const short = { kid: 'short', secret: new Uint8Array(length).fill(7) };
    const { code, message } = await problem([OLD_KEY, short]);
    expect(code).toBe('key_length');
    expect(message).toContain('sealing key 2 ("short")');
    expect(message).toContain('exactly 32 random bytes');
    expect(message).toContain(`${length} bytes`);
    expect(message).toContain('mrtr-gateway keygen');
  });

  test.each(['k'.repeat(32), 32, null])('when a key is %j and not bytes', async (secret) => {
    const wrong = { kid: 'wrong', secret: secret as unknown as Uint8Array };
    expect((await problem([wrong])).code).toBe('key_length');
  });

  test('when two keys have the same name', async () => {
    const { code, message } = await problem([OLD_KEY, { ...NEW_KEY, kid: OLD_KEY.kid }]);
    expect(code).toBe('key_id_duplicate');
    expect(message).toContain(OLD_KEY.kid);
  });

  test('when two names stand for the same bytes', async () => {
    const { code, message } = await problem([OLD_KEY, { kid: 'rotated', secret: OLD_KEY.secret }]);
    expect(code).toBe('key_reused');
    expect(message).toContain('"rotated" has the same bytes as "2026-09"');
  });

  test.each(['', 'a b', 'k'.repeat(65), 'kid\n', 'schlüssel', '../key', 'a.b'])(
    'when a key is named %j',
    async (kid) => {
      expect((await problem([{ ...OLD_KEY, kid }])).code).toBe('key_id_malformed');
    },
  );

  test('without repeating a secret that stands in the place of a name', async () => {
    const misplaced = Buffer.from(OLD_KEY.secret).toString('base64');
    const { code, message } = await problem([{ ...OLD_KEY, kid: misplaced }]);
    expect(code).toBe('key_id_malformed');
    expect(message).not.toContain(misplaced);
  });
});
