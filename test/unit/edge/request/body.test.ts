import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readJsonBody } from '../../../../src/edge/request/body.ts';
import { arbitraryJson } from '../../../fixtures/arbitrary/json.ts';

const read = (text: string) => readJsonBody(Buffer.from(text));

test('any JSON is read as it was written', () => {
  fc.assert(
    fc.property(arbitraryJson, fc.constantFrom(undefined, 1, '\t'), (value, indent) => {
      expect(read(JSON.stringify(value, null, indent))).toEqual({ type: 'json', value });
    }),
    { numRuns: 300 },
  );
});

describe('what is not JSON is a parse error', () => {
  test.each(['', '{', '{"a":1,}', "{'a':1}", '[1 2]', 'undefined', '{"a":NaN}', '"a', '1 1', '}'])(
    '%s',
    (text) => {
      expect(read(text)).toEqual({ type: 'unparsable', problem: 'the body is not JSON' });
    },
  );

  test('nor are bytes that are not UTF-8', () => {
    expect(readJsonBody(Uint8Array.of(0x22, 0xff, 0x22))).toEqual({
      type: 'unparsable',
      problem: 'the body is not UTF-8',
    });
  });
});

describe('a duplicate member is refused, since two parsers could pick different ones', () => {
  test.each([
    '{"a":1,"a":1}',
    '{"a":1 , "b":2, "a" : 3}',
    '{"x":[{"a":1,"a":2}]}',
    String.raw`{"a":1,"\u0061":2}`,
    '{"a":{"b":1},"a":2}',
  ])('%s', (text) => {
    expect(read(text)).toMatchObject({ type: 'refused', problem: expect.stringContaining('"a"') });
  });

  test('the same name in different objects is no repetition, nor is a value that looks like a name', () => {
    for (const text of ['{"a":{"a":[{"a":1},{"a":2}]}}', '{"a":"a","b":"a"}', '["a","a"]']) {
      expect(read(text).type).toBe('json');
    }
  });

  test('wherever it is put', () => {
    fc.assert(
      fc.property(fc.string(), arbitraryJson, arbitraryJson, (name, one, other) => {
        const member = JSON.stringify(name);
        const text = `[{${member}:${JSON.stringify(one)},${member}:${JSON.stringify(other)}}]`;
        expect(read(text).type).toBe('refused');
      }),
    );
  });
});

describe('depth', () => {
  test('up to the limit is read, and one more is refused', () => {
    const nested = (levels: number) => `${'['.repeat(levels)}1${']'.repeat(levels)}`;
    expect(read(nested(64)).type).toBe('json');
    expect(read(nested(65))).toMatchObject({ type: 'refused' });
    expect(read(`{"a":[{"b":${nested(62)}}]}`)).toMatchObject({ type: 'refused' });
  });

  test('of a hostile body is found before anything recurses into it', () => {
    expect(read('['.repeat(1_000_000)).type).toBe('refused');
  });

  test('is not made by brackets in texts', () => {
    expect(read(JSON.stringify(['['.repeat(100), `"${'['.repeat(100)}`])).type).toBe('json');
  });
});

test.each([
  '{"__proto__":{"a":1}}',
  String.raw`{"a":[{"\u005f_proto__":1}]}`,
  '{"constructor":{"prototype":{}}}',
])(
  'a member that would reach a prototype is refused, and is not called a parse error: %s',
  (text) => {
    expect(read(text).type).toBe('refused');
  },
);

test('no input makes it throw', () => {
  const pieces = fc.array(
    fc.constantFrom('{', '}', '[', ']', '"', '\\', ':', ',', 'a', '1', ' ', 'é', '\\u00'),
    { maxLength: 30 },
  );
  fc.assert(
    fc.property(
      fc.oneof(
        pieces.map((list) => Buffer.from(list.join(''))),
        fc.uint8Array(),
      ),
      (bytes) => {
        expect(['json', 'unparsable', 'refused']).toContain(readJsonBody(bytes).type);
      },
    ),
    { numRuns: 1000 },
  );
});

// Rule validation-6.
test('a body of more objects and arrays than anybody sends is refused', () => {
  const { type } = read(`[${'{},'.repeat(131_072)}0]`);
  expect(type).toBe('refused');
  expect(read(`[${'{},'.repeat(131_000)}0]`).type).toBe('json');
});
