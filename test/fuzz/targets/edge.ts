/**
 * The edge: whatever bytes a client sends, they are answered as HTTP or the connection ends, nothing in the gateway breaks,
 * and the next client is served.
 */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import fc from 'fast-check';
import { startTestGateway, type TestGateway } from '../../fixtures/gateways/gateway.ts';
import { mutated, mutatedJson } from '../mutations.ts';
import { target } from '../target.ts';

interface Request {
  readonly head: string;
  readonly body: string;
  /** How the body is framed, besides what the head says. */
  readonly framing: 'length' | 'chunked' | 'none';
}

const PARAMS = { name: 'echo', arguments: { a: 1, b: ['ü', { c: null }] } };
const RETRY = {
  ...PARAMS,
  requestState: 'a..b.c.d',
  inputResponses: { key: { action: 'accept' } },
};
const META = {
  'io.modelcontextprotocol/protocolVersion': '2026-07-28',
  'io.modelcontextprotocol/clientInfo': { name: 'fuzz', version: '1' },
  'io.modelcontextprotocol/clientCapabilities': { elicitation: {}, sampling: {}, roots: {} },
};
const bodyOf = (method: string, params: object) =>
  JSON.stringify({ jsonrpc: '2.0', id: 1, method, params: { ...params, _meta: META } });
const headersOf = (method: string, name = {}) => ({
  'content-type': 'application/json',
  accept: 'application/json, text/event-stream',
  'mcp-protocol-version': '2026-07-28',
  'mcp-method': method,
  ...name,
});
const CALL_HEADERS = headersOf('tools/call', { 'mcp-name': 'echo' });
const headOf = (start: string, headers: object) =>
  [start, 'Host: localhost', ...Object.entries(headers).map(([name, value]) => `${name}: ${value}`)]
    .map((line) => `${line}\r\n`)
    .join('');
const post = (headers: object) => headOf('POST /mcp HTTP/1.1', headers);
const LEGACY = { 'content-type': 'application/json', 'mcp-session-id': 'session' };
/** Sound requests: head and body. */
const SEEDS: readonly (readonly [head: string, body: string])[] = [
  [post(CALL_HEADERS), bodyOf('tools/call', PARAMS)],
  [post(CALL_HEADERS), bodyOf('tools/call', RETRY)],
  [post(headersOf('tools/list')), bodyOf('tools/list', {})],
  [post(headersOf('server/discover')), bodyOf('server/discover', {})],
  [
    post(headersOf('resources/read', { 'mcp-name': 'file:///a' })),
    bodyOf('resources/read', { uri: 'file:///a' }),
  ],
  [
    post(headersOf('completion/complete')),
    bodyOf('completion/complete', {
      ref: { type: 'ref/prompt', name: 'p' },
      argument: { name: 'a', value: 'b' },
      context: { arguments: { c: 'd' } },
    }),
  ],
  [post(LEGACY), '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}'],
  [post(LEGACY), '[{"jsonrpc":"2.0","method":"notifications/initialized"}]'],
  [headOf('GET /mcp HTTP/1.1', { accept: 'text/event-stream', 'last-event-id': '1' }), ''],
  [headOf('OPTIONS /mcp HTTP/1.1', { origin: 'http://localhost', authorization: 'Bearer a' }), ''],
];
const HEADS = SEEDS.map(([head]) => head);
const BODIES = SEEDS.map(([, body]) => body);
const HEAD_PARTS = [
  ...['\r\n', '\n', '\r', ':', ' ', '\t', '\0', ',', ';', '%2e', '..', '//', '?', '#', '@', '\x80'],
  ...['HTTP/1.0', 'HTTP/2.0', 'HEAD ', 'PUT ', 'CONNECT ', 'http://evil.example', '*'],
  ...['Transfer-Encoding: chunked\r\n', 'Content-Length: 5\r\n', 'Content-Length: -1\r\n'],
  ...['Expect: 100-continue\r\n', 'Connection: close\r\n', 'Upgrade: h2c\r\n', 'Host: a\r\n'],
  ...['Content-Encoding: gzip\r\n', 'Origin: null\r\n', '=?base64?ZWNobw==?=', 'x'.repeat(9_000)],
  ...[
    'Mcp-Name: echo\r\n',
    'MCP-Protocol-Version: 1\r\n',
    'Mcp-Param-A: 1\r\n',
    'traceparent: x\r\n',
  ],
];
const BODY_PARTS = [
  ...['{', '}', '[', ']', '"', ':', ',', '\\', '\\u0000', 'null', '{}', '1e999', '-0', '\uFEFF'],
  ...[
    '"id":null,',
    '"method":"tools/call",',
    '"params":[],',
    '"__proto__":{"polluted":1},',
    '"":0,',
  ],
  ...[
    '"requestState":"',
    '"inputResponses":[],',
    '"name":5,',
    '"task":{},',
    '['.repeat(70),
    '\xff',
  ],
  ...['"arguments":{"constructor":{"prototype":{}}},', '12345678901234567890', '"_meta":null,'],
];
const ODD_VALUES = [
  ...[
    null,
    true,
    5,
    -0.5,
    1e300,
    '',
    'x',
    [],
    {},
    [[]],
    '=?base64?ZQ==?=',
    '2026-07-28',
    '__proto__',
  ],
  ...[
    { toString: 1 },
    { constructor: {} },
    [null],
    { action: 'accept', content: {} },
    'tools/call',
  ],
  JSON.parse('['.repeat(100) + ']'.repeat(100)) as unknown,
];
/** A client that waits for the rest of a request. */
const TIMEOUTS = { headMs: 150, requestMs: 150, checkEveryMs: 25 };
const MOST_MS = 20_000;
const SERVED_EVERY = 50;

export const edge = target('edge', 8, async () => {
  const server = await echoServer();
  const { port } = server.address() as AddressInfo;
  const gateway = await startTestGateway(`http://127.0.0.1:${port}/mcp`, { timeouts: TIMEOUTS });
  let checked = 0;
  return {
    inputs: fc.constantFrom(...SEEDS).chain(([head, body]) =>
      fc.record<Request>({
        head: fc.oneof(fc.constant(head), mutated([head, ...HEADS], HEAD_PARTS)),
        body:
          body === ''
            ? fc.constant(body)
            : fc.oneof(mutatedJson([body], ODD_VALUES), mutated([body, ...BODIES], BODY_PARTS)),
        framing: fc.constantFrom('length', 'length', 'chunked', 'none'),
      }),
    ),
    async check(request) {
      const answered = await answerTo(gateway.url, bytesOf(request));
      assert.match(answered, /^(?:HTTP\/1\.1 [1-5]\d\d [^]*)?$/);
      assert.doesNotMatch(answered, /HTTP\/1\.1 500 |Internal error|node:internal|\.ts:\d+/);
      assert.deepEqual(gateway.log.named('edge.failed'), []);
      assert.equal(({} as Record<string, unknown>)['polluted'], undefined);
      gateway.log.lines.length = 0;
      checked += 1;
      if (checked % SERVED_EVERY === 0) await expectServed(gateway);
    },
    async stop() {
      await expectServed(gateway);
      await gateway.close();
      server.closeAllConnections();
      server.close();
    },
  };
});

function bytesOf({ head, body, framing }: Request): Buffer {
  const bytes = Buffer.from(body);
  const lines = Buffer.from(head, 'latin1');
  const end = Buffer.from('\r\n');
  if (framing === 'none') return Buffer.concat([lines, end, bytes]);
  if (framing === 'length') {
    return Buffer.concat([lines, Buffer.from(`Content-Length: ${bytes.length}\r\n`), end, bytes]);
  }
  const size = Buffer.from(`Transfer-Encoding: chunked\r\n\r\n${bytes.length.toString(16)}\r\n`);
  return Buffer.concat([lines, size, bytes, Buffer.from('\r\n0\r\n\r\n')]);
}

/** Sends bytes, then a request after which the connection ends. @returns all that comes back, as Latin-1 */
function answerTo(url: string, bytes: Buffer): Promise<string> {
  const { hostname, port } = new URL(url);
  return new Promise((resolve, reject) => {
    const socket = connect({ host: hostname, port: Number(port) });
    let answered = '';
    const bound = setTimeout(() => {
      socket.destroy();
      reject(new Error(`the connection did not end within ${MOST_MS} ms; came: ${answered}`));
    }, MOST_MS);
    socket.setEncoding('latin1').on('data', (text: string) => (answered += text));
    // What is refused in the middle can end with a reset.
    socket.on('error', () => {});
    socket.once('close', () => {
      clearTimeout(bound);
      resolve(answered);
    });
    socket.write(bytes);
    socket.write('GET /last HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n');
  });
}

async function expectServed(gateway: TestGateway): Promise<void> {
  const body = bodyOf('tools/call', PARAMS);
  const response = await fetch(gateway.url, { method: 'POST', headers: CALL_HEADERS, body });
  // The time for a request is so short here that a busy machine can exceed it.
  if (response.status === 408) return expectServed(gateway);
  const { result } = (await response.json()) as { result?: { content: unknown } };
  assert.deepEqual(result?.content, ECHO.content);
}

const ECHO = { content: [{ type: 'text', text: 'echo' }] };
const GREETING = {
  protocolVersion: '2025-11-25',
  capabilities: { tools: {} },
  serverInfo: { name: 'echo', version: '1' },
};

/** A legacy server that answers whatever it is asked. */
async function echoServer(): Promise<Server> {
  const server = createServer((request, response) => {
    let text = '';
    request.setEncoding('utf8').on('data', (chunk: string) => (text += chunk));
    request.on('end', () => {
      const { id, method } = messageIn(text);
      if (method === 'server/discover') return response.writeHead(400).end();
      if (id === undefined) return response.writeHead(request.method === 'POST' ? 202 : 405).end();
      const result = method === 'initialize' ? GREETING : ECHO;
      response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 'session' });
      return response.end(JSON.stringify({ jsonrpc: '2.0', id, result }));
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return server;
}

function messageIn(text: string): { readonly id?: unknown; readonly method?: unknown } {
  try {
    return (JSON.parse(text) ?? {}) as { id?: unknown; method?: unknown };
  } catch {
    return {};
  }
}
