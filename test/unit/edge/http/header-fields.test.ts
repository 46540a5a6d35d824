import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  decodeHeaderValue,
  isJsonMediaType,
  readAccept,
  readHeader,
} from '../../../../src/edge/http/header-fields.ts';

/** A value as Node's HTTP parser hands it over: one character for each byte. */
const onTheWire = (text: string) => Buffer.from(text, 'utf8').toString('latin1');
const sentinel = (text: string) => `=?base64?${Buffer.from(text, 'utf8').toString('base64')}?=`;

describe('a header field', () => {
  // Rule validation-11 (streamable-http, "Case Sensitivity"): Header names are compared without case, values with
  // case. Spaces and tabs around a value do not count.
  test('is found whatever the case of its name, and keeps the case of its value', () => {
    expect(readHeader(['MCP-method', 'Tools/Call'], 'Mcp-Method')).toEqual({
      type: 'present',
      value: 'Tools/Call',
    });
  });

  test('is absent when it is not there', () => {
    expect(readHeader(['A', 'Mcp-Method'], 'Mcp-Method')).toEqual({ type: 'absent' });
    expect(readHeader([], 'Mcp-Method')).toEqual({ type: 'absent' });
  });

  test('that is duplicate has no value: two readers could pick different ones', () => {
    const raw = ['Mcp-Name', 'a', 'X', 'y', 'mcp-name', 'a'];
    expect(readHeader(raw, 'Mcp-Name')).toEqual({ type: 'repeated' });
  });

  // Rule validation-11.
  test('loses spaces and tabs around it, and nothing else', () => {
    expect(readHeader(['A', ' \t b c\t '], 'a')).toEqual({ type: 'present', value: 'b c' });
    // The second byte of this letter is a no-break space to whoever reads bytes as characters.
    expect(readHeader(['A', onTheWire('voilà')], 'a')).toEqual({
      type: 'present',
      value: onTheWire('voilà'),
    });
  });
});

// Rule validation-17 (streamable-http, "Value Encoding"): `Mcp-Name` and `Mcp-Param-*` can be `=?base64?…?=` in
// canonical Base64 of UTF-8, otherwise 400, -32020.
describe('a header value (streamable-http, "Value Encoding")', () => {
  test('that is marked as Base64 comes back as any text that was put in', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(decodeHeaderValue(sentinel(text))).toBe(text.toWellFormed());
      }),
      { numRuns: 500 },
    );
  });

  test.each([
    ['=?base64?SGVsbG8sIOS4lueVjA==?=', 'Hello, 世界'],
    ['=?base64?IHBhZGRlZCA=?=', ' padded '],
    ['=?base64?bGluZTEKbGluZTI=?=', 'line1\nline2'],
    ['=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=', '=?base64?literal?='],
    ['=?base64??=', ''],
    ['us-west1', 'us-west1'],
  ])('%s stands for %j', (value, text) => {
    expect(decodeHeaderValue(value)).toBe(text);
  });

  test.each([
    ['no padding', '=?base64?YQ?='],
    ['padding inside', '=?base64?YQ==YQ==?='],
    ['bits that do not count', '=?base64?YR==?='],
    ['the URL alphabet', '=?base64?-_-_?='],
    ['a space', '=?base64?YWJj YWJj?='],
    ['no Base64', '=?base64?!!!!?='],
    ['bytes that are not UTF-8', '=?base64?/w==?='],
    ['markers that overlap', '=?base64?='],
  ])('that is marked and not canonical Base64 of UTF-8 means nothing: %s', (_what, value) => {
    expect(decodeHeaderValue(value)).toBeNull();
  });

  test.each(['=?BASE64?YQ==?=', '=?base64?YQ==', 'YQ==?=', ' =?base64?YQ==?='])(
    'without both markers to the letter is what it says: %s',
    (value) => {
      expect(decodeHeaderValue(value)).toBe(value);
    },
  );

  test('that a client sent as plain UTF-8 is understood', () => {
    const plain = fc
      .string({ unit: 'grapheme' })
      .filter((text) => !(text.startsWith('=?base64?') && text.endsWith('?=')));
    fc.assert(
      fc.property(plain, (text) => {
        expect(decodeHeaderValue(onTheWire(text))).toBe(text);
      }),
    );
  });

  test('has one spelling in Base64: whatever else decodes is refused', () => {
    const inner = fc.string({
      unit: fc.constantFrom(...'ABab01+/=-_ '),
      maxLength: 12,
    });
    fc.assert(
      fc.property(inner, (base64) => {
        const text = decodeHeaderValue(`=?base64?${base64}?=`);
        if (text !== null) expect(sentinel(text)).toBe(`=?base64?${base64}?=`);
      }),
      { numRuns: 1000 },
    );
  });
});

describe('Accept', () => {
  // Rule validation-4 (streamable-http, "Sending Messages" 2): An `Accept` with neither JSON nor event streams gets
  // 406. With JSON alone, the response is one object without notifications, and `subscriptions/listen` gets 406.
  test.each([
    [undefined, 'both'],
    ['', 'both'],
    ['*/*', 'both'],
    ['application/json, text/event-stream', 'both'],
    ['TEXT/Event-Stream;q=0.5 , Application/JSON', 'both'],
    ['text/*', 'both'],
    ['text/event-stream', 'both'],
    ['application/json', 'json'],
    ['application/*', 'json'],
    ['application/json;q=0.1, text/html', 'json'],
    ['text/html', 'none'],
    ['application/jsonp', 'none'],
  ])('%s allows %s', (value, forms) => {
    expect(readAccept(value)).toBe(forms);
  });

  test('of any text is read without throwing', () => {
    fc.assert(
      fc.property(fc.string(), (value) => {
        expect(['both', 'json', 'none']).toContain(readAccept(value));
      }),
    );
  });
});

test.each([
  ['application/json', true],
  ['Application/JSON; charset=utf-8', true],
  [' application/json ;', true],
  ['application/json-rpc', false],
  ['text/plain', false],
  ['', false],
  [undefined, false],
])('the media type %s is JSON: %s', (value, json) => {
  expect(isJsonMediaType(value)).toBe(json);
});
