/** Servers that answer a call with what is no answer: their clients get a clear error, within bounds. */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { callTool } from '../../../fixtures/clients/modern-client.ts';
import type { Answer } from '../../../fixtures/servers/scripted-server.ts';
import { callsOf, expectUnharmed, ground } from '../../../fixtures/gateways/survival-testbed.ts';
import { reasonOf } from '../../../fixtures/gateways/replica-testbed.ts';
import { JSON_TYPE, raw } from '../../../fixtures/failures/wrong-answers.ts';
import {
  expectDiscreet,
  expectFailure,
  LIMITS,
  SECRET,
} from '../../../fixtures/failures/hostile-answers.ts';

const sends =
  (
    status: number,
    headers: Record<string, string | string[]>,
    body: string | Buffer = SECRET,
  ): Answer =>
  (_received, response) =>
    void response.writeHead(status, headers).end(body);

// Rule failures-5: `upstream_protocol_error`: the server sent something that is no reply.
// Rule limits-1.
describe('a response that is not of MCP', () => {
  test.each<[string, Answer]>([
    ['HTML', sends(200, { 'content-type': 'text/html' })],
    ['of no type', sends(200, {})],
    ['of two types', sends(200, { 'content-type': 'text/html, application/json' }, '{}')],
    ['without content', sends(204, {}, '')],
    ['compressed', sends(200, { ...JSON_TYPE, 'content-encoding': 'gzip' }, gzipSync('{}'))],
    [
      'a bomb',
      sends(
        200,
        { ...JSON_TYPE, 'content-encoding': 'gzip' },
        gzipSync(Buffer.alloc(64 * 1024 * 1024)),
      ),
    ],
    [
      'compressed events',
      sends(200, { 'content-type': 'text/event-stream', 'content-encoding': 'br' }),
    ],
    [
      'of a coding nobody knows',
      ({ body: { id } }, response) => {
        const result = { content: [] };
        response.writeHead(200, { ...JSON_TYPE, 'content-encoding': SECRET });
        response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
      },
    ],
    ['a refusal as text', sends(400, { 'content-type': 'text/plain' })],
    ['a refusal as JSON', sends(418, JSON_TYPE, JSON.stringify({ error: { message: SECRET } }))],
    ['not modified', sends(304, {}, '')],
    ['several choices', sends(300, {})],
  ])('%s', async (_title, script) => {
    await expectFailure(script, 'upstream_protocol_error');
  });

  // Rule limits-1: Redirects, compressed bodies and other media types are `upstream_protocol_error`.
  // Rule failures-5.
  test.each([301, 302, 303, 307, 308])('a redirect %i is not followed', async (status) => {
    const visits: Socket[] = [];
    const sink = createServer((socket) => visits.push(socket.destroy()));
    sink.listen(0, '127.0.0.1');
    await once(sink, 'listening');
    const { port } = sink.address() as AddressInfo;
    try {
      const location = `http://127.0.0.1:${port}/${SECRET}`;
      await expectFailure(sends(status, { location }), 'upstream_protocol_error');
      expect(visits).toEqual([]);
    } finally {
      sink.close();
    }
  });
});

describe('a server that fails', () => {
  // Rule failures-6 (tools, "Error Handling"): `call_lost`: the connection, response or stream broke without a reply.
  // The call is not sent again, and a tool gives a result with `isError`.
  test.each([500, 501, 502, 504, 520, 599])('says so with %i', async (status) => {
    await expectFailure(sends(status, { 'retry-after': '1' }), 'call_lost');
  });

  // Rule failures-2 (RFC 9110, section 10.2.3): `upstream_busy`: 429 or 503 of the server, with its `Retry-After` as
  // `data.retryAfterMs`, up to an hour.
  test.each([429, 503])('is busy with %i', async (status) => {
    await expectFailure(sends(status, {}), 'upstream_busy');
  });

  // Rule failures-2.
  test.each<[string | string[], number | undefined]>([
    ['2', 2_000],
    ['0', 0],
    ['99999999999', 3_600_000],
    ['1e300', 3_600_000],
    ['-5', undefined],
    ['Infinity', undefined],
    ['NaN', undefined],
    ['2026-11-24', undefined],
    [SECRET, undefined],
    [['1', '2'], undefined],
    [['Fri, 31 Dec 1999 23:59:59 GMT', '2'], undefined],
  ])('can say when to retry, in bounds: %j', async (value, retryAfterMs) => {
    const { response } = await expectFailure(sends(503, { 'retry-after': value }), 'upstream_busy');
    expect(response.error.data.retryAfterMs).toBe(retryAfterMs);
  });

  // Rule failures-2.
  test.each([
    ['Sun, 06 Nov 1994 08:49:37 GMT', 37_000],
    ['Sunday, 06-Nov-94 08:49:37 GMT', 37_000],
    ['Sun Nov  6 08:49:37 1994', 37_000],
    ['Sun, 06 Nov 1994 23:49:37 GMT', 3_600_000],
    ['Sun, 06 Nov 1994 08:48:59 GMT', 0],
  ])('can say when to retry as a date: %s', async (value, retryAfterMs) => {
    // The clock of the server is decades behind.
    const headers = { date: 'Sun, 06 Nov 1994 08:49:00 GMT', 'retry-after': value };
    const { response } = await expectFailure(sends(503, headers), 'upstream_busy');
    expect(response.error.data.retryAfterMs).toBe(retryAfterMs);
  });

  // Rule failures-2.
  test('can say it as a date without a Date of its own', async () => {
    const now = LIMITS.clock.now();
    const head = `HTTP/1.1 503 No\r\nretry-after: ${new Date(now + 600_000).toUTCString()}\r\ncontent-length: 0\r\n\r\n`;
    const { response } = await expectFailure(raw(head), 'upstream_busy');
    expect(response.error.data.retryAfterMs).toBeGreaterThan(500_000);
    expect(response.error.data.retryAfterMs).toBeLessThanOrEqual(600_000);
  });

  // Rule expired-3.
  test('forgets the session again and again, and is asked twice', async () => {
    const field = await ground(LIMITS, sends(404, {}));
    const exchanged = await callTool(field.url, 'hostile');
    expect(reasonOf(exchanged)).toBe('upstream_session_lost');
    expectDiscreet(field, exchanged);
    expect(callsOf(field)).toBe(2);
    await expectUnharmed(field);
  });

  // Rule failures-1.
  test.each([
    ['ASCII', 'Bearer realm="mcp"'],
    ['Latin letters', 'Bearer realm="\u00fcber"'],
    ['bytes that are no text', 'Bearer realm="\u0081\u00fe\u00ff"'],
    ['UTF-8', Buffer.from('Bearer realm="日本"').toString('latin1')],
  ])('wants credentials, and its challenge passes as it is: %s', async (_title, challenge) => {
    const head = `HTTP/1.1 401 No\r\nwww-authenticate: ${challenge}\r\ncontent-length: 0\r\n\r\n`;
    const field = await ground(LIMITS, raw(head));
    const exchanged = await callTool(field.url, 'hostile');
    expect(exchanged.status).toBe(401);
    expect(reasonOf(exchanged)).toBe('unauthorized');
    expect(exchanged.headers.get('www-authenticate')).toBe(challenge);
    await expectUnharmed(field);
  });
});

test.each(['102 Processing', '103 Early Hints'])(
  'an interim response before the reply is ignored: %s',
  async (status) => {
    const field = await ground(LIMITS, ({ body: { id } }, response) => {
      const reply = JSON.stringify({ jsonrpc: '2.0', id, result: { content: [] } });
      const head = `content-type: application/json\r\ncontent-length: ${reply.length}\r\n\r\n`;
      response.socket?.write(`HTTP/1.1 ${status}\r\n\r\nHTTP/1.1 200 OK\r\n${head}${reply}`);
    });
    const { response } = await callTool(field.url, 'hostile');
    expect(response.result.content).toEqual([]);
  },
);
