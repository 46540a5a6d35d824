/** Rules on who may use what, for requests that are passed through: each way around them that a server could leave open. */
import { gzipSync } from 'node:zlib';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { describe, expect, test } from 'vitest';
import { rawRequest, sendRaw } from '../../fixtures/clients/raw-http.ts';
import { modernBody, modernHeaders, send } from '../../fixtures/clients/modern-client.ts';
import type { GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { before, ONLY_READ, restricted } from '../../fixtures/gateways/rights-testbed.ts';
import type { Respond } from '../../fixtures/passthrough/credentials-testbed.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const call = (name: string) => ({
  ...{ jsonrpc: '2.0', id: 1, method: 'tools/call' },
  params: { name, arguments: {} },
});
const JSON_TYPE = { 'content-type': 'application/json' };

interface Attack {
  readonly method?: string;
  readonly path?: string;
  readonly body?: unknown;
  readonly headers?: Record<string, string>;
}

/** That of the refusal in front of a modern server, and in front of a legacy one. */
interface Statuses {
  readonly status: number;
  readonly legacy?: number;
}

/** A server that answers everything with success, whatever it is, and a gateway with rules in front of it. */
async function lax(era: 'legacy' | 'modern' = 'legacy') {
  const { server, gateway } = await before(
    (_seen, body, response) => {
      const { id = null } = JSON.parse(body.startsWith('{') ? body : '{}') as { id?: unknown };
      const result = { resultType: 'complete', content: [{ type: 'text', text: 'done' }] };
      response.writeHead(200, JSON_TYPE).end(JSON.stringify({ jsonrpc: '2.0', id, result }));
    },
    { era },
  );
  const attack = async ({ method = 'POST', path = '/mcp', body, headers = {} }: Attack) => {
    const bytes = Buffer.isBuffer(body)
      ? body
      : Buffer.from(typeof body === 'string' ? body : JSON.stringify(body ?? ''));
    const all = {
      ...{ host: 'localhost', 'x-from': 'client', accept: 'application/json, text/event-stream' },
      ...JSON_TYPE,
      ...(body === undefined ? {} : { 'content-length': String(bytes.length) }),
      ...headers,
    };
    const head = rawRequest(method, path, Object.entries(all));
    const sent = body === undefined ? head : Buffer.concat([Buffer.from(head), bytes]);
    const { status, body: text } = await sendRaw(gateway.url, sent);
    return { status, response: text === '' ? null : JSON.parse(text) };
  };
  return {
    attack,
    gateway,
    reached: () => server.ofClient().map(({ method, url }) => `${method} ${url}`),
  };
}

// Rule rights-1.
test.each([
  ['tools/call', { name: 'delete' }, -32602, 'Unknown tool: delete'],
  ['tools/call', { name: 'READ' }, -32602, 'Unknown tool: READ'],
  ['prompts/get', { name: 'secret' }, -32602, 'Unknown prompt: secret'],
  ['resources/read', { uri: 'key://1' }, -32002, 'Resource not found: key://1'],
  ['resources/subscribe', { uri: 'key://1' }, -32002, 'Resource not found: key://1'],
  [
    'completion/complete',
    { ref: { type: 'ref/resource', uri: 'key://{x}' } },
    -32002,
    'Resource not found: key://{x}',
  ],
  ['tools/callSaga', { name: 'delete' }, -32601, 'Method not found'],
  ['Tools/Call', { name: 'delete' }, -32601, 'Method not found'],
])(
  'a legacy %s of %j is refused with an error of its id',
  async (method, params, code, message) => {
    const { attack, reached } = await lax();
    const { status, response } = await attack({
      body: { jsonrpc: '2.0', id: 'a', method, params },
    });
    expect([status, response]).toMatchObject([200, { id: 'a', error: { code, message } }]);
    expect(reached()).toEqual([]);
    expect((await attack({ body: call('read') })).response.result.content).toHaveLength(1);
    expect(reached()).toEqual(['POST /mcp']);
  },
);

describe('around the rules leads no', () => {
  const modern = modernBody('tools/call', { name: 'read' });
  const DELETE = JSON.stringify(call('delete'));

  /** Tries it in front of a server of each era. */
  async function fails({ status, legacy = status, ...attack }: Attack & Statuses) {
    for (const era of ['legacy', 'modern'] as const) {
      const field = await lax(era);
      const refused = await field.attack(attack);
      const expected = era === 'legacy' ? legacy : status;
      expect([refused.status, typeof refused.response?.error], era).toEqual([expected, 'object']);
      expect(field.reached(), era).toEqual([]);
    }
  }

  // Rule rights-4.
  test.each<[string, Attack & Statuses]>([
    ['without an id', { status: 400, body: { ...call('delete'), id: undefined } }],
    ['in a batch', { status: 400, body: [call('read'), call('delete')] }],
    ['in a batch of one that is allowed', { status: 400, body: [call('read')] }],
  ])('call without an id, or among others: %s', (_what, attack) => fails(attack));

  // Rule rights-4.
  test.each<[string, Attack & Statuses]>([
    ['a name twice', { status: 400, body: DELETE.replace('"name"', '"name":"read","name"') }],
    [
      'a name twice, once escaped',
      { status: 400, body: DELETE.replace('"name"', '"name":"read","n\\u0061me"') },
    ],
    [
      'a name in another case',
      { status: 400, body: { ...call('read'), params: { name: 'read', Name: 'delete' } } },
    ],
    [
      'a name in another case alone',
      { status: 400, body: { ...call('read'), params: { NAME: 'delete' } } },
    ],
    [
      'a method in another case',
      { status: 400, body: { ...call('delete'), method: 'ping', Method: 'tools/call' } },
    ],
    [
      'params with a long s',
      { status: 400, body: { ...call('read'), 'param\u017f': { name: 'delete' } } },
    ],
    ['a list of names', { status: 400, body: { ...call('read'), params: { name: ['delete'] } } }],
    ['a list of params', { status: 400, body: { ...call('read'), params: ['delete'] } }],
    [
      'bytes that are no UTF-8',
      { status: 400, body: Buffer.from(DELETE.replace('delete', 'delet\xe9'), 'latin1') },
    ],
    ['more than JSON', { status: 400, body: `${DELETE}//` }],
  ])('message that a server could read in another way: %s', (_what, attack) => fails(attack));

  // Rule rights-4.
  test.each<[string, Attack & Statuses]>([
    [
      'compressed',
      { status: 415, body: gzipSync(DELETE), headers: { 'content-encoding': 'gzip' } },
    ],
    [
      'a charset of seven bits',
      {
        status: 415,
        body: call('read'),
        headers: { 'content-type': 'application/json; charset=utf-7' },
      },
    ],
    [
      'a second charset',
      {
        status: 415,
        body: call('read'),
        headers: { 'content-type': 'application/json; charset=utf-8; charset="utf-7"' },
      },
    ],
    ['text', { status: 415, body: DELETE, headers: { 'content-type': 'text/plain' } }],
    [
      'a form',
      {
        status: 415,
        body: `message=${DELETE}`,
        headers: { 'content-type': 'application/x-www-form-urlencoded' },
      },
    ],
  ])('body that the gateway cannot read: %s', (_what, attack) => fails(attack));

  // Rule rights-4.
  test.each<[string, Attack & Statuses]>([
    ['another method', { status: 400, body: call('read'), headers: { 'mcp-method': 'ping' } }],
    ['another tool', { status: 400, body: call('read'), headers: { 'mcp-name': 'delete' } }],
    [
      'another tool, in Base64',
      { status: 400, body: call('read'), headers: { 'mcp-name': '=?base64?ZGVsZXRl?=' } },
    ],
    [
      'another tool, in a modern request',
      { status: 400, body: modern, headers: modernHeaders('tools/call', { name: 'delete' }) },
    ],
    [
      'what is allowed, in a modern request',
      {
        status: 200,
        legacy: 400,
        body: modernBody('tools/call', { name: 'delete' }),
        headers: modernHeaders('tools/call', { name: 'read' }),
      },
    ],
  ])('header that says something else: %s', (_what, attack) => fails(attack));

  // Rule rights-4.
  test.each<[string, Attack & Statuses]>([
    ['PUT', { status: 405, method: 'PUT', body: call('delete') }],
    ['PATCH', { status: 405, method: 'PATCH', body: call('delete') }],
    ['DELETE with a body', { status: 405, method: 'DELETE', body: call('delete') }],
    ['GET with a body', { status: 405, method: 'GET', body: call('delete') }],
  ])('method of HTTP that carries no message: %s', (_what, attack) => fails(attack));

  // Rule rights-4.
  test.each<[string, Attack & Statuses]>([
    ['another path', { status: 404, path: '/message', body: call('delete') }],
    ['a slash at the end', { status: 404, path: '/mcp/', body: call('delete') }],
    ['another case', { status: 404, path: '/MCP', body: call('delete') }],
    ['a page', { status: 404, method: 'GET', path: '/admin/delete?all=1' }],
    ['a message to metadata', { status: 404, path: '/.well-known/mcp', body: call('delete') }],
  ])('other path, or spelling of the path: %s', (_what, attack) => fails(attack));

  // Rule rights-1.
  test.each<[string, Attack & Statuses]>([
    [
      'a tool',
      {
        status: 200,
        body: modernBody('tools/call', { name: 'delete' }),
        headers: modernHeaders('tools/call', { name: 'delete' }),
      },
    ],
    [
      'a method of no revision',
      {
        status: 404,
        body: modernBody('tools/run', { name: 'delete' }),
        headers: modernHeaders('tools/run', { name: 'delete' }),
      },
    ],
  ])('modern call of what is not allowed: %s', (_what, attack) => fails(attack));

  // Rule rights-4.
  test('header of a modern request, which is a mismatch that clients know', async () => {
    const { attack } = await lax('modern');
    for (const other of [{ 'mcp-name': 'delete' }, { 'mcp-method': 'ping' }]) {
      const headers = { ...modernHeaders('tools/call', { name: 'read' }), ...other };
      const { response } = await attack({ body: modern, headers });
      expect(response.error.code).toBe(-32020);
    }
    const headers = modernHeaders('tools/call', { name: 'read' });
    expect((await attack({ body: modern, headers })).response.result.content).toHaveLength(1);
  });
});

// Rule rights-4.
test('metadata, streams and the ends of sessions are passed through as without rules', async () => {
  const { attack, reached } = await lax();
  const requests = ['GET /.well-known/oauth-protected-resource', 'GET /mcp', 'DELETE /mcp'];
  for (const request of requests) {
    const [method = '', path = ''] = request.split(' ');
    expect((await attack({ method, path })).status).toBe(200);
  }
  expect(reached()).toEqual(requests);
});

describe('an official legacy client', () => {
  async function connected(
    transport: 'streamable-http' | 'http-sse',
    overrides: GatewayOverrides = {},
  ) {
    const field = await restricted({ ...ONLY_READ, ...overrides, transport }, { transport });
    const client = new Client({ name: 'legacy', version: '1.0.0' });
    stopAfterTest(() => client.close());
    const url = new URL(field.url);
    const requestInit = { headers: { 'x-user': 'ada' } };
    await client.connect(
      transport === 'http-sse'
        ? new SSEClientTransport(url, { requestInit })
        : new StreamableHTTPClientTransport(url, { requestInit }),
    );
    return { ...field, client };
  }

  // Rules rights-1, rights-3.
  test.each([
    ['streamable-http', {}],
    ['streamable-http', { identity: { source: 'header', header: 'x-user' } }],
    ['http-sse', {}],
    ['http-sse', { identity: { source: 'header', header: 'x-user' } }],
  ] as const)('over %s with %j sees and uses what it may', async (transport, overrides) => {
    const { effects, client } = await connected(transport, overrides);
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(['read']);
    expect((await client.listPrompts()).prompts.map(({ name }) => name)).toEqual(['plain']);
    expect((await client.listResources()).resources.map(({ uri }) => uri)).toEqual(['doc://1']);
    const read = await client.callTool({ name: 'read' });
    expect(read.content).toEqual([{ type: 'text', text: 'read' }]);
    const refused = client.callTool({ name: 'delete' });
    await expect(refused).rejects.toThrow(/Unknown tool: delete/);
    await expect(client.getPrompt({ name: 'secret' })).rejects.toThrow(/Unknown prompt: secret/);
    await expect(client.readResource({ uri: 'key://1' })).rejects.toThrow(/not found: key:\/\/1/);
    expect((await client.callTool({ name: 'read' })).content).toHaveLength(1);
    expect(effects).toEqual(['read', 'read']);
  });
});

describe('a list that is passed through', () => {
  const LIST = { jsonrpc: '2.0', id: 1, method: 'tools/list' };
  const RESULT = { tools: [{ name: 'read', n: 1.0 }, { name: 'delete' }], nextCursor: 'x' };

  async function listed(type: string, body: string | Buffer, headers: Record<string, string> = {}) {
    let asked: string | undefined;
    const { gateway } = await before((seen, _body, response) => {
      asked = String(seen.headers['accept-encoding']);
      response.writeHead(200, { 'content-type': type, ...headers }).end(body);
    });
    const answer = await fetch(gateway.url, {
      method: 'POST',
      headers: {
        ...JSON_TYPE,
        accept: 'application/json, text/event-stream',
        'x-from': 'client',
      },
      body: JSON.stringify(LIST),
    });
    return { asked, text: await answer.text() };
  }

  // Rule rights-3.
  test('is asked for uncompressed, and loses what its caller may not use', async () => {
    const whole = JSON.stringify({ jsonrpc: '2.0', id: 1, result: RESULT });
    const { asked, text } = await listed('application/json', whole.replace('"n":1', '"n":1.0'));
    expect(asked).toBe('identity');
    expect(text).toBe(
      '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"read","n":1.0}],"nextCursor":"x"}}',
    );
  });

  // Rule rights-3.
  test('loses it in a stream as well, and all else stays as it is, byte by byte', async () => {
    const event = (result: object) => JSON.stringify({ jsonrpc: '2.0', id: 1, result });
    const before = ': hello\r\n\r\nid: 1\r\ndata:\r\n\r\nevent: message\rdata: {"méthod":  1}\r\r';
    const { text } = await listed(
      'text/event-stream; charset=utf-8',
      `${before}id: 2\nevent: message\ndata: ${event(RESULT)}\n\ndata: rest`,
    );
    const shown = event({ ...RESULT, tools: RESULT.tools.slice(0, 1) });
    expect(text).toBe(`${before}id: 2\nevent: message\ndata: ${shown}\n\ndata: rest`);
  });

  // Rule rights-3.
  test('that is not one, or is compressed all the same, stays as it is', async () => {
    for (const body of ['', '{', '[]', '{"result":{"tools":1}}', '{"result":{"tools":[1]}}']) {
      expect((await listed('application/json', body)).text).toBe(body);
    }
    const whole = JSON.stringify({ jsonrpc: '2.0', id: 1, result: RESULT });
    const { text } = await listed('application/json', gzipSync(whole), {
      'content-encoding': 'gzip',
    });
    expect(text).toBe(whole);
  });

  // Rule rights-3.
  test('of a modern server loses it, too', async () => {
    const respond: Respond = (_seen, body, response) => {
      const { id } = JSON.parse(body) as { id: unknown };
      const tools = ['read', 'delete'].map((name) => ({ name, inputSchema: { type: 'object' } }));
      const result = { resultType: 'complete', ttlMs: 0, cacheScope: 'private', tools };
      response.writeHead(200, JSON_TYPE).end(JSON.stringify({ jsonrpc: '2.0', id, result }));
    };
    const { gateway } = await before(respond, { era: 'modern' });
    const { response } = await send(
      gateway.url,
      'tools/list',
      {},
      { headers: { 'x-from': 'client' } },
    );
    expect(response.result.tools.map(({ name }: { name: string }) => name)).toEqual(['read']);
  });
});
