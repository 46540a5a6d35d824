/** The headers that repeat the body of a modern request, as a server reads them. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeHeaderValue } from '../../../../src/edge/http/header-fields.ts';
import {
  encodeHeaderValue,
  ParameterHeaders,
  modernPost,
} from '../../../../src/upstream/modern/request-headers.ts';

// Rule back-11.
test('any value is visible ASCII in its header, and is read as it was', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme' }), (value) => {
      const encoded = encodeHeaderValue(value.toWellFormed());
      expect(encoded).toMatch(/^[\t\x20-\x7e]*$/);
      expect(encoded).toBe(encoded.trim());
      expect(decodeHeaderValue(encoded)).toBe(value.toWellFormed());
    }),
  );
});

test.each([
  ['us-west1', 'us-west1'],
  ['Hello, 世界', '=?base64?SGVsbG8sIOS4lueVjA==?='],
  [' padded ', '=?base64?IHBhZGRlZCA=?='],
  ['line1\nline2', '=?base64?bGluZTEKbGluZTI=?='],
  ['=?base64?literal?=', '=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?='],
])('the example %j of the specification is encoded as it says', (value, encoded) => {
  expect(encodeHeaderValue(value)).toBe(encoded);
});

test.each([
  ['tools/call', { name: 'a' }, 'a'],
  ['resources/read', { uri: 'b:c' }, 'b:c'],
  ['tasks/get', { taskId: 'd' }, 'd'],
  ['tools/list', { name: 'a' }, undefined],
])('%s names what it is about', (method, params, name) => {
  const { headers } = modernPost({ id: 1, method, params }, {});
  expect([headers['mcp-method'], headers['mcp-name']]).toEqual([method, name]);
});

test('values of nested parameters are repeated, and those that are absent or of another type are not', () => {
  const headers = new ParameterHeaders();
  const property = (type: string, name: string) => ({ type, 'x-mcp-header': name });
  const inputSchema = {
    type: 'object',
    properties: {
      place: { type: 'object', properties: { region: property('string', 'Region') } },
      count: property('integer', 'Count'),
      dry: property('boolean', 'Dry'),
      gone: property('string', 'Gone'),
      odd: property('integer', 'Odd'),
    },
  };
  headers.learn([{ name: 'tool', inputSchema }]);
  const args = { place: { region: 'eu' }, count: -7, dry: false, gone: null, odd: 1.5 };
  expect(headers.of('tool', args)).toEqual({
    'mcp-param-region': 'eu',
    'mcp-param-count': '-7',
    'mcp-param-dry': 'false',
  });
  expect(headers.of('other', args)).toEqual({});
});
