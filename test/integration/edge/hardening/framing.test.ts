/** Bytes that are no sound HTTP, or that two parsers could read differently, over raw sockets. */
import { describe, expect, test } from 'vitest';
import { rawRequest, sendRaw, valuesOf, errorOf } from '../../../fixtures/clients/raw-http.ts';
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

/** A call whose framing headers are the row's. */
function framed(lines: string, body: string): string {
  const headers = callHeaders()
    .map(([name, value]) => `${name}: ${value}\r\n`)
    .join('');
  return `POST /mcp HTTP/1.1\r\n${headers}${lines}\r\n${body}`;
}
const body = callBody();
const bytes = Buffer.byteLength(body);
const chunk = `${bytes.toString(16)}\r\n${body}\r\n`;

// Rule http-1: Ambiguous framing gets 400 and closes the connection: two lengths, folded headers, bare line feeds,
// broken chunks.
describe('framing that could smuggle a request is refused, and the connection closed', () => {
  test.each<[string, string]>([
    [
      'Content-Length with Transfer-Encoding',
      framed(`content-length: ${bytes}\r\ntransfer-encoding: chunked\r\n`, `${chunk}0\r\n\r\n`),
    ],
    [
      'Transfer-Encoding with Content-Length',
      framed(`transfer-encoding: chunked\r\ncontent-length: 6\r\n`, `0\r\n\r\nG`),
    ],
    [
      'Content-Length twice, different',
      framed(`content-length: ${bytes}\r\ncontent-length: 0\r\n`, body),
    ],
    [
      'Content-Length twice, the same',
      framed(`content-length: ${bytes}\r\ncontent-length: ${bytes}\r\n`, body),
    ],
    ['a list as Content-Length', framed(`content-length: ${bytes}, ${bytes}\r\n`, body)],
    ['Content-Length with a sign', framed(`content-length: +${bytes}\r\n`, body)],
    ['a hexadecimal Content-Length', framed('content-length: 0x7\r\n', '{"a":1}')],
    ['a negative Content-Length', framed('content-length: -1\r\n', body)],
    ['a folded header', framed(`x-folded: one\r\n two\r\ncontent-length: ${bytes}\r\n`, body)],
    ['a space before the colon', framed(`content-length : ${bytes}\r\n`, body)],
    ['a tab before the colon', framed(`transfer-encoding\t: chunked\r\n`, `${chunk}0\r\n\r\n`)],
    [
      'a coding after chunked',
      framed('transfer-encoding: chunked, identity\r\n', `${chunk}0\r\n\r\n`),
    ],
    ['a bare line feed between headers', framed(`x-bare: 1\ncontent-length: ${bytes}\r\n`, body)],
    [
      'a bare carriage return in a value',
      framed(`x-bare: a\rb\r\ncontent-length: ${bytes}\r\n`, body),
    ],
    ['NUL in a value', framed(`x-nul: a\0b\r\ncontent-length: ${bytes}\r\n`, body)],
    [
      'a chunk size beyond all integers',
      framed('transfer-encoding: chunked\r\n', `ffffffffffffffffff\r\n${body}\r\n0\r\n\r\n`),
    ],
    [
      'a chunk line that ends in a line feed alone',
      framed('transfer-encoding: chunked\r\n', `${bytes.toString(16)}\n${body}\r\n0\r\n\r\n`),
    ],
    [
      'a chunk that is longer than its size',
      framed('transfer-encoding: chunked\r\n', `2\r\n${body}\r\n0\r\n\r\n`),
    ],
    ['no Host', `POST /mcp HTTP/1.1\r\ncontent-length: 0\r\n\r\n`],
    ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a TLS handshake', '\u0016\u0003\u0001\u0002\u0000\u0001\u0000\u0001\u00fc'],
    ['a method that HTTP does not have', 'BREW /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n'],
  ])('%s', async (_title, request) => {
    const field = await ground();
    const answer = await sendRaw(field.url, Buffer.from(request, 'latin1'), { untilClosed: true });
    expect(answer.status).toBe(400);
    expect(valuesOf(answer, 'connection')).toEqual(['close']);
    expect(errorOf(answer)).toMatchObject({ code: -32600 });
    // One answer: nothing behind the broken request was taken for another.
    expect(answer.text.match(/HTTP\/1\.1 /g)).toHaveLength(1);
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  // Rule http-2: Any transfer coding other than `chunked` gets 501 or 400. Chunk extensions beyond their limit get
  // 413.
  test.each(['gzip, chunked', 'xchunked', 'gzip'])(
    'the transfer coding "%s" is not known here',
    async (coding) => {
      const field = await ground();
      const request = framed(`transfer-encoding: ${coding}\r\n`, `${chunk}0\r\n\r\n`);
      const answer = await sendRaw(field.url, request, { untilClosed: true });
      // Without chunked at the end nobody knows where such a body ends: not even the parser goes on.
      expect(answer.status).toBeOneOf([400, 501]);
      expect(valuesOf(answer, 'connection')).toEqual(['close']);
      expect(callsOf(field)).toBe(0);
      await expectUnharmed(field);
    },
  );

  // Rule http-2.
  test('extensions of chunks have a bound', async () => {
    const field = await ground();
    const extended = `${bytes.toString(16)};${'x'.repeat(20_000)}\r\n${body}\r\n0\r\n\r\n`;
    const answer = await sendRaw(field.url, framed('transfer-encoding: chunked\r\n', extended));
    expect(answer.status).toBe(413);
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  test('a valid chunked call is served', async () => {
    const field = await ground();
    const answer = await sendRaw(
      field.url,
      framed('transfer-encoding: chunked\r\n', `${chunk}0\r\n\r\n`),
    );
    expect(answer.status).toBe(200);
    await expectUnharmed(field);
  });
});

describe('Expect', () => {
  // Rule http-6: `Expect: 100-continue` gets its 100 only after the headers pass every check.
  test('a client that asks whether to go on is told to, and gets its response', async () => {
    const field = await ground();
    const socket = open(field.url);
    const head = rawRequest('POST', '/mcp', [
      ...callHeaders({ expect: '100-continue' }),
      ['content-length', String(bytes)],
    ]);
    socket.write(head);
    const read = reader(socket);
    expect(await read('\r\n\r\n')).toBe('HTTP/1.1 100 Continue\r\n\r\n');
    socket.write(body);
    expect(await read('"echo"')).toMatch(/^HTTP\/1\.1 200 /);
    socket.destroy();
    await expectUnharmed(field);
  });

  // Rule http-6.
  test.each([
    ['a call that is refused by its headers', { origin: 'http://evil.example' }, 403],
    ['a body that is declared too large', { 'content-length': '99999999' }, 413],
    ['an expectation that nobody knows', { expect: 'miracles' }, 417],
  ])('%s is not asked for its body', async (_title, changes, status) => {
    const field = await ground();
    const headers = callHeaders({ expect: '100-continue', 'content-length': '10', ...changes });
    const answer = await sendRaw(field.url, rawRequest('POST', '/mcp', headers));
    expect(answer.status).toBe(status);
    expect(answer.text).not.toContain('100 Continue');
    await expectUnharmed(field);
  });
});

describe('connections', () => {
  // Rule http-7: Pipelined requests get their responses in order, even if malformed bytes follow.
  test('pipelined requests get their responses in their order', async () => {
    const field = await ground();
    const socket = open(field.url);
    const read = reader(socket);
    const call = (id: number) => rawCall({ body: callBody().replace(/"id":\d+/, `"id":${id}`) });
    socket.write(Buffer.concat([call(901), call(902), call(903)]));
    const text = await read('"id":903');
    expect(text.match(/"id":90\d/g)).toEqual(['"id":901', '"id":902', '"id":903']);
    socket.destroy();
    await expectUnharmed(field);
  });

  // Rule http-7.
  test('malformed bytes after a call never get its response', async () => {
    const abandoned = Promise.withResolvers<void>();
    const field = await ground({}, (_received, response) => {
      response.once('close', () => abandoned.resolve());
    });
    const socket = open(field.url);
    let text = '';
    socket.on('data', (data) => (text += data.toString('latin1')));
    socket.write(rawCall({ tool: 'slow' }));
    await field.upstream.saw(({ body: sent }) => sent?.method === 'tools/call');
    socket.write('GARBAGE\r\n\r\n');
    await closed(socket);
    expect(text).toBe('');
    await field.upstream.saw(({ body: sent }) => sent?.method === 'notifications/cancelled');
    await abandoned.promise;
    await expectUnharmed(field);
  });

  test('HTTP/1.0 is served, and the connection closed', async () => {
    const field = await ground();
    const request = rawCall().toString().replace('HTTP/1.1', 'HTTP/1.0');
    const answer = await sendRaw(field.url, request, { untilClosed: true });
    expect(answer.status).toBe(200);
    expect(valuesOf(answer, 'transfer-encoding')).toEqual([]);
    await expectUnharmed(field);
  });

  // Rule http-5.
  test('CONNECT opens no tunnel', async () => {
    const field = await ground();
    const socket = open(field.url);
    let text = '';
    socket.on('data', (data) => (text += data.toString('latin1')));
    socket.write('CONNECT 127.0.0.1:1 HTTP/1.1\r\nhost: 127.0.0.1:1\r\n\r\n');
    await closed(socket);
    expect(text).not.toContain(' 200 ');
    await expectUnharmed(field);
  });
});

/** Gives back all that has come once it contains a text. */
function reader(socket: ReturnType<typeof open>): (until: string) => Promise<string> {
  let text = '';
  let look = () => {};
  socket.on('data', (data) => {
    text += data.toString('latin1');
    look();
  });
  return (until) =>
    new Promise((resolve) => {
      look = () => {
        if (!text.includes(until)) return;
        const read = text;
        text = '';
        resolve(read);
      };
      look();
    });
}
