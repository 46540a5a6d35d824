import fc from 'fast-check';
import { expect, test } from 'vitest';
import { SessionSeal } from '../../../src/seal/session-seal.ts';

const ONE = { kid: 'one', secret: Buffer.alloc(32, 1) };
const TWO = { kid: 'two', secret: Buffer.alloc(32, 2) };
const sealWith = (keys = [ONE], audience = 'fleet', route = 'mcp') =>
  new SessionSeal({ keys: { all: keys }, audience, route });

/** What a server may put into a header: a session id is visible ASCII, and some keep to it loosely. */
const plain = fc.string({
  unit: fc.integer({ min: 0x20, max: 0xff }).map((code) => String.fromCharCode(code)),
  minLength: 1,
  maxLength: 300,
});
const mark = fc.constantFrom('id' as const, 'endpoint' as const);

test('what was sealed is opened for its principal, by every process with the key', () => {
  fc.assert(
    fc.property(mark, plain, fc.string(), (mark, text, principal) => {
      const sealed = sealWith().seal(mark, text, principal);
      if (sealed === null) throw new Error('nothing was sealed');
      expect(sealed).toMatch(/^[\x21-\x7e]+$/);
      expect(sealWith([TWO, ONE]).open(mark, sealed, principal)).toBe(text);
    }),
  );
});

// Rule passthrough-12.
test('the same session has the same name each time, and grows by a third and 44 characters', () => {
  fc.assert(
    fc.property(plain, fc.string(), (text, principal) => {
      const sealed = sealWith().seal('id', text, principal);
      expect(sealWith().seal('id', text, principal)).toBe(sealed);
      expect(sealed?.length).toBeLessThanOrEqual(Math.ceil((text.length * 4) / 3) + 44);
    }),
  );
});

// Rule passthrough-12.
test('nothing opens for anybody or anything else', () => {
  fc.assert(
    fc.property(plain, fc.string(), fc.string(), (text, principal, other) => {
      fc.pre(principal !== other);
      const sealed = sealWith().seal('id', text, principal) ?? '';
      expect(sealWith().open('id', sealed, other)).toBeNull();
      expect(sealWith().open('endpoint', sealed, principal)).toBeNull();
      expect(sealWith([TWO]).open('id', sealed, principal)).toBeNull();
      expect(sealWith([ONE], 'another').open('id', sealed, principal)).toBeNull();
      expect(sealWith([ONE], 'fleet', 'other').open('id', sealed, principal)).toBeNull();
      expect(sealWith().open('id', text, principal)).toBeNull();
    }),
  );
});

test('no character can be changed, left out or added', () => {
  const sealed = sealWith().seal('id', 'a session', 'ada') ?? '';
  for (let at = 0; at < sealed.length; at += 1) {
    const changed = sealed[at] === 'A' ? 'B' : 'A';
    for (const text of [
      `${sealed.slice(0, at)}${changed}${sealed.slice(at + 1)}`,
      `${sealed.slice(0, at)}${sealed.slice(at + 1)}`,
      `${sealed.slice(0, at)}=${sealed.slice(at)}`,
    ]) {
      expect(sealWith().open('id', text, 'ada')).toBeNull();
    }
  }
});

test('what is longer than a header carries is neither sealed nor opened', () => {
  expect(sealWith().seal('id', 'x'.repeat(4096), 'ada')).not.toBeNull();
  expect(sealWith().seal('id', 'x'.repeat(4097), 'ada')).toBeNull();
  expect(sealWith().seal('id', '', 'ada')).toBeNull();
  expect(sealWith().open('id', `one.${'A'.repeat(100_000)}`, 'ada')).toBeNull();
});
