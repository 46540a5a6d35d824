import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type JsonObject, parseJson } from '../../../../src/protocol/json.ts';
import { requestDigest } from '../../../../src/seal/digests.ts';
import { jsonObject, reordered } from '../json-arbitrary.ts';

const call = (more: JsonObject = {}): JsonObject => ({
  name: 'deploy',
  arguments: { environment: 'production', steps: [1, 2] },
  ...more,
});
const digestOf = (params: JsonObject) => requestDigest('tools/call', params);

test('the digest is SHA-256 in base64url', () => {
  expect(digestOf(call())).toMatch(/^[A-Za-z0-9_-]{43}$/);
});

test('the digest of a request stays what it is: other releases of the fleet compute it too', () => {
  expect(digestOf({ name: 'deploy', arguments: { b: 1, a: '\u20ac' } })).toBe(
    // SHA-256 of {"method":"tools/call","params":{"arguments":{"a":"€","b":1},"name":"deploy"}}
    'TDdj2wRuJ9yFz0rnwYlbTItyXb8oFkecvhQpAhV645o',
  );
});

describe('the digest of a retry equals that of the first request', () => {
  // Rule pointer-4: `_meta`, the order of members, the spelling of numbers and, with `identity`, the credentials can
  // change.
  test('although it carries answers, state and other metadata', () => {
    const retry = call({
      _meta: { progressToken: 7 },
      inputResponses: { confirm: { action: 'accept' } },
      requestState: 'opaque',
    });
    expect(digestOf(retry)).toBe(digestOf(call({ _meta: { progressToken: 1 } })));
    expect(digestOf(retry)).toBe(digestOf(call()));
  });

  // Rule pointer-4.
  test('whether empty arguments are sent or left out', () => {
    expect(digestOf({ name: 'status' })).toBe(digestOf({ name: 'status', arguments: {} }));
  });

  // Rule pointer-4.
  test('in whatever order its members come, at every depth', () => {
    fc.assert(
      fc.property(jsonObject, (params) => {
        expect(digestOf(reordered(params))).toBe(digestOf(params));
      }),
    );
  });

  // Rule pointer-4.
  test('however its numbers are spelled', () => {
    const spelled = (text: string): JsonObject => JSON.parse(`{"arguments":{"n":${text}}}`);
    expect(digestOf(spelled('1.0'))).toBe(digestOf(spelled('1')));
    expect(digestOf(spelled('1e2'))).toBe(digestOf(spelled('100')));
    expect(digestOf(spelled('-0'))).toBe(digestOf(spelled('0')));
  });
});

// Rule pointer-3.
describe('the digest tells apart', () => {
  test.each<[string, JsonObject]>([
    ['another tool', call({ name: 'destroy' })],
    ['another argument', call({ arguments: { environment: 'staging', steps: [1, 2] } })],
    ['another order in a list', call({ arguments: { environment: 'production', steps: [2, 1] } })],
    ['an argument as text', call({ arguments: { environment: 'production', steps: ['1', 2] } })],
    [
      'an added argument',
      call({ arguments: { environment: 'production', steps: [1, 2], a: null } }),
    ],
    ['arguments of null', call({ arguments: null })],
    ['a vendor member', call({ 'example.com/priority': 'high' })],
    [
      'an argument that is named like a member that does not count',
      call({ arguments: { environment: 'production', steps: [1, 2], _meta: {} } }),
    ],
  ])('%s', (_title, params) => {
    expect(digestOf(params)).not.toBe(digestOf(call()));
  });

  test('another method', () => {
    expect(requestDigest('prompts/get', call())).not.toBe(requestDigest('tools/call', call()));
  });

  test('a member named __proto__ from its absence', () => {
    const odd: JsonObject = JSON.parse('{"name":"deploy","__proto__":{"admin":true}}');
    const nested: JsonObject = JSON.parse('{"name":"deploy","arguments":{"__proto__":1}}');
    expect(new Set([odd, nested, { name: 'deploy' }].map(digestOf)).size).toBe(3);
  });

  test('unpaired surrogates from each other, from their escapes and from U+FFFD', () => {
    const texts = ['\ud800', '\ud801', '\udfff', '\\ud800', '\ufffd', '\ud83d\ude00', '"\\ud800"'];
    const digests = texts.flatMap((text) => [
      digestOf({ arguments: { text } }),
      digestOf({ arguments: { [text]: true } }),
    ]);
    expect(new Set(digests).size).toBe(digests.length);
  });

  test('numbers that JavaScript cannot hold from null, from texts and from each other', () => {
    const numbers = ['1e999', '-1e999', '9007199254740993', '9007199254740992'];
    const others = ['null', '"Infinity"', '"9007199254740993"', '{"rawJSON":"1e999"}'];
    const params = [...numbers, ...others].map((text) => ({
      arguments: { n: parseJson(text) },
    }));
    expect(new Set(params.map(digestOf)).size).toBe(params.length);
  });
});

test('taking the digest leaves the params as they were', () => {
  const params = call({ requestState: 'opaque', _meta: {} });
  const before = structuredClone(params);
  digestOf(params);
  expect(params).toEqual(before);
});
