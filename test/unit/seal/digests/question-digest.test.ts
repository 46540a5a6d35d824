import { expect, test } from 'vitest';
import { questionDigest } from '../../../../src/seal/digests.ts';
import { OPENAI_SCHEMA, shownOpenaiForm } from '../../../fixtures/servers/openai-form.ts';

const form = shownOpenaiForm();
const withMeta = (_meta: object) =>
  questionDigest({ ...form, params: { ...form.params, _meta: { ..._meta } } });
const ofSchema = (requestedSchema: object, more: object = {}) =>
  withMeta({ 'openai/elicitation': { requestedSchema, ...more }, ...more });

// Rule replay-3.
test('a form of the extension is another question if only its schema differs', () => {
  const other = { ...OPENAI_SCHEMA, required: ['part'] };
  expect(ofSchema(other)).not.toBe(questionDigest(form));
  expect(withMeta({})).not.toBe(questionDigest(form));
});

// Rule replay-3.
test('a question is the same whatever else is in its _meta', () => {
  expect(ofSchema(OPENAI_SCHEMA, { attempt: 2 })).toBe(questionDigest(form));
  expect(withMeta({ attempt: 2 })).toBe(withMeta({ attempt: 1 }));
});
