import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isReserved, withoutReservedMeta } from '../../../../src/protocol/translate/cleaning.ts';
import { arbitraryJsonObject, unknownMeta } from '../../../fixtures/arbitrary/json.ts';

// Rule envelope-3.
test.each([
  'progressToken',
  'io.modelcontextprotocol/protocolVersion',
  'io.modelcontextprotocol/related-task',
  'io.modelcontextprotocol/anything',
  'com.mcp/a',
  'dev.mcp/a',
  'org.modelcontextprotocol.api/a',
  'com.mcp.tools/a',
])('%s is the protocol’s own (basic/index, "_meta")', (name) => {
  expect(isReserved(name)).toBe(true);
});

test.each([
  'traceparent',
  'tracestate',
  'baggage',
  'com.example/a',
  'com.example.mcp/a',
  'mcp/a',
  'com.mcpx/a',
  'io.modelcontextprotocol',
  'mcp',
  '',
  '/',
])('%j is a vendor’s or nobody’s and goes on', (name) => {
  expect(isReserved(name)).toBe(false);
});

test('a message without reserved members is the same message', () => {
  fc.assert(
    fc.property(arbitraryJsonObject, unknownMeta, (message, meta) => {
      const whole = { ...message, ...(Object.keys(meta).length > 0 ? { _meta: meta } : {}) };
      const { _meta: _given, ...rest } = message;
      const expected = Object.keys(meta).length > 0 ? whole : rest;
      expect(withoutReservedMeta({ ...message, _meta: meta })).toEqual(expected);
    }),
  );
});

test('a _meta that is empty, or becomes so, goes', () => {
  expect(withoutReservedMeta({ a: 1, _meta: {} })).toEqual({ a: 1 });
  expect(withoutReservedMeta({ a: 1, _meta: { progressToken: 5 } })).toEqual({ a: 1 });
});

test('a _meta that is no object goes', () => {
  for (const _meta of [null, 5, 'x', []])
    expect(withoutReservedMeta({ a: 1, _meta })).toEqual({ a: 1 });
});

test('no reserved member is ever left', () => {
  const names = fc.oneof(
    fc.stringMatching(/^io\.modelcontextprotocol\/[a-zA-Z-]{0,9}$/),
    fc.stringMatching(/^[a-z]{1,4}\.(mcp|modelcontextprotocol)\/[a-z]{0,5}$/),
    fc.constant('progressToken'),
  );
  fc.assert(
    fc.property(fc.dictionary(names, fc.integer(), { minKeys: 1 }), (meta) => {
      expect(withoutReservedMeta({ _meta: meta })).toEqual({});
    }),
  );
});
