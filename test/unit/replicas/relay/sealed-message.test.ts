import { describe, expect, test } from 'vitest';
import {
  openLetter,
  sealLetter,
  type Letter,
} from '../../../../src/replicas/relay/sealed-message.ts';
import { createKeyRing, type KeyPurpose } from '../../../../src/seal/key-ring.ts';

const ring = <Purpose extends KeyPurpose>(purpose: Purpose, byte = 1) =>
  createKeyRing([{ kid: 'a', secret: Buffer.alloc(32, byte) }], purpose);
const LETTER: Letter = { kind: 'retry', id: 'id', from: 'one', number: 0, text: 'a secret' };

describe('a letter', () => {
  const open = async (sealed: string, to = 'other') =>
    openLetter(await ring('relay'), to, sealed, 10_000);

  test('is read by whom it is for, and says who wrote it', async () => {
    const sealed = await sealLetter(await ring('relay'), 'other', LETTER);
    expect(sealed).not.toContain('secret');
    expect(await open(sealed)).toEqual(LETTER);
  });

  test('is read by nobody else', async () => {
    const sealed = await sealLetter(await ring('relay'), 'other', LETTER);
    expect(await open(sealed, 'third')).toBeNull();
  });

  test('of another fleet is none', async () => {
    const sealed = await sealLetter(await ring('relay', 2), 'other', LETTER);
    expect(await open(sealed)).toBeNull();
  });

  test('that is too long is not read', async () => {
    const text = 'x'.repeat(20_000);
    const sealed = await sealLetter(await ring('relay'), 'other', { ...LETTER, text });
    expect(await open(sealed)).toBeNull();
  });

  test.each(['', 'a.b.c', 'not sealed'])('%j is none', async (sealed) => {
    expect(await open(sealed)).toBeNull();
  });
});
