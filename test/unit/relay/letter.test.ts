import { describe, expect, test } from 'vitest';
import { openLetter, sealLetter, type Letter } from '../../../src/relay/letter.ts';
import { isRelayToken, sealRelayToken } from '../../../src/relay/relay-token.ts';
import { createKeyRing, type KeyPurpose } from '../../../src/seal/key-ring.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const ring = <Purpose extends KeyPurpose>(purpose: Purpose, byte = 1) =>
  createKeyRing([{ kid: 'a', secret: Buffer.alloc(32, byte) }], purpose);
const LETTER: Letter = { kind: 'retry', id: 'id', from: 'one', text: 'a secret' };

describe('a letter', () => {
  const open = async (sealed: string, to = 'other', clock = new ManualClock(), maxBytes = 10_000) =>
    openLetter(await ring('relay'), to, sealed, { clock, maxBytes });

  test('is read by whom it is for, and says who wrote it', async () => {
    const sealed = await sealLetter(await ring('relay'), 'other', LETTER, new ManualClock());
    expect(sealed).not.toContain('secret');
    expect(await open(sealed)).toEqual(LETTER);
  });

  test('is read by nobody else', async () => {
    const sealed = await sealLetter(await ring('relay'), 'other', LETTER, new ManualClock());
    expect(await open(sealed, 'third')).toBeNull();
  });

  test('of another fleet is none', async () => {
    const sealed = await sealLetter(await ring('relay', 2), 'other', LETTER, new ManualClock());
    expect(await open(sealed)).toBeNull();
  });

  test('is old after half a minute, give or take what clocks differ', async () => {
    const clock = new ManualClock();
    const sealed = await sealLetter(await ring('relay'), 'other', LETTER, clock);
    clock.advance(30_000);
    expect(await open(sealed, 'other', clock)).toEqual(LETTER);
    clock.advance(120_000);
    expect(await open(sealed, 'other', clock)).toBeNull();
  });

  test('that is too long is not read', async () => {
    const text = 'x'.repeat(20_000);
    const sealed = await sealLetter(
      await ring('relay'),
      'other',
      { ...LETTER, text },
      new ManualClock(),
    );
    expect(await open(sealed)).toBeNull();
  });

  test.each(['', 'a.b.c', 'not sealed'])('%j is none', async (sealed) => {
    expect(await open(sealed)).toBeNull();
  });
});

describe('a token of the relay', () => {
  const body = Buffer.from('body');

  test('goes with one body to one process', async () => {
    const clock = new ManualClock();
    const token = await sealRelayToken(await ring('relay'), 'other', body, clock);
    const is = async (boot: string, bytes: Buffer) =>
      isRelayToken(await ring('relay'), token, boot, bytes, clock);
    expect(await is('other', body)).toBe(true);
    expect(await is('third', body)).toBe(false);
    expect(await is('other', Buffer.from('another body'))).toBe(false);
  });

  test('is old after half a minute', async () => {
    const clock = new ManualClock();
    const token = await sealRelayToken(await ring('relay'), 'other', body, clock);
    clock.advance(120_000);
    expect(await isRelayToken(await ring('relay'), token, 'other', body, clock)).toBe(false);
  });

  test('of another fleet is none, and neither is nothing', async () => {
    const clock = new ManualClock();
    const token = await sealRelayToken(await ring('relay', 2), 'other', body, clock);
    for (const shown of [token, undefined, '', ['x']]) {
      expect(await isRelayToken(await ring('relay'), shown, 'other', body, clock)).toBe(false);
    }
  });
});
