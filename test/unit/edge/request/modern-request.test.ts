import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ReadRequest } from '../../../../src/edge/request/message.ts';
import { readModernRequest, type EraPolicy } from '../../../../src/edge/request/modern-request.ts';
import { refusalBody } from '../../../../src/edge/response-writer.ts';
import type { JsonObject, JsonValue } from '../../../../src/protocol/json.ts';
import { arbitraryJson, arbitraryJsonObject, objectsOf } from '../../../fixtures/arbitrary/json.ts';
import { schemaProblems } from '../../../fixtures/wire/official-schema.ts';

const VERSION = 'io.modelcontextprotocol/protocolVersion';
const CAPABILITIES = 'io.modelcontextprotocol/clientCapabilities';
const INFO = 'io.modelcontextprotocol/clientInfo';
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';
const MODERN = '2026-07-28';

const policy: EraPolicy = {
  legacyClients: 'reject',
  supportedVersions: () => [MODERN],
};

const META: JsonObject = { [VERSION]: MODERN, [CAPABILITIES]: {} };
const HEADERS = {
  'Content-Type': 'application/json',
  Accept: 'application/json, text/event-stream',
  'MCP-Protocol-Version': MODERN,
  'Mcp-Method': 'tools/call',
  'Mcp-Name': 'n',
};

interface Change {
  /** Headers instead of the usual ones; `null` leaves one out. */
  readonly headers?: Readonly<Record<string, string | null>>;
  readonly message?: JsonObject;
  readonly params?: JsonObject;
  readonly meta?: JsonObject;
  /** A header that stands there once more. */
  readonly again?: readonly [string, string];
  readonly body?: string;
  readonly policy?: Partial<EraPolicy>;
}

/** A call that passes, but for what is changed. */
function recover(change: Change = {}): ReadRequest {
  const fields: Record<string, string | null> = { ...HEADERS, ...change.headers };
  const raw = Object.entries(fields).flatMap(([name, value]) =>
    value === null ? [] : [name, value],
  );
  if (change.again !== undefined) raw.push(...change.again);
  const headers = Object.fromEntries(
    Object.entries(fields).flatMap(([name, value]) =>
      value === null ? [] : [[name.toLowerCase(), value]],
    ),
  );
  const params = { name: 'n', _meta: { ...META, ...change.meta }, ...change.params };
  const message = { jsonrpc: '2.0', id: 7, method: 'tools/call', params, ...change.message };
  const bytes = Buffer.from(change.body ?? JSON.stringify(message));
  return readModernRequest({ headers, rawHeaders: raw }, bytes, { ...policy, ...change.policy });
}

function accepted(change: Change = {}) {
  const read = recover(change);
  if (read.type !== 'request') throw new Error(JSON.stringify(read));
  return read.request;
}

/** Status, code and whether the id is repeated. */
function refusal(change: Change): readonly [number, number, JsonValue] {
  const read = recover(change);
  if (read.type !== 'refused') throw new Error(read.type);
  const body = refusalBody(read.refusal);
  expect(schemaProblems(MODERN, 'to-client', body)).toEqual([]);
  return [read.refusal.httpStatus, read.refusal.error.code, body['id'] ?? 'no id'];
}

/** A call of this method, with headers to match. */
function calling(method: string, params: JsonObject = {}): Change {
  return {
    headers: { 'Mcp-Method': method, 'Mcp-Name': null },
    message: { method, params: { _meta: META, ...params } },
  };
}

describe('a request that passes', () => {
  test('comes out with all that is known of it', () => {
    const meta = { [INFO]: { name: 'c', version: '1' }, progressToken: 5, traceparent: 't' };
    expect(accepted({ meta, params: { arguments: { a: 1 } } })).toMatchObject({
      id: 7,
      method: 'tools/call',
      params: { name: 'n', arguments: { a: 1 } },
      clientInfo: { name: 'c', version: '1' },
      progressToken: 5,
      logLevel: null,
      forwardedMeta: { traceparent: 't' },
      inputResponses: null,
      requestState: null,
      accepts: 'both',
    });
  });

  test('may be a retry with answers and state', () => {
    const params = { inputResponses: { a: { action: 'accept' } }, requestState: 's' };
    expect(accepted({ params })).toMatchObject(params);
  });

  // Rule validation-8.
  test.each([0, 'a', '', -5])('may have the id %j', (id) => {
    expect(accepted({ message: { id } }).id).toBe(id);
  });

  // Rule validation-12.
  test('needs no clientInfo (basic/index, "Per-request protocol fields")', () => {
    expect(accepted().clientInfo).toBeNull();
  });

  // Rule eras-10 (streamable-http, "Earlier Streamable HTTP Revisions"): `Mcp-Session-Id` and `Last-Event-ID` of a
  // modern request are ignored. No modern response has a session id.
  test('may come with a session id and Last-Event-ID, which mean nothing now', () => {
    const headers = { 'Mcp-Session-Id': 's', 'Last-Event-ID': 'e', 'Mcp-Param-X': 'y' };
    expect(accepted({ headers }).id).toBe(7);
  });

  test.each([
    ['application/json', 'json'],
    ['*/*', 'both'],
    [null, 'both'],
  ])('may accept %s', (accept, accepts) => {
    expect(accepted({ headers: { Accept: accept } }).accepts).toBe(accepts);
  });
});

// Rule validation-9 (streamable-http, "Protocol Version Header"; versioning, "Protocol Version Negotiation"): A claim
// that is no string gets 400, -32602, a missing or different `MCP-Protocol-Version` 400, -32020, and an unknown
// version 400, -32022 with `supported`.
// Rules validation-21, validation-4, validation-11, validation-16, validation-22.
describe('each step refuses with its own status and code', () => {
  test.each<[string, Change, readonly [number, number, JsonValue]]>([
    [
      'a body that is no JSON by its type',
      { headers: { 'Content-Type': 'text/plain' } },
      [415, -32600, 'no id'],
    ],
    ['a body of no type', { headers: { 'Content-Type': null } }, [415, -32600, 'no id']],
    ['a compressed body', { headers: { 'Content-Encoding': 'gzip' } }, [415, -32600, 'no id']],
    ['an answer in neither form', { headers: { Accept: 'text/html' } }, [406, -32600, 'no id']],
    ['a body that is no JSON', { body: '{' }, [400, -32700, 'no id']],
    ['a body nested too deep', { body: '['.repeat(65) }, [400, -32600, 'no id']],
    ['a list of messages', { body: '[]' }, [400, -32600, 'no id']],
    ['another JSON-RPC version', { message: { jsonrpc: '1.0' } }, [400, -32600, 7]],
    ['a method that is not a string', { message: { method: 5 } }, [400, -32600, 7]],
    ['an id that is null', { message: { id: null } }, [400, -32600, 'no id']],
    ['an id that is a fraction', { message: { id: 1.5 } }, [400, -32600, 'no id']],
    ['an id that is an object', { message: { id: {} } }, [400, -32600, 'no id']],
    ['no claim', { message: { params: { name: 'n' } } }, [400, -32602, 7]],
    ['a claim that is not a string', { meta: { [VERSION]: 5 } }, [400, -32602, 7]],
    ['a claim that is null', { meta: { [VERSION]: null } }, [400, -32602, 7]],
    ['no version header', { headers: { 'MCP-Protocol-Version': null } }, [400, -32020, 7]],
    [
      'another version in the header',
      { headers: { 'MCP-Protocol-Version': '2025-11-25' } },
      [400, -32020, 7],
    ],
    [
      'a version that is not served',
      { headers: { 'MCP-Protocol-Version': '2099-01-01' }, meta: { [VERSION]: '2099-01-01' } },
      [400, -32022, 7],
    ],
    ['no capabilities', { meta: { [CAPABILITIES]: null } }, [400, -32602, 7]],
    ['capabilities that are a list', { meta: { [CAPABILITIES]: [] } }, [400, -32602, 7]],
    ['a clientInfo without a version', { meta: { [INFO]: { name: 'c' } } }, [400, -32602, 7]],
    ['no method header', { headers: { 'Mcp-Method': null } }, [400, -32020, 7]],
    ['another method in the header', { headers: { 'Mcp-Method': 'tools/list' } }, [400, -32020, 7]],
    ['the method in another case', { headers: { 'Mcp-Method': 'Tools/Call' } }, [400, -32020, 7]],
    ['an unknown method', calling('x/unknown'), [404, -32601, 7]],
    ['no name header', { headers: { 'Mcp-Name': null } }, [400, -32020, 7]],
    ['another name in the header', { headers: { 'Mcp-Name': 'm' } }, [400, -32020, 7]],
    ['the name in another case', { headers: { 'Mcp-Name': 'N' } }, [400, -32020, 7]],
    [
      'a name header that is not the Base64 it says',
      { headers: { 'Mcp-Name': '=?base64?!?=' } },
      [400, -32020, 7],
    ],
    ['an unknown log level', { meta: { [LOG_LEVEL]: 'loud' } }, [200, -32602, 7]],
    ['params that are wrong for the method', { params: { arguments: 5 } }, [200, -32602, 7]],
    ['a name that is missing', { params: { name: 5 } }, [200, -32602, 7]],
    ['answers that are no object', { params: { inputResponses: [] } }, [200, -32602, 7]],
    [
      'answers that are null, which is not absent',
      { params: { inputResponses: null } },
      [200, -32602, 7],
    ],
    ['an answer that is no object', { params: { inputResponses: { a: 1 } } }, [200, -32602, 7]],
    ['a state that is not a string', { params: { requestState: 5 } }, [200, -32602, 7]],
    [
      'a state that is null, which is not absent',
      { params: { requestState: null } },
      [200, -32602, 7],
    ],
    [
      'a state on a method that never asks',
      calling('tools/list', { requestState: 's' }),
      [200, -32602, 7],
    ],
  ])('%s', (_what, change, expected) => {
    expect(refusal(change)).toEqual(expected);
  });

  // Rule http-4.
  test.each(['MCP-Protocol-Version', 'Mcp-Method', 'Mcp-Name'] as const)(
    'a second %s header, even of the same value',
    (name) => {
      const again = [name.toLowerCase(), HEADERS[name]] as const;
      expect(refusal({ again })).toEqual([400, -32020, 7]);
    },
  );

  // Rule validation-14 (streamable-http, "Protocol Version Header"): An unknown or removed method, or a vendor's own,
  // gets 404, -32601.
  // Rule eras-2.
  test.each([
    'initialize',
    'ping',
    'logging/setLevel',
    'resources/subscribe',
    'resources/unsubscribe',
    'tasks/result',
    'tasks/list',
    'tools/Call',
    'constructor',
    '',
  ])(
    '%j, which 2026-07-28 does not know: 404 (streamable-http, "Protocol Version Header")',
    (method) => {
      expect(refusal(calling(method))).toEqual([404, -32601, 7]);
    },
  );

  // Rule validation-9.
  test('an unserved version gets an error with those that are (basic/versioning)', () => {
    const read = recover({
      headers: { 'MCP-Protocol-Version': '2099-01-01' },
      meta: { [VERSION]: '2099-01-01' },
    });
    expect(read).toMatchObject({
      refusal: { error: { data: { supported: [MODERN], requested: '2099-01-01' } } },
    });
  });
});

// Rule validation-9.
describe('the first step that fails gives the error', () => {
  const wrongVersion = { 'MCP-Protocol-Version': '2099-01-01' };
  test.each<[string, Change, readonly [number, number]]>([
    [
      'content type before accept',
      { headers: { 'Content-Type': 'x', Accept: 'text/html' } },
      [415, -32600],
    ],
    ['accept before the body', { headers: { Accept: 'text/html' }, body: '{' }, [406, -32600]],
    ['claim before header', { headers: wrongVersion, meta: { [VERSION]: 5 } }, [400, -32602]],
    [
      'claim before method',
      { headers: { 'Mcp-Method': 'x' }, meta: { [VERSION]: 5 } },
      [400, -32602],
    ],
    [
      'header mismatch before an unserved version',
      { meta: { [VERSION]: '2099-01-01' } },
      [400, -32020],
    ],
    [
      'the version before the rest of the envelope, which another revision may lay out differently',
      { headers: wrongVersion, meta: { [VERSION]: '2099-01-01', [CAPABILITIES]: 5 } },
      [400, -32022],
    ],
    [
      'the envelope before the method',
      { headers: { 'Mcp-Method': 'x' }, meta: { [CAPABILITIES]: 5 } },
      [400, -32602],
    ],
    [
      'an unknown method before its name',
      { headers: { 'Mcp-Method': 'x/y', 'Mcp-Name': 'z' }, message: { method: 'x/y' } },
      [404, -32601],
    ],
    [
      'the name header before the params',
      { headers: { 'Mcp-Name': 'z' }, params: { arguments: 5 } },
      [400, -32020],
    ],
    [
      'the log level before the params',
      { meta: { [LOG_LEVEL]: 'x' }, params: { arguments: 5 } },
      [200, -32602],
    ],
  ])('%s', (_what, change, expected) => {
    expect(refusal(change).slice(0, 2)).toEqual(expected);
  });
});

describe('Mcp-Name', () => {
  const sentinel = (text: string) => `=?base64?${Buffer.from(text).toString('base64')}?=`;
  const named = (name: string, header: string): Change => ({
    params: { name },
    headers: { 'Mcp-Name': header },
  });

  test('carries any name in Base64 (streamable-http, "Value Encoding")', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (name) => {
        expect(accepted(named(name, sentinel(name))).params['name']).toBe(name);
      }),
    );
  });

  // Rule validation-17.
  test('carries a name as plain UTF-8 for clients that do not encode', () => {
    for (const name of ['größe', 'voilà', '世界']) {
      const header = Buffer.from(name).toString('latin1');
      expect(accepted(named(name, header)).params['name']).toBe(name);
    }
  });

  // Rule validation-17.
  test('that is marked is always decoded: a name that looks marked must be encoded itself', () => {
    const name = '=?base64?Zm9v?=';
    expect(refusal(named(name, name)).slice(0, 2)).toEqual([400, -32020]);
    expect(accepted(named(name, sentinel(name))).params['name']).toBe(name);
  });

  // Rule validation-16.
  test('repeats the URI of resources/read', () => {
    const change = calling('resources/read', { uri: 'file:///a' });
    const headers = { ...change.headers, 'Mcp-Name': 'file:///a' };
    expect(accepted({ ...change, headers }).method).toBe('resources/read');
    expect(refusal({ ...change, headers: { ...headers, 'Mcp-Name': 'b' } })[1]).toBe(-32020);
  });

  // Rule validation-16.
  test('is not looked at on methods that name nothing', () => {
    const change = calling('tools/list');
    expect(
      accepted({ ...change, headers: { ...change.headers, 'Mcp-Name': '=?base64?!?=' } }).id,
    ).toBe(7);
  });
});

describe('a modern notification', () => {
  const body = JSON.stringify({ jsonrpc: '2.0', method: 'notifications/cancelled' });

  test('is taken, known or not (streamable-http, "Sending Messages")', () => {
    expect(recover({ body })).toEqual({ type: 'notification' });
  });

  // Rule eras-11.
  test('that is malformed is refused without an id', () => {
    const params = JSON.stringify({ jsonrpc: '2.0', method: 'n', params: [] });
    expect(refusal({ body: params })).toEqual([400, -32600, 'no id']);
  });
});

test('a legacy request is left to whoever serves legacy clients', () => {
  const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'initialize', params: {} });
  const headers = { 'MCP-Protocol-Version': null };
  expect(recover({ body, headers, policy: { legacyClients: 'pass-through' } })).toEqual({
    type: 'legacy',
  });
});

describe('whatever comes', () => {
  const headerValue = fc.oneof(
    fc.constantFrom(null, ...Object.values(HEADERS), '=?base64?bg==?=', 'x'),
    fc.string(),
  );
  const headers = fc.record(
    {
      'MCP-Protocol-Version': headerValue,
      'Mcp-Method': headerValue,
      'Mcp-Name': headerValue,
      Accept: headerValue,
      Origin: headerValue,
    },
    { requiredKeys: [] },
  );
  const words = [
    ...['jsonrpc', '2.0', 'id', 'method', 'params', '_meta', 'name', 'arguments', 'tools/call'],
    ...['inputResponses', 'requestState', VERSION, CAPABILITIES, INFO, LOG_LEVEL, MODERN],
    ...['progressToken', 'constructor', 'toString', 'n'],
  ];

  // Rule validation-1 (basic/index, "Error Responses" and "Error Codes"): Every refusal is a JSON-RPC error of the
  // modern schema. No code from -32000 to -32019 is made up.
  test('is read or refused with an error that 2026-07-28 allows, and nothing is thrown', () => {
    const change: fc.Arbitrary<Change> = fc.record(
      {
        headers,
        message: objectsOf(words),
        params: objectsOf(words),
        meta: objectsOf(words),
        body: fc.oneof(
          fc.string(),
          arbitraryJson.map((value) => JSON.stringify(value)),
        ),
      },
      { requiredKeys: [] },
    ) as fc.Arbitrary<Change>;
    fc.assert(
      fc.property(change, (given) => {
        const read = recover(given);
        expect(read.type).not.toBe('legacy');
        if (read.type !== 'refused') return;
        const { httpStatus } = read.refusal;
        expect([200, 400, 403, 404, 406, 415]).toContain(httpStatus);
        expect(schemaProblems(MODERN, 'to-client', refusalBody(read.refusal))).toEqual([]);
      }),
      { numRuns: 1000 },
    );
  });

  test('a valid call comes through with its arguments word for word', () => {
    fc.assert(
      fc.property(arbitraryJsonObject, (args) => {
        const { params } = accepted({ params: { arguments: args } });
        expect(params['arguments']).toEqual(args);
      }),
    );
  });
});
