import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../../src/protocol/json.ts';
import { answersDigest } from '../../../../src/seal/digests.ts';
import { jsonObject, reordered } from '../json-arbitrary.ts';

const answers: JsonObject = {
  confirm: { action: 'accept', content: { environment: 'production', count: 2 } },
  roots: { roots: [] },
};

// Rule retries-2.
describe('the identical retry is recognised', () => {
  test('in whatever order a client writes its answers', () => {
    expect(answersDigest(reordered(answers))).toBe(answersDigest(answers));
    fc.assert(
      fc.property(jsonObject, (any) => {
        expect(answersDigest(reordered(any))).toBe(answersDigest(any));
      }),
    );
  });

  test('whether a retry has no answers or an empty object of them', () => {
    expect(answersDigest(null)).toBe(answersDigest({}));
  });
});

test.each<[string, JsonObject]>([
  ['another action', { ...answers, confirm: { action: 'decline' } }],
  ['another value', { ...answers, confirm: { action: 'accept', content: { count: 3 } } }],
  ['an answer less', { confirm: answers['confirm'] ?? null }],
  ['an answer more', { ...answers, another: { action: 'cancel' } }],
  ['another key', { confirmed: answers['confirm'] ?? null, roots: answers['roots'] ?? null }],
  ['an unpaired surrogate', { ...answers, confirm: { action: 'accept', content: '\ud800' } }],
])('%s is another retry', (_title, other) => {
  expect(answersDigest(other)).not.toBe(answersDigest(answers));
});

test('the digest is fit for a record: 43 characters that show nothing of an answer', () => {
  expect(answersDigest({ confirm: 'x'.repeat(100_000) })).toMatch(/^[A-Za-z0-9_-]{43}$/);
});
