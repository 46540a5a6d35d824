import { describe, expect, test } from 'vitest';
import {
  openLetter,
  sealLetter,
  type Letter,
} from '../../../../src/replicas/relay/sealed-message.ts';
import { createKeyRing, type KeyPurpose } from '../../../../src/seal/key-ring.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

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
    expect(await open(sealed, 'other', clock)).toBe('untimely');
  });

  test('of an hour ahead is of another time', async () => {
    const clock = new ManualClock();
    clock.advance(3_600_000);
    const sealed = await sealLetter(await ring('relay'), 'other', LETTER, clock);
    expect(await open(sealed)).toBe('untimely');
  });

  test('counts for as long as somebody waits for what it names, when it is no retry', async () => {
    const clock = new ManualClock();
    const line: Letter = { ...LETTER, kind: 'line' };
    const sealed = await sealLetter(await ring('relay'), 'other', line, clock);
    clock.advance(3_600_000);
    expect(await open(sealed, 'other', clock)).toEqual(line);
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
