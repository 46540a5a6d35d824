/** Bodies that are too large, compressed, or not what they say they are. */
import { brotliCompressSync, deflateSync, gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { rawRequest, sendRaw, errorOf } from '../../../fixtures/clients/raw-http.ts';
import {
  callBody,
  callHeaders,
  callsOf,
  closed,
  expectUnharmed,
  ground,
  open,
  rawCall,
  withArguments,
} from '../../../fixtures/gateways/survival-testbed.ts';

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

  // Rule validation-2: A body larger than `limits.maxBody` gets 413, -32600. A body shorter than declared makes no
  // call.
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
  // Rule validation-3: `Content-Type` must be `application/json`, and the body uncompressed, otherwise 415, -32600.
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
  // Rule validation-5 (basic/index, "Error Codes"): A body that is not JSON in UTF-8 gets 400, -32700.
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
