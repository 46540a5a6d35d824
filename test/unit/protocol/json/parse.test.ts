import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  isJsonInteger,
  isJsonNumber,
  isJsonObject,
  type JsonObject,
  numberOf,
  parseJson,
  parseMessage,
  parseStrictly,
  without,
} from '../../../../src/protocol/json.ts';
import { arbitraryJson } from '../../../fixtures/arbitrary/json.ts';

const LONG = [
  '9007199254740993',
  '-12345678901234567890',
  '1e400',
  '-1E+999',
  '1763632800123456789',
];

describe('a number that JavaScript cannot hold', () => {
  test.each(LONG)('%s leaves as it came, wherever it stands', (number) => {
    const text = `{"a":${number},"b":[${number},{"c":${number}}],"d":"${number}"}`;
    expect(JSON.stringify(parseJson(text))).toBe(text);
  });

  test.each(LONG)('%s is a number, and neither an object nor a text', (number) => {
    const value = parseJson(number);
    expect([isJsonNumber(value), isJsonObject(value), typeof value]).toEqual([
      true,
      false,
      'object',
    ]);
    expect(numberOf(value)).toBe(Number(number));
  });

  test('may be an integer, or be too large for that to be known', () => {
    expect(
      ['9007199254740993', '1e400', '1.5', '-7', '"7"'].map(parseJson).map(isJsonInteger),
    ).toEqual([true, false, false, true, false]);
  });

  test.each(LONG)('%s is no name of a member', (number) => {
    expect(() => parseJson(`{"a":1,"b":{${number}:2}}`)).toThrow(SyntaxError);
  });

  test('survives in copies of what holds it', () => {
    const parsed = parseJson('{"id":9007199254740993,"old":1}');
    const copied = isJsonObject(parsed) ? { ...parsed, old: 2 } : null;
    expect(JSON.stringify(copied)).toBe('{"id":9007199254740993,"old":2}');
  });
});

test.each([
  '9007199254740992',
  '1e21',
  '0.1234567890123456789',
  '123456789012345678',
  '-0',
  '1e-400',
])('%s in a message is an ordinary number if doubles hold it or come near', (number) => {
  const value = parseMessage(number);
  const isHeld = typeof value === 'number';
  expect(isHeld ? value : numberOf(value)).toBe(Number(number));
  expect(isHeld).toBe(number !== '123456789012345678');
});

test.each(['1.0', '1E5', '100.50', '1e21', '0.1234567890123456789', '1e-400'])(
  '%s is written again as it was, in data, and in the result of a message',
  (number) => {
    const data = `{"value":[${number},-0]}`;
    expect(JSON.stringify(parseJson(data))).toBe(data);
    const message = JSON.stringify(parseMessage(`{"id":2.0,"result":${data}}`));
    expect(message).toBe(`{"id":2,"result":${data}}`);
  },
);

// Rule envelope-4.
test('more numbers than a message can have as they were written are plain numbers, but for those that cannot be', () => {
  const text = `{"result":[${'1.0,'.repeat(140_000)}1e400]}`;
  const written = JSON.stringify(parseMessage(text));
  expect(written.length).toBe(text.length - 2 * (140_000 - 131_072));
  expect(written.endsWith(',1,1e400]}')).toBe(true);
});

test('any JSON is the same afterwards, long numbers or not', () => {
  const number = fc.bigInt({ min: -(2n ** 80n), max: 2n ** 80n }).map(String);
  fc.assert(
    fc.property(arbitraryJson, number, (value, long) => {
      const text = `[${JSON.stringify(value)},${long}]`;
      expect(JSON.stringify(parseJson(text))).toBe(text);
    }),
  );
});

describe.each(['{"__proto__":1,"n":12345678901234567890}', '{"constructor":{"prototype":1}}'])(
  '%s, which could reach a prototype,',
  (text) => {
    test('is refused in what a client sends', () => {
      expect(() => parseStrictly(text)).toThrow(SyntaxError);
    });

    test('is data in what a server sends', () => {
      const value = parseJson(text) as JsonObject;
      expect(JSON.stringify(value)).toBe(text);
      expect(JSON.stringify(without({ ...value, a: 1 }, ['a']))).toBe(text);
    });
  },
);

test('a byte order mark before JSON is not part of it', () => {
  expect(parseJson('\uFEFF{"a":1}')).toEqual({ a: 1 });
});
