import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  answerWithoutRoots,
  clientMessageWithoutRoots,
} from '../../../src/protocol/client-roots.ts';

const withoutRoots = (text: string) => clientMessageWithoutRoots('initialize', text);

describe('initialize without roots', () => {
  test.each([
    ['{"roots":{}}', '{}'],
    ['{ "roots" : { "listChanged" : true } }', '{  }'],
    ['{"roots":{},"sampling":{}}', '{"sampling":{}}'],
    ['{"sampling":{}, "roots":{"a":[1,{"b":"}"}]}}', '{"sampling":{}}'],
    ['{"a":1 ,\n "roots": true ,\n "b":"\\"}"}', '{"a":1 ,\n "b":"\\"}"}'],
    ['{"r\\u006fots":{},"Roots":{},"ROOTS":null}', '{}'],
    ['{"experimental":{"roots":{}}}', '{"experimental":{"roots":{}}}'],
    ['{"sampling":{}}', '{"sampling":{}}'],
    ['[]', '[]'],
  ])('%s becomes %s, and nothing else changes', (declared, left) => {
    const around = (capabilities: string) =>
      `{"jsonrpc":"2.0", "id":1.0,\r\n"method":"initialize","params": {"roots":1,"capabilities":${capabilities},"clientInfo":{"roots":"x"}}}`;
    expect(withoutRoots(around(declared))).toBe(around(left));
  });

  test('whatever else is declared', () => {
    const key = fc.constantFrom('roots', 'Roots', 'sampling', 'a"b', 'x');
    const capabilities = fc.dictionary(key, fc.jsonValue({ maxDepth: 2 }));
    fc.assert(
      fc.property(capabilities, fc.jsonValue(), fc.nat(3), (declared, other, indent) => {
        const message = { id: 1, params: { capabilities: declared, roots: other }, other };
        const left = JSON.parse(String(withoutRoots(JSON.stringify(message, null, indent))));
        const { roots: _roots, Roots: _other, ...rest } = declared;
        const expected = { ...message, params: { capabilities: rest, roots: other } };
        expect(left).toEqual(JSON.parse(JSON.stringify(expected)));
      }),
    );
  });

  test('has nothing to lose where it declares nothing', () => {
    for (const text of ['{}', '{"params":[]}', '{"params":{"capabilities":null}}', '[1]', '1']) {
      expect(withoutRoots(text)).toBe(text);
    }
  });
});

test('a notice that roots have changed is not passed on, and everything else is', () => {
  expect(clientMessageWithoutRoots('notifications/roots/list_changed', '{}')).toBeNull();
  const text = '{"params":{"capabilities":{"roots":{}}}}';
  for (const method of ['tools/call', undefined]) {
    expect(clientMessageWithoutRoots(method, text)).toBe(text);
  }
});

test('a server that asks all the same is answered as by a client that has none', () => {
  expect(answerWithoutRoots('sampling/createMessage', 1)).toBeNull();
  expect(JSON.parse(String(answerWithoutRoots('roots/list', 'a')))).toEqual({
    jsonrpc: '2.0',
    id: 'a',
    error: { code: -32601, message: 'Method not found' },
  });
});
