/** Servers that answer a call with what is no answer: their clients get a clear error, within bounds. */
import { once } from 'node:events';
import { createServer, type Socket } from 'node:net';
import type { ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { callTool, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import { eventStream, json, type Answer } from '../../../fixtures/servers/scripted-server.ts';
import { hurriedClock } from '../../../fixtures/hurried-clock.ts';
import {
  callsOf,
  expectUnharmed,
  ground,
  type Ground,
} from '../../../fixtures/gateways/survival-testbed.ts';

/** Stands in whatever the server sends that no client is to see. */
const SECRET = 'srv-internal-42';

/** Bounds on time that a busy machine does not meet: what fails here fails by something else. */
const LIMITS = {
  upstream: { maxBodyBytes: 20_000, maxEventBytes: 20_000, headersTimeoutMs: 100_000 },
  calls: { maxDurationMs: 200_000 },
  clock: hurriedClock(10),
};

/** The word by which a program tells why a call failed. */
function reasonOf({ response }: Exchanged): unknown {
  return response.error?.data?.reason ?? response.result?._meta?.['mrtr-gateway/reason'];
}

/** Asserts that nothing of the server's insides is in the answer. */
function expectDiscreet({ upstream }: Ground, exchanged: Exchanged): void {
  const seen = JSON.stringify([exchanged.response, [...exchanged.headers]]);
  for (const inner of [
    SECRET,
    new URL(upstream.url).host,
    '127.0.0.1',
    'session-1',
    'ECONN',
    'UND_ERR',
  ]) {
    expect(seen).not.toContain(inner);
  }
}

function messageOf({ response }: Exchanged): string {
  return response.error?.message ?? response.result?.content?.[0]?.text;
}

/** Calls a tool that the script answers; the call must fail for the reason, and do no harm. */
async function expectFailure(script: Answer, reason: string, overrides = {}): Promise<Exchanged> {
  const field = await ground({ ...LIMITS, ...overrides }, script);
  const exchanged = await callTool(field.url, 'hostile');
  expect(reasonOf(exchanged)).toBe(reason);
  expectDiscreet(field, exchanged);
  await expectUnharmed(field);
  return exchanged;
}

const sends =
  (
    status: number,
    headers: Record<string, string | string[]>,
    body: string | Buffer = SECRET,
  ): Answer =>
  (_received, response) =>
    void response.writeHead(status, headers).end(body);

const JSON_TYPE = { 'content-type': 'application/json' };

/** Writes past the HTTP of the server. */
const raw =
  (text: string): Answer =>
  (_received, response) => {
    response.socket?.write(Buffer.from(text, 'latin1'));
    response.socket?.end();
  };

// Rule failures-5: `upstream_protocol_error`: the connection works, and what the server sent is not a reply. HTML, a
// redirect, a compressed body, no content, any other 4xx without a JSON-RPC error; JSON or an event that does not
// parse, is not a message of JSON-RPC, replies to another request or is beyond the limits, unless the reply comes
// nevertheless.
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

  // Rule limits-1: Redirects are not followed, compressed bodies are neither asked for nor read, and a media
  // type other than JSON or an event stream is not a response: `upstream_protocol_error`.
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
  // Rule failures-6 (tools, "Error Handling"): A connection that breaks before a response, bytes that are no
  // HTTP, a 5xx other than 503, a response that breaks off, or an event stream that ends without the reply and
  // cannot be resumed, has lost the call: the tool may have acted, and the call is not sent again. A tool then
  // gives a result with `isError` that says so and `mrtr-gateway/reason: call_lost` in its `_meta`; prompts and
  // resources give the error.
  test.each([500, 501, 502, 504, 520, 599])('says so with %i', async (status) => {
    await expectFailure(sends(status, { 'retry-after': '1' }), 'call_lost');
  });

  // Rule failures-2 (RFC 9110, section 10.2.3): `upstream_busy`: 429 or 503. `data.retryAfterMs` says when to retry
  // if the server said so, in seconds or as a date by its own `Date`, up to an hour.
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
    const now = Date.now();
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

// Rule failures-6.
describe('bytes that are no HTTP', () => {
  const ok = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n';
  test.each([
    ['nothing at all', ''],
    ['garbage', `${SECRET}\r\n\r\n`],
    ['half a status line', 'HTTP/1.1 2'],
    ['half a head', ok],
    ['a head beyond all bounds', `${ok}x: ${'x'.repeat(80_000)}\r\n\r\n`],
    [
      'another protocol',
      'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n',
    ],
    ['interim answers only', 'HTTP/1.1 103 Early Hints\r\n\r\n'.repeat(1_000)],
    ['two lengths', `${ok}content-length: 2\r\ncontent-length: 3\r\n\r\n{}`],
    ['a length that is none', `${ok}content-length: two\r\n\r\n{}`],
  ])('%s', async (_title, text) => {
    await expectFailure(raw(text), 'call_lost');
  });

  test.each([
    [
      'a length and chunks',
      `${ok}content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n`,
    ],
    ['a body that ends early', `${ok}content-length: 1000\r\n\r\n{"${SECRET}`],
    ['a body that ends in a chunk', `${ok}transfer-encoding: chunked\r\n\r\nff\r\n{"${SECRET}`],
    ['a chunk size that is none', `${ok}transfer-encoding: chunked\r\n\r\n${SECRET}\r\n{}\r\n`],
  ])('%s', async (_title, text) => {
    const field = await ground(LIMITS, raw(text));
    const exchanged = await callTool(field.url, 'hostile');
    expect(reasonOf(exchanged)).toBe('call_lost');
    expectDiscreet(field, exchanged);
    await expectUnharmed(field);
  });

  // Rule failures-5.
  test.each([
    ['with thousands of headers', `${ok}${'x: 1\r\n'.repeat(12_000)}\r\n`],
    ['of no bytes', `${ok}content-length: 0\r\n\r\n`],
  ])('an empty body %s is HTTP, and no reply', async (_title, text) => {
    await expectFailure(raw(text), 'upstream_protocol_error');
  });

  // Rule failures-6.
  test.each([
    ['as JSON', (message: string) => `${ok}content-length: ${message.length}\r\n\r\n${message}`],
    [
      'as events',
      (message: string) =>
        `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n` +
        chunk(`event: message\ndata: ${message}\n\n`),
    ],
  ])(
    'a valid response that breaks off after any byte is either read or lost: %s',
    async (_title, write) => {
      let cutAt = 0;
      let length = 0;
      const field = await ground({}, ({ body }, response) => {
        const result = { content: [{ type: 'text', text: 'whole' }] };
        const text = write(JSON.stringify({ jsonrpc: '2.0', id: body.id, result }));
        length = text.length;
        response.socket?.write(text.slice(0, cutAt));
        response.socket?.end();
      });
      const ends = new Set<unknown>();
      for (; cutAt <= length; cutAt += 1) {
        const exchanged = await callTool(field.url, 'hostile');
        ends.add(reasonOf(exchanged) ?? exchanged.response.result.content[0].text);
        expectDiscreet(field, exchanged);
      }
      expect([...ends].sort()).toEqual(['call_lost', 'whole']);
      await expectUnharmed(field);
    },
  );
});

describe('JSON', () => {
  const message = (more: object) => (id: unknown) =>
    JSON.stringify({ jsonrpc: '2.0', id, ...more });
  const deep = `${'['.repeat(5_000)}${']'.repeat(5_000)}`;
  // Rules failures-5, limits-3.
  test.each<[string, (id: unknown) => string]>([
    ['that breaks off', () => `{"jsonrpc":"2.0","${SECRET}`],
    ['with more behind it', (id) => `${message({ result: {} })(id)}${SECRET}`],
    ['null', () => 'null'],
    ['a string', () => `"${SECRET}"`],
    ['no message at all', () => '[]'],
    ['a message of another protocol', (id) => JSON.stringify({ id, result: {}, error: SECRET })],
    ['of JSON-RPC 1.0', (id) => JSON.stringify({ jsonrpc: '1.0', id, result: { a: SECRET } })],
    ['with a result that is text', message({ result: SECRET })],
    ['with a result that is a list', message({ result: [SECRET] })],
    ['with no result', message({ result: null })],
    ['with an error that is text', message({ error: SECRET })],
    ['with the id as text', (id) => message({ result: {} })(String(id))],
    [
      'with another id',
      () => message({ result: { content: [{ type: 'text', text: SECRET }] } })(999),
    ],
    ['with an id that is an object', () => message({ result: {} })({})],
    ['deeper than a stack', (id) => `{"jsonrpc":"2.0","id":${String(id)},"result":{"a":${deep}}}`],
    [
      'that reaches for the prototype',
      (id) => `{"jsonrpc":"2.0","id":${String(id)},"result":{"__proto__":{"polluted":1}}}`,
    ],
    ['larger than the limit', message({ result: { a: 'x'.repeat(20_000) } })],
  ])('%s is no reply', async (_title, text) => {
    const asJson: Answer = ({ body }, response) =>
      void response.writeHead(200, JSON_TYPE).end(text(body.id));
    await expectFailure(asJson, 'upstream_protocol_error');
    const asEvent: Answer = ({ body }, response) => {
      const stream = eventStream(response);
      stream.raw(`data: ${text(body.id)}\n\n`);
      stream.end();
    };
    await expectFailure(asEvent, 'upstream_protocol_error');
    expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
  });

  // Rule limits-3.
  test('larger than a limit is no reply, and the client is told which limit it is', async () => {
    const large = { result: { content: [{ type: 'text', text: 'x'.repeat(20_000) }] } };
    const asJson: Answer = ({ body }, response) =>
      void response.writeHead(200, JSON_TYPE).end(message(large)(body.id));
    const asEvent: Answer = ({ body }, response) => {
      eventStream(response).raw(`data: ${message(large)(body.id)}\n\n`);
    };
    const byBody = await expectFailure(asJson, 'upstream_protocol_error');
    expect(messageOf(byBody)).toContain('too large for the gateway (upstream.maxBody)');
    const byEvent = await expectFailure(asEvent, 'upstream_protocol_error');
    expect(messageOf(byEvent)).toContain('too large for the gateway (upstream.maxEvent)');
  });

  // Rule limits-3: A JSON body is read up to `upstream.maxBody` (16 MiB by default) and an event up to
  // `upstream.maxEvent` (4 MiB), over as many lines as it has; then the connection is cut (an event over HTTP+SSE is
  // discarded instead). JSON nested deeper than 500 levels, or with a member that would reach a prototype, is not a reply.
  test.each<[string, (push: (text: string) => void) => void]>([
    ['without end', (push) => push('x'.repeat(10_000))],
    ['without end, in single bytes', (push) => push(' ')],
  ])('%s is cut', async (_title, more) => {
    const answering = Promise.withResolvers<ServerResponse>();
    const script: Answer = (_received, response) => {
      response.writeHead(200, JSON_TYPE);
      endlessly(response, more);
      answering.resolve(response);
    };
    await expectFailure(script, 'upstream_protocol_error', { calls: { maxDurationMs: 200_000 } });
    expect((await answering.promise).destroyed).toBe(true);
  });

  // Rule results-1.
  test.each<[string, object]>([
    ['content that is no list', { content: SECRET }],
    ['no content', {}],
    ['content that is null', { content: null }],
    ['members of another revision', { content: [], resultType: 'input_required' }],
    [
      'a question that it may not ask this way',
      {
        content: [],
        resultType: 'input_required',
        inputRequests: { a: { method: 'roots/list' } },
        requestState: SECRET,
      },
    ],
  ])('with %s is given a shape that the client knows', async (_title, result) => {
    const field = await ground(LIMITS, ({ body }, response) =>
      json(response, 200, { jsonrpc: '2.0', id: body.id, result }),
    );
    const exchanged = await callTool(field.url, 'hostile');
    expect(exchanged.response.result).toMatchObject({ resultType: 'complete', content: [] });
    expectDiscreet(field, exchanged);
    await expectUnharmed(field);
  });

  // Rule errors-1 (basic, "Error Responses"): An error with a code or a message of the wrong type gets the code
  // -32603 or the message "Unknown error" in its place.
  test.each<[string, object, object]>([
    ['nothing', {}, { code: -32603, message: 'Unknown error' }],
    ['a code that is text', { code: 'E_BAD', message: 'm' }, { code: -32603, message: 'm' }],
    ['a code with a fraction', { code: 1.5, message: 'm' }, { code: -32603, message: 'm' }],
    [
      'a message that is a list',
      { code: 7, message: ['m'] },
      { code: 7, message: 'Unknown error' },
    ],
  ])('with an error that says %s is a whole error for the client', async (_title, error, seen) => {
    const field = await ground(LIMITS, ({ body }, response) =>
      json(response, 200, { jsonrpc: '2.0', id: body.id, error }),
    );
    const { response } = await callTool(field.url, 'hostile');
    expect(response.error).toEqual(seen);
    await expectUnharmed(field);
  });
});

function chunk(text: string): string {
  return `${text.length.toString(16)}\r\n${text}\r\n0\r\n\r\n`;
}

/** Goes on until the other side has had enough. */
function endlessly(response: ServerResponse, more: (push: (text: string) => void) => void): void {
  if (response.destroyed) return;
  more((text) => response.write(text));
  const again = () => endlessly(response, more);
  if (response.writableNeedDrain) response.once('drain', again);
  else setImmediate(again);
}
