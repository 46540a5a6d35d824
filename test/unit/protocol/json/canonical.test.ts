import canonicalize from 'canonicalize';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { canonicalJson } from '../../../../src/protocol/json.ts';
import { jsonValue } from '../../seal/json-arbitrary.ts';

test('canonical JSON is RFC 8785, as another implementation has it, for everything that RFC 8785 takes', () => {
  fc.assert(
    fc.property(jsonValue, (value) => {
      expect(canonicalJson(value)).toBe(canonicalize(value));
    }),
    { numRuns: 500 },
  );
});

test('canonical JSON sorts members by UTF-16 code units, as the example of RFC 8785 section 3.2.3 does', () => {
  const example = {
    '\u20ac': 'Euro Sign',
    '\r': 'Carriage Return',
    '\ufb33': 'Hebrew Letter Dalet With Dagesh',
    '1': 'One',
    '\ud83d\ude00': 'Emoji: Grinning Face',
    '\u0080': 'Control',
    '\u00f6': 'Latin Small Letter O With Diaeresis',
  };
  expect(
    Object.values(
      JSON.parse(
        `[${canonicalJson(example)
          .slice(1, -1)
          .replaceAll(/"[^"]*":/g, '')}]`,
      ),
    ),
  ).toEqual([
    'Carriage Return',
    'One',
    'Control',
    'Latin Small Letter O With Diaeresis',
    'Euro Sign',
    'Emoji: Grinning Face',
    'Hebrew Letter Dalet With Dagesh',
  ]);
});

test('canonical JSON leaves no unpaired surrogate in its text, so that UTF-8 loses nothing', () => {
  fc.assert(
    fc.property(
      fc.string({ unit: fc.nat(0xffff).map((code) => String.fromCharCode(code)) }),
      (text) => {
        const canonical = canonicalJson({ [text]: text });
        expect(canonical.isWellFormed()).toBe(true);
        expect(JSON.parse(canonical)).toEqual({ [text]: text });
      },
    ),
  );
});
