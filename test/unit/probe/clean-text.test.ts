import fc from 'fast-check';
import { expect, test } from 'vitest';
import { asOneLine, escapeUnseen } from '../../../src/lib/shown-text.ts';

const OBEYED = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]/u;
const hostile = fc.string({
  unit: fc.oneof(fc.constantFrom('\u001b', '\n', '\r', '\u009b', '\u202e', '"', '\\'), fc.string()),
});

test('a cleaned text is one line of bounded length without control sequences', () => {
  fc.assert(
    fc.property(hostile, fc.integer({ min: 1, max: 50 }), (text, most) => {
      const cleaned = asOneLine(text, most);
      expect(cleaned).not.toMatch(OBEYED);
      expect(cleaned.length).toBeLessThanOrEqual(most);
    }),
  );
});

test('harmless text stays as it is', () => {
  expect(asOneLine('Grüße, 世界 🙂', 50)).toBe('Grüße, 世界 🙂');
});

test('escaped JSON means the same, and has no control sequences', () => {
  fc.assert(
    fc.property(hostile, (text) => {
      const escaped = escapeUnseen(JSON.stringify({ text }, null, 2), '\n');
      expect(JSON.parse(escaped)).toEqual({ text });
      expect(escaped.replaceAll('\n', '')).not.toMatch(OBEYED);
    }),
  );
});
