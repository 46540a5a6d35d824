/** The sealed form is a compact JWE: the library for it reads what we write, and writes what we read. */
import { randomBytes } from 'node:crypto';
import { compactDecrypt, CompactEncrypt } from 'jose';
import { describe, expect, test } from 'vitest';
import { openBytes, sealBytes } from '../../../../src/seal/envelope.ts';
import { createKeyRing, type KeyPurpose } from '../../../../src/seal/key-ring.ts';
import { NEW_KEY, OLD_KEY } from '../sealing-fixture.ts';

const TYPES: readonly (readonly [KeyPurpose, string])[] = [
  ['seal', 'mrtr+jwe'],
  ['relay', 'mrtr-relay+jwe'],
];
const SIZES = [1, 15, 16, 17, 3_000, 100_000];
const LONGEST = 200_000;

describe.each(TYPES)('for the purpose %s', (purpose, typ) => {
  const ring = createKeyRing([NEW_KEY, OLD_KEY], purpose);

  test.each(SIZES)('jose opens %i bytes that were sealed here', async (size) => {
    const content = randomBytes(size);
    const opened = await compactDecrypt(sealBytes(ring, content), ring.sealing.key, {
      keyManagementAlgorithms: ['dir'],
      contentEncryptionAlgorithms: ['A256GCM'],
    });
    expect(Buffer.from(opened.plaintext).equals(content)).toBe(true);
    expect(opened.protectedHeader).toEqual({
      ...{ alg: 'dir', enc: 'A256GCM', kid: NEW_KEY.kid, typ },
    });
  });

  test.each(SIZES)('%i bytes that jose sealed open here', async (size) => {
    const content = randomBytes(size);
    const token = await new CompactEncrypt(content)
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid: OLD_KEY.kid, typ })
      .encrypt(createKeyRing([OLD_KEY], purpose).sealing.key);
    expect(Buffer.from(openBytes(ring, token, LONGEST)).equals(content)).toBe(true);
  });

  test('both write the same header', async () => {
    const header = { alg: 'dir', enc: 'A256GCM', kid: NEW_KEY.kid, typ };
    const theirs = await new CompactEncrypt(Buffer.of(1))
      .setProtectedHeader(header)
      .encrypt(ring.sealing.key);
    expect(sealBytes(ring, Buffer.of(1)).split('.')[0]).toBe(theirs.split('.')[0]);
  });
});
