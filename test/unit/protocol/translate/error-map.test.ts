import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { edgeError, readUrlElicitations } from '../../../../src/protocol/translate/error-map.ts';
import type { JsonObject } from '../../../../src/protocol/json.ts';
import type { JsonRpcErrorObject } from '../../../../src/protocol/json-rpc.ts';
import { arbitraryJson, objectsOf } from '../../../fixtures/arbitrary/json.ts';
import { schemaProblems } from '../../../fixtures/wire/official-schema.ts';

const METHODS = [
  ...['tools/call', 'prompts/get', 'resources/read', 'tools/list', 'prompts/list'],
  ...['resources/list', 'resources/templates/list', 'completion/complete'],
];
const upstreamError = (code: number): JsonRpcErrorObject => ({
  code,
  message: 'm',
  data: { a: 1 },
});
/** What stands in `data` when the code had to be replaced. */
const kept = (code: number) => ({ upstream: { code, message: 'm', data: { a: 1 } } });

describe('-32002, which 2026-07-28 must not emit (basic/index, "Error Codes")', () => {
  test('is invalid params on resources/read, with its message and data (resources, "Error Handling")', () => {
    expect(edgeError('resources/read', upstreamError(-32002))).toEqual({
      error: { code: -32602, message: 'm', data: { a: 1 } },
      httpStatus: 200,
    });
  });

  test.each(METHODS.filter((method) => method !== 'resources/read'))(
    'is an internal error on %s',
    (method) => {
      expect(edgeError(method, upstreamError(-32002))).toEqual({
        error: { code: -32603, message: 'm', data: kept(-32002) },
        httpStatus: 200,
      });
    },
  );
});

// Rule responses-4.
describe('-32601', () => {
  test.each(['tools/call', 'prompts/get', 'resources/read'])(
    'on %s means that what it names is unknown: invalid params, and no 404',
    (method) => {
      expect(edgeError(method, upstreamError(-32601))).toEqual({
        error: { code: -32602, message: 'm', data: kept(-32601) },
        httpStatus: 200,
      });
    },
  );

  test.each(['tools/list', 'resources/templates/list', 'completion/complete'])(
    'on %s stays, with 404 (streamable-http, "Protocol Version Header")',
    (method) => {
      const error = upstreamError(-32601);
      expect(edgeError(method, error)).toEqual({ error, httpStatus: 404 });
    },
  );
});

test.each([-32602, -32603])('%i stays as it is', (code) => {
  const error = upstreamError(code);
  expect(edgeError('tools/call', error)).toEqual({ error, httpStatus: 200 });
});

test.each([-32700, -32600])(
  '%i is an internal error: our request was ours to get right',
  (code) => {
    expect(edgeError('tools/call', upstreamError(code)).error).toMatchObject({
      code: -32603,
      data: kept(code),
    });
  },
);

test.each([-32000, -32001, -32019, -32020, -32021, -32022, -32043, -32099, -32100, -32768])(
  '%i is an internal error: legacy peers mean nothing by it that a modern client knows',
  (code) => {
    expect(edgeError('tools/call', upstreamError(code)).error).toMatchObject({
      code: -32603,
      data: kept(code),
    });
  },
);

test.each([0, -1, 1, 401, -31999, -32769])('%i is the application’s own and stays', (code) => {
  const error = upstreamError(code);
  expect(edgeError('tools/call', error)).toEqual({ error, httpStatus: 200 });
});

describe('-32042, a URL to visit first', () => {
  const entry = { mode: 'url', message: 'm', url: 'https://a.example', elicitationId: 'e' };
  const withData = (data: JsonObject): JsonRpcErrorObject => ({ code: -32042, message: 'm', data });

  test('tells a client without URL mode what it lacks, with 400 (basic/index, "Per-request protocol fields")', () => {
    const { error, httpStatus } = edgeError('tools/call', withData({ elicitations: [entry] }));
    expect(httpStatus).toBe(400);
    expect(error.code).toBe(-32021);
    expect(error.data).toEqual({ requiredCapabilities: { elicitation: { url: {} } } });
  });

  test('is read with all that it asks for', () => {
    const other = { message: 'n', url: 'https://b.example' };
    expect(readUrlElicitations(withData({ elicitations: [entry, other] }))).toEqual([
      { message: 'm', url: 'https://a.example', elicitationId: 'e' },
      { message: 'n', url: 'https://b.example', elicitationId: '' },
    ]);
  });

  // Rule url-errors-6.
  test.each([
    {},
    { elicitations: [] },
    { elicitations: {} },
    { elicitations: [entry, { message: 'm' }] },
    { elicitations: [{ url: 'https://a.example' }] },
    { elicitations: [null] },
    { elicitations: [entry, { ...entry, url: 'javascript:alert(1)' }] },
    { elicitations: [{ ...entry, url: '/relative' }] },
  ])('that does not say what to visit is an internal error: %j', (data) => {
    expect(readUrlElicitations(withData(data))).toBeNull();
    expect(edgeError('tools/call', withData(data)).error.code).toBe(-32603);
  });

  // Rule url-errors-6.
  test.each(['tools/list', 'completion/complete', 'resources/list'])(
    'is an internal error of %s, which cannot ask for input, whatever the client declares',
    (method) => {
      const { error, httpStatus } = edgeError(method, withData({ elicitations: [entry] }));
      expect([error.code, httpStatus]).toEqual([-32603, 200]);
      expect(error.data).toMatchObject({ upstream: { code: -32042 } });
    },
  );

  test('is not read out of other errors', () => {
    const error = { ...withData({ elicitations: [entry] }), code: -32603 };
    expect(readUrlElicitations(error)).toBeNull();
  });
});

test('every error of a server becomes one that 2026-07-28 allows, and loses nothing', () => {
  const words = ['elicitations', 'message', 'url', 'elicitationId', 'https://a.example'];
  const error = fc.record(
    {
      code: fc.oneof(
        fc.integer({ min: -32800, max: -31990 }),
        fc.constantFrom(-32042, -32002, -32601),
        fc.integer(),
      ),
      message: fc.string(),
      data: fc.oneof(arbitraryJson, objectsOf(words)),
    },
    { requiredKeys: ['code', 'message'], noNullPrototype: true },
  );
  fc.assert(
    fc.property(fc.constantFrom(...METHODS), error, (method, given) => {
      const { error: mapped, httpStatus } = edgeError(method, given);
      const message = { jsonrpc: '2.0', id: 1, error: mapped };
      expect(schemaProblems('2026-07-28', 'to-client', message)).toEqual([]);
      expect([-32002, -32042]).not.toContain(mapped.code);
      expect(httpStatus).toBe(mapped.code === -32601 ? 404 : mapped.code === -32021 ? 400 : 200);
      if (mapped.code === -32021) return;
      expect(mapped.message).toBe(given.message);
      const whole = mapped.code === given.code || given.code === -32002 ? given.data : undefined;
      const upstream = (mapped.data as JsonObject | undefined)?.['upstream'];
      expect(upstream ?? { ...given, data: whole }).toEqual(given);
    }),
    { numRuns: 1000 },
  );
});
