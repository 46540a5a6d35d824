import { expect, test } from 'vitest';
import { CARRIED, openBytes, sealBytes } from '../../../../src/seal/envelope.ts';
import { SealKeys } from '../../../../src/seal/seal-keys.ts';
import { SessionSeal } from '../../../../src/seal/session-seal.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

const key = (kid: string, byte: number) => ({ kid, secret: Buffer.alloc(32, byte) });
const [OLD, NEW] = [key('old', 1), key('new', 2)];
const KEEP_MS = 1_000;
const UNKNOWN_KEY = expect.objectContaining({ reason: 'unknown-key' });

function rotating() {
  const clock = new ManualClock();
  const keys = new SealKeys([OLD], clock);
  const ring = keys.ring('seal');
  const seal = () => sealBytes(ring, CARRIED, Buffer.from('content'));
  const open = (sealed: string) => openBytes(ring, CARRIED, sealed, 4_096).toString();
  return { clock, keys, ring, seal, open };
}

// Rule reload-7: The first key seals at once. A removed key opens what it sealed until that expires.
test('the first key seals, and an earlier one opens until what it sealed has expired', () => {
  const { clock, keys, ring, seal, open } = rotating();
  const before = seal();
  keys.admit([NEW]);
  keys.rotate([NEW], KEEP_MS);
  expect(ring.sealing.kid).toBe('new');
  expect(open(seal())).toBe('content');
  expect(open(before)).toBe('content');
  clock.advance(KEEP_MS - 1);
  expect(open(before)).toBe('content');
  clock.advance(1);
  expect(() => open(before)).toThrow(UNKNOWN_KEY);
  expect(open(seal())).toBe('content');
});

// Rule reload-7.
test('a key that comes back stays', () => {
  const { clock, keys, seal, open } = rotating();
  const before = seal();
  keys.rotate([NEW], KEEP_MS);
  keys.rotate([NEW, OLD], KEEP_MS);
  clock.advance(KEEP_MS);
  expect(open(before)).toBe('content');
});

// Rule reload-7.
test('a key that sealed when calls lived longer opens for as long as those live', () => {
  const { clock, keys, seal, open } = rotating();
  const before = seal();
  keys.rotate([OLD], KEEP_MS);
  keys.rotate([OLD], 1);
  keys.rotate([NEW], 1);
  clock.advance(KEEP_MS - 1);
  expect(open(before)).toBe('content');
  clock.advance(1);
  expect(() => open(before)).toThrow(UNKNOWN_KEY);
});

// Rule reload-7.
test('a key opens before it seals, since another process may be ahead', () => {
  const { keys, ring, open } = rotating();
  const ahead = sealBytes(
    new SealKeys([NEW], new ManualClock()).ring('seal'),
    CARRIED,
    Buffer.from('x'),
  );
  expect(() => open(ahead)).toThrow(UNKNOWN_KEY);
  keys.admit([OLD, NEW]);
  expect(open(ahead)).toBe('x');
  expect(ring.sealing.kid).toBe('old');
  keys.dismiss();
  expect(() => open(ahead)).toThrow(UNKNOWN_KEY);
});

test.each([
  ['the name of another key', key('old', 3)],
  ['the bytes of another key', key('other', 1)],
])('a new key with %s is refused', (_what, reused) => {
  const { keys, ring } = rotating();
  expect(() => keys.admit([reused])).toThrow('expected a new kid and new bytes');
  expect(ring.sealing.kid).toBe('old');
});

// Rule reload-7.
test('session ids that an earlier key sealed are opened, and new ones are sealed with the new key', () => {
  const { keys } = rotating();
  const seal = new SessionSeal({ keys, audience: 'fleet', route: 'mcp' });
  const before = seal.seal('id', 'session', 'Ada') ?? '';
  keys.rotate([NEW], KEEP_MS);
  expect(seal.open('id', before, 'Ada')).toBe('session');
  expect(seal.seal('id', 'session', 'Ada')).toMatch(/^new\./);
});
