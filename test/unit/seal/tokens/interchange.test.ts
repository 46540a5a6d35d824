/** The sealed form is a JWE: the library for it reads what we write, and writes what we read. */
import { randomBytes } from 'node:crypto';
import {
  compactDecrypt,
  CompactEncrypt,
  flattenedDecrypt,
  FlattenedEncrypt,
  type FlattenedJWE,
} from 'jose';
import { describe, expect, test } from 'vitest';
import { CARRIED, openBytes, sealBytes } from '../../../../src/seal/envelope.ts';
import { createKeyRing } from '../../../../src/seal/key-ring.ts';
import { NEW_KEY, OLD_KEY } from '../sealing-fixture.ts';

const SIZES = [1, 15, 16, 17, 3_000, 100_000];
const LONGEST = 200_000;
const ALGORITHMS = {
  keyManagementAlgorithms: ['dir'],
  contentEncryptionAlgorithms: ['A256GCM'],
};

describe('what clients carry', () => {
  const ring = createKeyRing([NEW_KEY, OLD_KEY], 'seal');
  const typ = 'mrtr+jwe';

  test.each(SIZES)('jose opens %i bytes that were sealed here', async (size) => {
    const content = randomBytes(size);
    const token = sealBytes(ring, CARRIED, content);
    const opened = await compactDecrypt(token, ring.sealing.key, ALGORITHMS);
    expect(Buffer.from(opened.plaintext).equals(content)).toBe(true);
    expect(opened.protectedHeader).toEqual({
      ...{ alg: 'dir', enc: 'A256GCM', kid: NEW_KEY.kid, typ },
    });
  });

  test.each(SIZES)('%i bytes that jose sealed open here', async (size) => {
    const content = randomBytes(size);
    const token = await new CompactEncrypt(content)
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid: OLD_KEY.kid, typ })
      .encrypt(createKeyRing([OLD_KEY], 'seal').sealing.key);
    expect(Buffer.from(openBytes(ring, CARRIED, token, LONGEST)).equals(content)).toBe(true);
  });

  test('both write the same header', async () => {
    const header = { alg: 'dir', enc: 'A256GCM', kid: NEW_KEY.kid, typ };
    const theirs = await new CompactEncrypt(Buffer.of(1))
      .setProtectedHeader(header)
      .encrypt(ring.sealing.key);
    expect(sealBytes(ring, CARRIED, Buffer.of(1)).split('.')[0]).toBe(theirs.split('.')[0]);
  });
});

describe('what is put somewhere has its place as the additional authenticated data of JWE', () => {
  const ring = createKeyRing([NEW_KEY, OLD_KEY], 'task');
  const place = { audience: 'fleet-a', key: 'one' };
  const aad = Buffer.from('["fleet-a","one"]');

  test('jose opens it with that', async () => {
    const [header, , iv, ciphertext, tag] = sealBytes(ring, place, Buffer.from('a')).split('.');
    const flattened = { protected: header, iv, ciphertext, tag, aad: aad.toString('base64url') };
    const opened = await flattenedDecrypt(flattened as FlattenedJWE, ring.sealing.key, ALGORITHMS);
    expect(Buffer.from(opened.plaintext).toString()).toBe('a');
  });

  test('what jose sealed with that opens here', async () => {
    const {
      protected: header,
      iv,
      ciphertext,
      tag,
    } = await new FlattenedEncrypt(Buffer.from('a'))
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid: NEW_KEY.kid, typ: 'mrtr-task+jwe' })
      .setAdditionalAuthenticatedData(aad)
      .encrypt(ring.sealing.key);
    const token = [header, '', iv, ciphertext, tag].join('.');
    expect(openBytes(ring, place, token, LONGEST).toString()).toBe('a');
  });
});
