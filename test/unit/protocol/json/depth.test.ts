import fc from 'fast-check';
import { expect, test } from 'vitest';
import { excessOf, MAX_CONTAINERS, type JsonValue } from '../../../../src/protocol/json.ts';
import { arbitraryJson } from '../../../fixtures/arbitrary/json.ts';

const isNestedDeeper = (text: string, maxDepth: number) => excessOf(text, maxDepth) === 'depth';

function depthOf(value: JsonValue): number {
  if (typeof value !== 'object' || value === null) return 0;
  return 1 + Math.max(0, ...Object.values(value).map(depthOf));
}

test('it agrees with the depth of the parsed value, however it is written', () => {
  const indents = fc.constantFrom(undefined, 2, '\t');
  fc.assert(
    fc.property(arbitraryJson, indents, fc.nat({ max: 6 }), (value, indent, maxDepth) => {
      const text = JSON.stringify(value, null, indent);
      expect(isNestedDeeper(text, maxDepth)).toBe(depthOf(value) > maxDepth);
    }),
    { numRuns: 300 },
  );
});

test('brackets in texts do not count, after escaped quotes neither', () => {
  const inTexts = JSON.stringify(['"[[[[', '\\"{{{{', '\\', '[', { '{[': '}' }]);
  expect(isNestedDeeper(inTexts, 2)).toBe(false);
  expect(isNestedDeeper(inTexts, 1)).toBe(true);
});

test('very deep nesting is found without recursion', () => {
  expect(isNestedDeeper('['.repeat(1_000_000), 64)).toBe(true);
  expect(isNestedDeeper('{"a":'.repeat(200_000), 64)).toBe(true);
});

test('text that is no JSON makes nothing throw', () => {
  fc.assert(
    fc.property(fc.string(), fc.nat({ max: 9 }), (text, maxDepth) => {
      expect(['depth', null]).toContain(excessOf(text, maxDepth));
    }),
  );
});

// Rule limits-3.
test.each(['[]', '{}'])(
  'more than so many of %s are too many, wherever they stand',
  (container) => {
    const listOf = (count: number) =>
      `[${Array.from({ length: count - 1 }, () => container).join()}]`;
    expect(excessOf(listOf(MAX_CONTAINERS), 64)).toBeNull();
    expect(excessOf(listOf(MAX_CONTAINERS + 1), 64)).toBe('containers');
  },
);
