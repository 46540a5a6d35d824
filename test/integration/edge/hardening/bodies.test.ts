/** Bodies that are too large, too deep, ambiguous, or not what they say they are. */
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { rawRequest, sendRaw, type RawAnswer } from '../../../fixtures/clients/raw-http.ts';
import {
  callBody,
  callHeaders,
  callsOf,
  closed,
  expectUnharmed,
  ground,
  open,
  rawCall,
} from '../../../fixtures/gateways/survival-testbed.ts';

const errorOf = ({ body }: RawAnswer) => JSON.parse(body).error;

/** The text of a sound call with other text where its empty arguments stand. */
function withArguments(text: string): string {
  return callBody().replace('"arguments":{}', `"arguments":${text}`);
}

const LIMIT = 4_096;

/** A sound call of exactly so many bytes. */
function sized(bytes: number): string {
  const padding = bytes - Buffer.byteLength(withArguments('{"pad":""}'));
  return withArguments(`{"pad":"${'x'.repeat(padding)}"}`);
}

/** The bytes of a chunked call in pieces of one size. */
function chunked(body: string, pieceBytes: number): string {
  let text = rawRequest('POST', '/mcp', callHeaders({ 'transfer-encoding': 'chunked' }));
  for (let at = 0; at < body.length; at += pieceBytes) {
    const piece = body.slice(at, at + pieceBytes);
    text += `${piece.length.toString(16)}\r\n${piece}\r\n`;
  }
  return `${text}0\r\n\r\n`;
}

describe('the size of a body', () => {
  const limited = () => ground({ limits: { maxBodyBytes: LIMIT } });

  // Rule validation-2: A body may be as large as `limits.maxBody` (413, -32600), refused before a byte of it
  // is read where its length is declared. One that is shorter than declared makes no call.
  test.each<[string, (body: string) => string | Buffer]>([
    ['in one piece', (body) => rawCall({ body })],
    ['in many chunks', (body) => chunked(body, 100)],
  ])('may be the limit, %s, and not a byte more', async (_title, request) => {
    const field = await limited();
    expect((await sendRaw(field.url, request(sized(LIMIT)))).status).toBe(200);
    expect(callsOf(field)).toBe(1);
    const answer = await sendRaw(field.url, request(sized(LIMIT + 1)));
    expect(answer.status).toBe(413);
    expect(errorOf(answer)).toMatchObject({ code: -32600 });
    expect(callsOf(field)).toBe(1);
    await expectUnharmed(field);
  });

  // Rule validation-2.
  test('is refused by what is declared, before a byte of the body came', async () => {
    const field = await limited();
    const headers = callHeaders({ 'content-length': String(LIMIT + 1) });
    const answer = await sendRaw(field.url, rawRequest('POST', '/mcp', headers));
    expect(answer.status).toBe(413);
    await expectUnharmed(field);
  });

  test.each([
    ['declared', { 'content-length': '9999999999' }, 'x'.repeat(1_000)],
    ['chunked', { 'transfer-encoding': 'chunked' }, `3e8\r\n${'x'.repeat(1_000)}\r\n`],
  ])(
    'is not read without end from a client that never stops: %s',
    async (_title, changes, drip) => {
      const timeouts = { requestMs: 400, headMs: 400, checkEveryMs: 50 };
      const field = await ground({ limits: { maxBodyBytes: LIMIT }, timeouts });
      const head = rawRequest('POST', '/mcp', callHeaders(changes));
      const answer = await sendRaw(field.url, head, { drip, untilClosed: true });
      expect(answer.status).toBe(413);
      // It has had its answer: nothing that it could take for another one follows.
      expect(answer.text.match(/HTTP\/1\.1 /g)).toHaveLength(1);
      expect(callsOf(field)).toBe(0);
      await expectUnharmed(field);
    },
  );

  // Rule validation-2.
  test('that is less than declared makes no call', async () => {
    const field = await ground();
    const socket = open(field.url);
    const body = callBody();
    const length = String(Buffer.byteLength(body) + 1);
    socket.write(rawRequest('POST', '/mcp', callHeaders({ 'content-length': length }), body));
    socket.end();
    socket.resume();
    await closed(socket);
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });
});

describe('a body that is compressed', () => {
  // Rule validation-3.
  test.each<[string, Buffer]>([
    ['gzip', gzipSync(callBody())],
    ['deflate', deflateSync(callBody())],
    ['br', brotliCompressSync(callBody())],
    ['gzip, identity', gzipSync(callBody())],
    ['gzip', Buffer.from(callBody())],
    ['gzip', gzipSync(Buffer.alloc(64 * 1024 * 1024))],
    ['x-unheard-of', Buffer.from(callBody())],
  ])('is refused unopened: %s', async (coding, body) => {
    const field = await ground();
    const answer = await sendRaw(
      field.url,
      rawCall({ changes: { 'content-encoding': coding }, body }),
    );
    expect(answer.status).toBe(415);
    expect(errorOf(answer)).toMatchObject({ code: -32600 });
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  test('is no JSON when nothing says that it is compressed', async () => {
    const field = await ground();
    const answer = await sendRaw(field.url, rawCall({ body: gzipSync(callBody()) }));
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toMatchObject({ code: -32700 });
    await expectUnharmed(field);
  });

  test('may say that it is not', async () => {
    const field = await ground();
    const answer = await sendRaw(
      field.url,
      rawCall({ changes: { 'content-encoding': 'identity' } }),
    );
    expect(answer.status).toBe(200);
    await expectUnharmed(field);
  });
});

describe('a media type', () => {
  // Rule validation-3: `Content-Type` must be `application/json`, with parameters or without, and the body
  // not compressed; otherwise 415, -32600.
  test.each([
    ['that a form of a web page can send', 'text/plain'],
    ['of a form', 'application/x-www-form-urlencoded'],
    ['of an upload', 'multipart/form-data; boundary=x'],
    ['with JSON only as its suffix', 'application/vnd.api+json'],
    ['that only starts like JSON', 'application/jsonlines'],
    ['of text, although it is JSON', 'text/json'],
    ['with JSON as a parameter', 'text/plain; a=application/json'],
    ['that is none', '/'],
    ['that is empty', ''],
    ['that is missing', null],
  ])('%s is refused', async (_title, type) => {
    const field = await ground();
    const answer = await sendRaw(field.url, rawCall({ changes: { 'content-type': type } }));
    expect(answer.status).toBe(415);
    expect(errorOf(answer)).toMatchObject({ code: -32600 });
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  test.each(['application/json; charset=utf-8', 'Application/JSON', 'application/json;'])(
    '%s is JSON',
    async (type) => {
      const field = await ground();
      const answer = await sendRaw(field.url, rawCall({ changes: { 'content-type': type } }));
      expect(answer.status).toBe(200);
      await expectUnharmed(field);
    },
  );
});

describe('a text', () => {
  const bytes = (hex: string) => {
    const [before = '', after = ''] = withArguments('{"text":"@"}').split('@');
    return Buffer.concat([Buffer.from(before), Buffer.from(hex, 'hex'), Buffer.from(after)]);
  };
  // Rule validation-5 (basic/index, "Error Codes"): A body that is not JSON in UTF-8 is 400, -32700.
  test.each<[string, Buffer | string]>([
    ['with a byte that UTF-8 does not have', bytes('ff')],
    ['with a character that is cut short', bytes('e282')],
    ['with a continuation of nothing', bytes('80')],
    ['with an overlong slash', bytes('c0af')],
    ['with half a surrogate pair as UTF-8', bytes('eda080')],
    ['with a character beyond Unicode', bytes('f4908080')],
    ['in UTF-16', Buffer.from(callBody(), 'utf16le')],
    ['with a NUL in a string', bytes('00')],
    ['with a line feed in a string', bytes('0a')],
    ['with an escape that JSON does not have', withArguments('{"a":"\\x41"}')],
    ['that ends early', callBody().slice(0, -1)],
    ['with more behind its end', `${callBody()}{}`],
    ['of two calls', `${callBody()}\n${callBody()}`],
    ['with a comma before a bracket', withArguments('{"a":1,}')],
    ['with a comment', withArguments('{/* */}')],
    ['with single quotes', withArguments("{'a':1}")],
    ['with NaN', withArguments('{"a":NaN}')],
    ['with a number in octal', withArguments('{"a":017}')],
    ['of no bytes', ''],
    ['of white space', ' \r\n\t'],
    ['of a string that never ends', '"'],
    ['of brackets that only close', ']'.repeat(10_000)],
  ])('%s is no JSON', async (_title, body) => {
    const field = await ground();
    const answer = await sendRaw(field.url, rawCall({ body }));
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toMatchObject({ code: -32700 });
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  test('may escape half a surrogate pair, which goes on as it came', async () => {
    const field = await ground();
    const answer = await sendRaw(field.url, rawCall({ body: withArguments('{"a":"\\ud800"}') }));
    expect(answer.status).toBe(200);
    const call = await field.upstream.saw(({ body }) => body?.method === 'tools/call');
    expect(call.body.params.arguments).toEqual({ a: '\ud800' });
    await expectUnharmed(field);
  });
});

describe('nesting', () => {
  /** Arguments that make the whole body so deep. */
  const deep = (levels: number) => {
    const inner = levels - 3;
    return withArguments(`{"a":${'['.repeat(inner)}${']'.repeat(inner)}}`);
  };

  // Rule validation-6: JSON that nests deeper than `limits.maxJsonDepth`, has a duplicate member in an object, or a
  // member that would reach the prototype of an object, is 400, -32600: two parsers could take it for different
  // things.
  test('may be as deep as the limit, and no level deeper', async () => {
    const field = await ground({ limits: { maxJsonDepth: 20 } });
    expect((await sendRaw(field.url, rawCall({ body: deep(20) }))).status).toBe(200);
    const answer = await sendRaw(field.url, rawCall({ body: deep(21) }));
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
  // Rule validation-8 (basic/index, "Requests"; streamable-http, "Sending Messages" 4): One JSON-RPC 2.0
  // object with a `method` that is a string and an `id` that is a string or an integer, never `null`;
  // otherwise 400, -32600.
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
