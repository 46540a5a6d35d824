import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { DroppedMessage } from '../../../src/model/channel.ts';
import { isJsonObject } from '../../../src/protocol/json.ts';
import { readMessage } from '../../../src/protocol/json-rpc.ts';
import { DiscardedMessage } from '../../../src/upstream/discarded-message.ts';

const large = 'ü"x\\'.repeat(3_000);
const jsonrpc = '2.0';

/** What is told of a message that comes in pieces of these sizes, and then the rest of it. */
function told(text: string, sizes: readonly number[] = []): DroppedMessage | null {
  const message = new DiscardedMessage('upstream.maxEvent', 1_024);
  const bytes = Buffer.from(text);
  let at = 0;
  for (const size of [...sizes, bytes.length]) {
    message.take(bytes.subarray(at, at + size));
    at += size;
  }
  return message.read();
}

// Rule limits-10.
describe('a message that was discarded', () => {
  const params = { text: large };
  const text = JSON.stringify(large);
  test.each<[string, object, DroppedMessage]>([
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
    [
      'a reply with its id between two large members',
      { result: { a: large }, id: 5, error: { b: large } },
      { type: 'response', id: 5 },
    ],
    [
      'a notification of another name',
      { jsonrpc, method: 'ping', params },
      { type: 'notification', method: 'ping' },
    ],
  ])('tells %s', (_what, message, expected) => {
    expect(told(JSON.stringify(message))).toEqual(expected);
    expect(told(JSON.stringify(message, null, '\t'))).toEqual(expected);
  });

  test('tells a name that is written with an escape', () => {
    expect(told(`{"jsonrpc":"2.0","\\u0069d":7,"result":{"a":${text}}}`)).toEqual({
      type: 'response',
      id: 7,
    });
  });

  test('tells what whoever reads the whole message takes: the last of two ids', () => {
    expect(told(`{"id":5,"result":{"a":${text}},"id":6}`)).toEqual({ type: 'response', id: 6 });
  });

  const inner = '{"jsonrpc":"2.0","id":5,"result":{}}';
  test.each<[string, string]>([
    ['an id in a result', JSON.stringify({ result: { a: large, id: 5 }, jsonrpc })],
    ['an id in a list', JSON.stringify({ result: { a: large, b: [{ id: 5 }] }, jsonrpc })],
    ['an id in a text', `{"jsonrpc":"2.0","result":{"a":${text},"b":",\\"id\\":5,\\"c\\":"}}`],
    ['a message in a text', JSON.stringify({ result: { a: large, text: inner }, jsonrpc })],
    ['an id that is an object', JSON.stringify({ id: {}, result: { a: large } })],
    ['an id that is too large', JSON.stringify({ id: large, result: {} })],
    ['a method that is too large', JSON.stringify({ id: 5, method: large })],
    ['neither method nor result', JSON.stringify({ id: 5, other: large })],
    ['a batch', `[{"jsonrpc":"2.0","id":5,"result":{"a":${text}}}]`],
    ['no end', `{"jsonrpc":"2.0","id":5,"result":{"a":${text}`],
    ['two messages', `${inner}{"result":{"a":${text}}}`],
    ['text', large],
    ['nothing', ''],
  ])('does not decide about %s', (_what, message) => {
    expect(told(message)).toBeNull();
  });

  // Whoever reads the whole message comes to the same.
  test('is told to be for what it is, in whatever pieces it comes', () => {
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
    const decided = { response: 0, request: 0, notification: 0, none: 0 };
    const pieces = fc.array(fc.nat(20), { maxLength: 20 });
    fc.assert(
      fc.property(shuffled, fc.constantFrom('', ' ', '\n\t'), pieces, (message, space, sizes) => {
        const written = JSON.stringify(message, null, space);
        const is = told(written, sizes);
        decided[is?.type ?? 'none'] += 1;
        expect(is).toEqual(truth(written));
      }),
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
          expect(told(JSON.stringify(message))).toEqual({ type: 'response', id: own });
        }
      }),
    );
  });

  test('is no defect, whatever it is', () => {
    const piece = fc.constantFrom('{', '}', '[', ']', '"', '\\', ':', ',', ' ', '1', 'id', '"id"');
    const noise = fc.array(piece, { maxLength: 30 }).map((pieces) => pieces.join(''));
    fc.assert(
      fc.property(noise, noise, (head, tail) => {
        told(`${head}${tail}`);
        told(`{"id":1,"result":{${head}${tail}}`);
      }),
    );
  });
});

/** What the whole message is, in the words of one that was discarded. */
function truth(text: string): DroppedMessage | null {
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
  const isReply = Object.hasOwn(value, 'result') || Object.hasOwn(value, 'error');
  return message.type === 'response' && id !== undefined && isReply
    ? { type: 'response', id: message.id }
    : null;
}
