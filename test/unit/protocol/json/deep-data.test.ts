/** What a server nests as deep as it may is read and written by functions that call themselves. */
import { expect, test } from 'vitest';
import { canonicalJson, parseJson, type JsonObject } from '../../../../src/protocol/json.ts';
import { fromServer } from '../../../../src/protocol/translate/cleaning.ts';
import {
  annotatedParameters,
  withoutHeaderAnnotations,
} from '../../../../src/protocol/translate/header-annotations.ts';
import { normaliseElicitationSchema } from '../../../../src/protocol/translate/elicitation-schema.ts';

const LEVELS = 1_000;

test.each([
  ['objects', '{"a":', '}', LEVELS],
  ['lists', '[', ']', LEVELS],
  ['both', '[{"a":', '}]', LEVELS / 2],
  ['parts of content', '{"_meta":{"mrtr-gateway/a":1},"content":', '}', LEVELS],
  ['lists of content', '{"content":[', ']}', LEVELS / 2],
  ['properties of schemas', '{"properties":{"a":', '}}', LEVELS / 2],
  ['alternatives of schemas', '{"anyOf":[', ']}', LEVELS / 2],
])('%s of 1000 levels exhaust no stack', (_title, open, close, levels) => {
  const part = parseJson(`${open.repeat(levels)}1${close.repeat(levels)}`);
  const deep: JsonObject = { content: part, properties: { a: part }, anyOf: [part] };
  const text = JSON.stringify(deep);
  expect(canonicalJson(deep)).toHaveLength(text.length);
  expect(JSON.stringify(fromServer(deep)).length).toBeLessThanOrEqual(text.length);
  expect(annotatedParameters(deep)).toEqual([]);
  expect(JSON.stringify(withoutHeaderAnnotations(deep))).toBe(text);
  expect(() => normaliseElicitationSchema(deep)).not.toThrow();
});
