import { describe, expect, test } from 'vitest';
import {
  openMessage,
  sealMessage,
  type RelayMessage,
} from '../../../../src/fleet/relay/messages.ts';
import { createKeyRing, type KeyPurpose } from '../../../../src/seal/key-ring.ts';

const ring = <Purpose extends KeyPurpose>(purpose: Purpose, byte = 1) =>
  createKeyRing([{ kid: 'a', secret: Buffer.alloc(32, byte) }], purpose);
const placeOf = (key: string) => ({ audience: 'fleet', key });
const LETTER: RelayMessage = { kind: 'retry', id: 'id', from: 'one', number: 0, text: 'a secret' };

// Rule relay-8: Messages between replicas are sealed for one process and one retry. Everything else at the relay's
// port gets 421.
describe('a message', () => {
  const open = (sealed: string, to = 'other') =>
    openMessage(ring('relay'), placeOf(to), sealed, 10_000);

  test('is read by whom it is for, and says who wrote it', () => {
    const sealed = sealMessage(ring('relay'), placeOf('other'), LETTER);
    expect(sealed).not.toContain('secret');
    expect(open(sealed)).toEqual(LETTER);
  });

  test('is read by nobody else', () => {
    const sealed = sealMessage(ring('relay'), placeOf('other'), LETTER);
    expect(open(sealed, 'third')).toBeNull();
  });

  test('of another fleet is none', () => {
    const sealed = sealMessage(ring('relay', 2), placeOf('other'), LETTER);
    expect(open(sealed)).toBeNull();
  });

  test('that is too long is not read', () => {
    const text = 'x'.repeat(20_000);
    const sealed = sealMessage(ring('relay'), placeOf('other'), { ...LETTER, text });
    expect(open(sealed)).toBeNull();
  });

  test.each(['', 'a.b.c', 'not sealed'])('%j is none', (sealed) => {
    expect(open(sealed)).toBeNull();
  });
});
