import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { readCutMessage, type CutMessage } from '../../../src/protocol/cut-message.ts';
import { isJsonObject } from '../../../src/protocol/json.ts';
import { readMessage } from '../../../src/protocol/json-rpc.ts';

const END = 200;
const cut = (text: string, head = END, tail = END) =>
  readCutMessage(text.slice(0, head), tail === 0 ? '' : text.slice(-tail));
const large = 'x'.repeat(1_000);
const jsonrpc = '2.0';

describe('a message that was cut', () => {
  const params = { text: large };
  test.each<[string, object, CutMessage]>([
    [
      'a reply with its id first',
      { jsonrpc, id: 2 ** 53 - 1, result: { a: large } },
      { type: 'response', id: 2 ** 53 - 1 },
    ],
    [
      'a reply with its id last',
      { result: { a: large }, jsonrpc, id: 'mrtr-x' },
      { type: 'response', id: 'mrtr-x' },
    ],
    [
      'an error with its id in the middle',
      { jsonrpc, id: 1, error: { code: 1, message: large } },
      { type: 'response', id: 1 },
    ],
    [
      'a reply to nothing',
      { jsonrpc, id: null, error: { code: 1, message: large } },
      { type: 'response', id: null },
    ],
    [
      'a request',
      { jsonrpc, id: 'q', method: 'sampling/createMessage', params },
      { type: 'request', id: 'q', method: 'sampling/createMessage' },
    ],
    [
      'a request with its id last',
      { method: 'ping', params, jsonrpc, id: 0 },
      { type: 'request', id: 0, method: 'ping' },
    ],
    [
      'a notification',
      { jsonrpc, method: 'notifications/message', params },
      { type: 'notification', method: 'notifications/message' },
    ],
  ])('tells %s', (_what, message, told) => {
    expect(cut(JSON.stringify(message))).toEqual(told);
    expect(cut(JSON.stringify(message, null, '\t'))).toEqual(told);
  });

  test('tells a name that is written with an escape', () => {
    expect(cut(`{"jsonrpc":"2.0","\\u0069d":7,"result":{"a":"${large}"}}`)).toEqual({
      type: 'response',
      id: 7,
    });
  });

  const inner = '{"jsonrpc":"2.0","id":5,"result":{}}';
  test.each<[string, string]>([
    ['an id in a result', JSON.stringify({ result: { a: large, id: 5 }, jsonrpc })],
    ['an id in a list', JSON.stringify({ result: { a: large, b: [{ id: 5 }] }, jsonrpc })],
    ['an id in a text', `{"jsonrpc":"2.0","result":{"a":"${large}","b":",\\"id\\":5,\\"c\\":"}}`],
    ['a message in a text', JSON.stringify({ result: { a: large, text: inner }, jsonrpc })],
    ['an id in the middle', JSON.stringify({ result: { a: large }, id: 5, error: { b: large } })],
    ['two ids', `{"id":5,"result":{"a":"${large}"},"id":6}`],
    ['an id that is an object', JSON.stringify({ id: {}, result: { a: large } })],
    ['an id that is cut off', JSON.stringify({ id: large, result: {} })],
    ['a method that is cut off', JSON.stringify({ id: 5, method: large })],
    ['neither method nor result', JSON.stringify({ id: 5, other: large })],
    ['a batch', `[{"jsonrpc":"2.0","id":5,"result":{"a":"${large}"}}]`],
    ['no end', `{"jsonrpc":"2.0","id":5,"result":{"a":"${large}"`],
    ['two messages', `${inner}{"result":{"a":"${large}"}}`],
    ['a request whose id may be missing', JSON.stringify({ jsonrpc, method: 'ping', a: large })],
    ['text', large],
    ['nothing', ''],
  ])('does not decide about %s', (_what, text) => {
    expect(cut(text)).toEqual({ type: 'unknown' });
  });

  // Whoever reads the whole message comes to the same.
  test('is never told to be for another call, wherever it is cut', () => {
    const odd = fc.oneof(
      fc.jsonValue({ maxDepth: 3 }),
      fc.constantFrom<unknown>('"', '\\', '\\"', '\\\\', '{"id":3}', ',"id":3,', '}', '{', []),
      fc.record({ id: fc.nat(9), method: fc.constant('ping') }, { requiredKeys: [] }),
    );
    const id = fc.oneof(fc.integer(), fc.string(), fc.constant(null), fc.constant({ id: 1 }));
    const result = fc.oneof(
      fc.dictionary(fc.constantFrom('id', 'method', 'a"b', 'c\\', ''), odd),
      odd,
    );
    const reply = fc.record(
      { jsonrpc: fc.constant('2.0'), id, result, error: odd, odd },
      { requiredKeys: ['jsonrpc'] },
    );
    const method = fc.constantFrom<unknown>('ping', 'a"b\\', 'notifications', 5);
    const request = fc.record(
      { jsonrpc: fc.constant('2.0'), id, method, params: result, odd },
      { requiredKeys: ['method'] },
    );
    const notification = fc.record({
      method: fc.constantFrom('notifications/message', 'notifications/a"}b\\'),
      params: result,
      odd,
    });
    const members = fc.oneof<fc.Arbitrary<object>[]>(reply, request, notification);
    const shuffled = members.chain((object) =>
      fc
        .shuffledSubarray(Object.entries(object), { minLength: Object.keys(object).length })
        .map((entries) => Object.fromEntries(entries)),
    );
    const decided = { response: 0, request: 0, notification: 0, unknown: 0 };
    fc.assert(
      fc.property(
        shuffled,
        fc.constantFrom('', ' ', '\n\t'),
        fc.nat(),
        fc.nat(),
        (message, space, first, last) => {
          const text = JSON.stringify(message, null, space);
          const told = cut(text, first % (text.length + 1), last % (text.length + 1));
          decided[told.type] += 1;
          expect([truth(text), 'unknown']).toContainEqual(
            told.type === 'unknown' ? 'unknown' : told,
          );
        },
      ),
      { numRuns: 5_000 },
    );
    expect(decided.response).toBeGreaterThan(100);
    expect(decided.request).toBeGreaterThan(100);
    expect(decided.notification).toBeGreaterThan(10);
  });

  test('is told by both forms of the official SDKs, whatever the result is', () => {
    const result = fc.dictionary(fc.string(), fc.jsonValue());
    const id = fc.oneof(fc.integer(), fc.string({ maxLength: 30, unit: 'grapheme-ascii' }));
    fc.assert(
      fc.property(result, id, (value, own) => {
        for (const message of [
          { jsonrpc, id: own, result: value },
          { result: value, jsonrpc, id: own },
        ]) {
          const told = cut(JSON.stringify(message), 100, 100);
          expect(told).toEqual({ type: 'response', id: own });
        }
      }),
    );
  });

  test('is no defect, whatever it is', () => {
    const piece = fc.constantFrom('{', '}', '[', ']', '"', '\\', ':', ',', ' ', '1', 'id', '"id"');
    const text = fc.array(piece, { maxLength: 30 }).map((pieces) => pieces.join(''));
    fc.assert(
      fc.property(text, text, (head, tail) => {
        readCutMessage(head, tail);
        readCutMessage(`{"id":1,"result":{${head}`, `${tail}}`);
      }),
    );
  });
});

/** What the whole message is, in the words of a cut one. */
function truth(text: string): CutMessage | null {
  const value: unknown = JSON.parse(text);
  if (!isJsonObject(value)) return null;
  const { method, id } = value;
  if (typeof method === 'string') {
    if (id === undefined) return { type: 'notification', method };
    return typeof id === 'string' || typeof id === 'number'
      ? { type: 'request', id, method }
      : null;
  }
  // Its params or its result may be of the wrong type.
  const message = readMessage({ jsonrpc, id: id ?? null, result: {} });
  return message.type === 'response' && id !== undefined
    ? { type: 'response', id: message.id }
    : null;
}
