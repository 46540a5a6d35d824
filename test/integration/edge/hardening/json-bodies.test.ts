/** Bodies whose JSON is too deep, ambiguous, or no message. */
import { describe, expect, test } from 'vitest';
import { sendRaw, errorOf } from '../../../fixtures/clients/raw-http.ts';
import {
  callBody,
  callsOf,
  expectUnharmed,
  ground,
  rawCall,
  withArguments,
} from '../../../fixtures/gateways/survival-testbed.ts';

describe('nesting', () => {
  /** Arguments that make the whole body so deep. */
  const deep = (levels: number) => {
    const inner = levels - 3;
    return withArguments(`{"a":${'['.repeat(inner)}${']'.repeat(inner)}}`);
  };

  // Rule validation-6: JSON with more than 64 levels, more than 131,072 objects and arrays, a duplicate member or a
  // prototype member gets 400, -32600.
  test('may be as deep as the limit, and no level deeper', async () => {
    const field = await ground();
    expect((await sendRaw(field.url, rawCall({ body: deep(64) }))).status).toBe(200);
    const answer = await sendRaw(field.url, rawCall({ body: deep(65) }));
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toMatchObject({ code: -32600 });
    expect(callsOf(field)).toBe(1);
    await expectUnharmed(field);
  });

  test.each([
    ['5 000 levels', deep(5_000)],
    ['a million levels', deep(1_000_000)],
    ['a million brackets that never close', '['.repeat(1_000_000)],
    ['a million objects that never close', '{"a":'.repeat(800_000)],
    ['levels of both kinds in turn', `${'[{"a":'.repeat(5_000)}1${'}]'.repeat(5_000)}`],
  ])('of %s is refused without a recursion', async (_title, body) => {
    const field = await ground();
    const answer = await sendRaw(field.url, rawCall({ body }));
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toMatchObject({ code: -32600 });
    await expectUnharmed(field);
  });

  test('is not what brackets in strings are', async () => {
    const field = await ground();
    const text = JSON.stringify({ text: `\\"${'[{'.repeat(500)}` });
    const answer = await sendRaw(field.url, rawCall({ body: withArguments(text) }));
    expect(answer.status).toBe(200);
    await expectUnharmed(field);
  });
});

describe('members', () => {
  const call = callBody();
  // Rule validation-6.
  test.each([
    ['method', call.replace('{', '{"method":"tools/list",')],
    ['id', call.replace('{', '{"id":"other",')],
    ['params', call.replace('{', '{"params":{},')],
    ['name', call.replace('"name"', '"name":"other","name"')],
    ['a name spelt in two ways', call.replace('"name"', '"n\\u0061me":"other","name"')],
    ['_meta', call.replace('"_meta"', '"_meta":{},"_meta"')],
    ['requestState', call.replace('"name"', '"requestState":"a","requestState":"b","name"')],
    ['a member of the arguments', withArguments('{"a":{"b":1,"c":2,"b":1}}')],
    ['the empty name', withArguments('{"":1,"":2}')],
    ['what is called like a member of all objects', withArguments('{"toString":1,"toString":2}')],
  ])('must not be duplicate: %s', async (_title, body) => {
    const field = await ground();
    const answer = await sendRaw(field.url, rawCall({ body }));
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toMatchObject({ code: -32600 });
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  // Rule validation-6.
  test.each([
    ['__proto__', withArguments('{"__proto__":{"polluted":true}}')],
    ['__proto__, escaped', withArguments('{"__pr\\u006fto__":{"polluted":true}}')],
    ['constructor.prototype', withArguments('{"constructor":{"prototype":{"polluted":true}}}')],
    ['__proto__ of the message', call.replace('{', '{"__proto__":{"polluted":true},')],
    ['__proto__ of _meta', call.replace('"_meta":{', '"_meta":{"__proto__":{"polluted":true},')],
  ])('that would reach a prototype are refused: %s', async (_title, body) => {
    const field = await ground();
    const answer = await sendRaw(field.url, rawCall({ body }));
    expect(answer.status).toBe(400);
    expect(errorOf(answer).code).toBeOneOf([-32700, -32600]);
    expect(callsOf(field)).toBe(0);
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
    await expectUnharmed(field);
  });

  test('that are called like members of all objects are members like others', async () => {
    const field = await ground();
    const odd = { toString: 1, constructor: 'x', hasOwnProperty: null, valueOf: [], then: {} };
    const body = withArguments(JSON.stringify(odd));
    expect((await sendRaw(field.url, rawCall({ body }))).status).toBe(200);
    const sent = await field.upstream.saw(({ body: seen }) => seen?.method === 'tools/call');
    expect(JSON.stringify(sent.body.params.arguments)).toBe(JSON.stringify(odd));
    await expectUnharmed(field);
  });
});

describe('a message', () => {
  const call = callBody();
  // Rule validation-8 (basic/index, "Requests"; streamable-http, "Sending Messages" 4): The body must be one JSON-RPC
  // 2.0 request with a string or integer `id`, otherwise 400, -32600.
  // Rule validation-1.
  test.each([
    ['a batch', `[${call}]`],
    ['a batch of two', `[${call},${callBody()}]`],
    ['an empty batch', '[]'],
    ['null', 'null'],
    ['a string', '"tools/call"'],
    ['a number', '1'],
    ['an empty object', '{}'],
    ['another JSON-RPC', call.replace('"2.0"', '"1.0"')],
    ['no JSON-RPC', call.replace('"jsonrpc":"2.0",', '')],
    [
      'a method that is no string',
      call.replace('"method":"tools/call"', '"method":["tools/call"]'),
    ],
    ['an id that is null', call.replace(/"id":\d+/, '"id":null')],
    ['an id that is an object', call.replace(/"id":\d+/, '"id":{}')],
    ['an id that is true', call.replace(/"id":\d+/, '"id":true')],
    ['an id with a fraction', call.replace(/"id":\d+/, '"id":1.5')],
    ['an id beyond all numbers', call.replace(/"id":\d+/, '"id":1e400')],
  ])('may not be %s', async (_title, body) => {
    const field = await ground();
    const answer = await sendRaw(field.url, rawCall({ body }));
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toMatchObject({ code: -32600 });
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });
});
