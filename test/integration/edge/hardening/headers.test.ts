/** Headers that are too large, duplicate or ambiguous, and what is written into those of answers and requests. */
import { describe, expect, test } from 'vitest';
import { rawRequest, sendRaw, errorOf, valuesOf } from '../../../fixtures/clients/raw-http.ts';
import {
  callHeaders,
  callsOf,
  expectUnharmed,
  ground,
  rawCall,
  callBody,
} from '../../../fixtures/gateways/survival-testbed.ts';

const body = callBody();
const bytes = Buffer.byteLength(body);

describe('headers', () => {
  // Rule http-3: More than 100 headers, or more than 16 KiB of them, get 431.
  test.each([
    ['one that is larger than 16 KiB', rawCall({ more: [['x-large', 'x'.repeat(17_000)]] })],
    ['many that are larger together', rawCall({ more: many(600, 'x'.repeat(30)) })],
    ['more than a hundred', rawCall({ more: many(101, 'x') })],
    ['more than the parser keeps', rawCall({ more: many(2_500, '') })],
  ])('too large: %s', async (_title, request) => {
    const field = await ground();
    const answer = await sendRaw(field.url, request, { untilClosed: true });
    expect(answer.status).toBe(431);
    expect(errorOf(answer)).toMatchObject({ code: -32600 });
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  // Rule http-4 (streamable-http, "Server Validation"): A repeated `Host`, `Origin`, `Authorization`, `Content-Type`
  // or identity header gets 400. A repeated `MCP-Protocol-Version`, `Mcp-Method` or `Mcp-Name` gets 400, -32020.
  test.each([
    ['Host', 'localhost', -32600],
    ['Origin', 'http://localhost', -32600],
    ['Authorization', 'Bearer one', -32600],
    ['Content-Type', 'application/json', -32600],
    ['Mcp-Method', 'tools/call', -32020],
    ['Mcp-Name', 'echo', -32020],
    ['MCP-Protocol-Version', '2026-07-28', -32020],
  ])('a duplicate %s is refused, even if both values are the same', async (name, value, code) => {
    const field = await ground();
    const single = { [name.toLowerCase()]: value };
    const answer = await sendRaw(field.url, rawCall({ changes: single, more: [[name, value]] }));
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toMatchObject({ code });
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  // Rule http-4.
  test('so is a duplicate header that names the caller: a proxy that adds it keeps that of the client', async () => {
    const field = await ground({ identity: { source: 'header', header: 'X-User' } });
    const named = { 'x-user': 'ada' };
    const answer = await sendRaw(field.url, rawCall({ changes: named, more: [['X-User', 'bob']] }));
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toMatchObject({ code: -32600, message: 'Duplicate x-user header' });
    expect((await sendRaw(field.url, rawCall({ changes: named }))).status).toBe(200);
    expect(callsOf(field)).toBe(1);
    const free = await ground();
    const twice = rawCall({ changes: named, more: [['X-User', 'bob']] });
    expect((await sendRaw(free.url, twice)).status).toBe(200);
  });

  // Rule http-5: The request target must be an unambiguous path: absolute URLs, `//host`, `*`, dot segments,
  // backslashes and fragments get 400. CONNECT opens no tunnel.
  test.each([
    ['another authority in the target', 'http://evil.example/mcp'],
    ['our own authority in the target', 'http://localhost/mcp'],
    ['a target that starts with two slashes', '//evil.example/mcp'],
    ['an asterisk', '*'],
  ])('the request target is a path: %s', async (_title, target) => {
    const field = await ground();
    const request = rawRequest(
      'POST',
      target,
      [...callHeaders(), ['content-length', String(bytes)]],
      body,
    );
    const answer = await sendRaw(field.url, request);
    expect(answer.status).toBe(400);
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  // Rule validation-16.
  test('an underscore does not stand for a hyphen', async () => {
    const field = await ground();
    const request = rawCall({
      changes: { 'mcp-method': null },
      more: [['mcp_method', 'tools/call']],
    });
    const answer = await sendRaw(field.url, request);
    expect(errorOf(answer)).toMatchObject({ code: -32020 });
    await expectUnharmed(field);
  });

  test.each([
    [
      'Upgrade',
      [
        ['connection', 'upgrade, http2-settings'],
        ['upgrade', 'h2c'],
        ['http2-settings', 'AAMAAABk'],
      ],
    ],
    [
      'Keep-Alive',
      [
        ['connection', 'keep-alive'],
        ['keep-alive', 'timeout=5'],
      ],
    ],
    [
      'TE and Trailer',
      [
        ['te', 'trailers'],
        ['trailer', 'x-late'],
      ],
    ],
  ] as [string, [string, string][]][])('%s changes nothing about a call', async (_title, more) => {
    const field = await ground();
    const answer = await sendRaw(field.url, rawCall({ more }));
    expect(answer.status).toBe(200);
    await expectUnharmed(field);
  });
});

function many(count: number, value: string): [string, string][] {
  return Array.from({ length: count }, (_, index) => [`x${index}`, value]);
}

describe('what is written into headers', () => {
  const LINES = 'echo\r\nx-injected: 1';
  const encoded = (text: string) => `=?base64?${Buffer.from(text).toString('base64')}?=`;

  // Rule envelope-8 (streamable-http, "Value Encoding"): No name or value can add a header to a message upstream or
  // to a response.
  test('a tool whose name has line breaks adds no header anywhere', async () => {
    const field = await ground();
    const body = callBody(LINES);
    const answer = await sendRaw(
      field.url,
      rawCall({ body, changes: { 'mcp-name': encoded(LINES) } }),
    );
    expect(answer.status).toBe(200);
    expect(valuesOf(answer, 'x-injected')).toEqual([]);
    for (const { headers } of field.upstream.received)
      expect(headers).not.toHaveProperty('x-injected');
    await expectUnharmed(field);
  });

  // Rule validation-17.
  test.each([
    ['that is no Base64', '=?base64?***?='],
    [
      'in another spelling',
      `=?base64?${Buffer.from('echo').toString('base64').replace('=', '')}?=`,
    ],
    ['of another tool', encoded('other')],
    ['that overlaps itself', '=?base64?='],
  ])('a name %s is refused', async (_title, name) => {
    const field = await ground();
    const answer = await sendRaw(field.url, rawCall({ changes: { 'mcp-name': name } }));
    expect(answer.status).toBe(400);
    expect(errorOf(answer)).toMatchObject({ code: -32020 });
    expect(callsOf(field)).toBe(0);
    await expectUnharmed(field);
  });

  // Rules eras-10, envelope-5.
  test('what the client claims about itself and proxies does not go upstream', async () => {
    const field = await ground();
    const more = [
      ['cookie', 'a=1'],
      ['x-forwarded-for', '10.0.0.1'],
      ['forwarded', 'for=10.0.0.1'],
      ['mcp-session-id', 'stolen'],
      ['last-event-id', 'stolen'],
      ['proxy-authorization', 'Basic eA=='],
      ['te', 'trailers'],
    ] as const;
    expect((await sendRaw(field.url, rawCall({ more }))).status).toBe(200);
    const { headers } = await field.upstream.saw(({ body }) => body?.method === 'tools/call');
    for (const [name] of more.filter(([name]) => name !== 'mcp-session-id')) {
      expect(headers).not.toHaveProperty(name);
    }
    expect(headers['mcp-session-id']).toBe('session-1');
    await expectUnharmed(field);
  });

  // Rule http-13: No response of the gateway names its software or sets a cookie.
  test.each(['server', 'x-powered-by', 'via', 'set-cookie', 'mcp-session-id'])(
    'no answer has the header %s',
    async (name) => {
      const field = await ground();
      expect(valuesOf(await sendRaw(field.url, rawCall()), name)).toEqual([]);
      const broken = await sendRaw(field.url, 'GARBAGE\r\n\r\n');
      expect(valuesOf(broken, name)).toEqual([]);
      await expectUnharmed(field);
    },
  );
});
