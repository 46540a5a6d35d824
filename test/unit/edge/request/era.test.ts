import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { RefusalError } from '../../../../src/edge/request/message.ts';
import * as modern from '../../../../src/edge/request/modern-request.ts';
import { hasClaim, type EraPolicy } from '../../../../src/edge/request/modern-request.ts';
import type { JsonObject, JsonValue } from '../../../../src/protocol/json.ts';
import { arbitraryJson, objectsOf } from '../../../fixtures/arbitrary/json.ts';

const CLAIM = 'io.modelcontextprotocol/protocolVersion';
const MODERN = '2026-07-28';
const LEGACY = '2025-06-18';
const only: EraPolicy = { legacyClients: 'reject', supportedVersions: () => [MODERN] };
const both: EraPolicy = {
  legacyClients: 'pass-through',
  supportedVersions: () => [MODERN, LEGACY],
};

/** Finds the era of a body, or how it is refused. */
function eraOf(body: JsonValue, versionHeader: string | null, policy: EraPolicy) {
  try {
    return modern.eraOf(body, versionHeader, policy);
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error;
    return { type: 'refused', ...error.refusal } as const;
  }
}

function request(method: string, params: JsonObject = {}): JsonObject {
  return { jsonrpc: '2.0', id: 1, method, params };
}
const claiming = (method: string, version: JsonValue = MODERN) =>
  request(method, { _meta: { [CLAIM]: version } });
const notification = { jsonrpc: '2.0', method: 'notifications/initialized' };

// Rule eras-2 (versioning, "Backward Compatibility with Initialization-Based Versions"): The claim decides, whatever
// the headers say or the connection carried before. A modern `initialize` gets 404, -32601.
describe('a request that names its version in its own _meta is modern', () => {
  test.each<[string, JsonValue, string | null]>([
    ['tools/call', MODERN, MODERN],
    ['tools/call', MODERN, LEGACY],
    ['tools/call', '2099-01-01', null],
    ['tools/call', 5, null],
    ['tools/call', null, null],
    ['initialize', MODERN, null],
  ])(
    '%s with the claim %j and the header %j: the checks judge the rest',
    (method, version, header) => {
      const body = claiming(method, version);
      expect(eraOf(body, header, only)).toEqual({ type: 'modern', message: body });
      expect(eraOf(body, header, both)).toEqual({ type: 'modern', message: body });
    },
  );
});

// Rule eras-5.
describe('initialize without a claim', () => {
  const initialize = request('initialize', { protocolVersion: LEGACY, capabilities: {} });

  // Rule eras-4 (versioning, "Backward Compatibility with Initialization-Based Versions"; streamable-http, "Earlier
  // Streamable HTTP Revisions"): A request without a claim or the modern header is legacy. With `edge.legacyClients:
  // pass-through`, the default, it goes to the server unchanged.
  test.each([null, LEGACY])('and with the header %j is legacy', (header) => {
    expect(eraOf(initialize, header, both)).toEqual({ type: 'legacy' });
  });

  test.each([null, LEGACY])(
    'and with the header %j is told the versions served, where there are no legacy clients (basic/versioning)',
    (header) => {
      expect(eraOf(initialize, header, only)).toMatchObject({
        type: 'refused',
        httpStatus: 400,
        error: { code: -32022, data: { supported: [MODERN], requested: LEGACY } },
      });
    },
  );

  // Rule eras-3 (basic/index, "`_meta`"; streamable-http, "Server Validation"): Under `MCP-Protocol-Version:
  // 2026-07-28`, an `initialize` without a claim gets 400, -32020. Any other request without a claim gets 400,
  // -32602.
  test.each([only, both])('under a modern header contradicts itself', (policy) => {
    expect(eraOf(initialize, MODERN, policy)).toMatchObject({
      type: 'refused',
      httpStatus: 400,
      error: { code: -32020 },
    });
  });
});

// Rule eras-3.
describe('another request without a claim', () => {
  const call = request('tools/call', { name: 'n' });

  test.each([only, both])(
    'under a modern header is told what _meta must have (basic/index, "Per-request protocol fields")',
    (policy) => {
      const era = eraOf(call, MODERN, policy);
      expect(era).toMatchObject({ type: 'refused', httpStatus: 400, error: { code: -32602 } });
      expect(JSON.stringify(era)).toContain('io.modelcontextprotocol/clientCapabilities');
    },
  );

  test.each([null, LEGACY])('and with the header %j is legacy', (header) => {
    expect(eraOf(call, header, both)).toEqual({ type: 'legacy' });
  });

  test('under a legacy header names an unsupported version, where there are no legacy clients', () => {
    expect(eraOf(call, LEGACY, only)).toMatchObject({
      httpStatus: 400,
      error: { code: -32022, data: { supported: [MODERN], requested: LEGACY } },
    });
  });

  test('without a header lacks it, where there are no legacy clients (streamable-http, "Server Validation")', () => {
    expect(eraOf(call, null, only)).toMatchObject({
      httpStatus: 400,
      error: {
        code: -32020,
        message: expect.stringContaining(MODERN),
        data: { supported: [MODERN] },
      },
    });
  });
});

describe('a notification', () => {
  test('is modern by its claim or by its header', () => {
    const own = { jsonrpc: '2.0', method: 'n', params: { _meta: { [CLAIM]: MODERN } } };
    expect(eraOf(own, null, both).type).toBe('modern');
    expect(eraOf(notification, MODERN, both).type).toBe('modern');
  });

  test('is otherwise legacy, and dropped where there are no legacy clients', () => {
    for (const header of [null, LEGACY]) {
      expect(eraOf(notification, header, both)).toEqual({ type: 'legacy' });
      expect(eraOf(notification, header, only)).toEqual({ type: 'dropped' });
    }
  });
});

// Rule eras-4.
describe('a response', () => {
  test.each([{ result: {} }, { error: { code: 1, message: 'm' } }])(
    'may come from legacy clients only (streamable-http, "Sending Messages"): %j',
    (outcome) => {
      const body = { jsonrpc: '2.0', id: 1, ...outcome };
      expect(eraOf(body, null, both)).toEqual({ type: 'legacy' });
      expect(eraOf(body, null, only)).toMatchObject({ httpStatus: 400, error: { code: -32600 } });
    },
  );
});

test('a response with a claim belongs to no era: modern clients send none, and legacy ones have no claim', () => {
  const body = { ...claiming('tools/list'), method: undefined, result: {} };
  expect(eraOf(JSON.parse(JSON.stringify(body)), null, both)).toMatchObject({
    httpStatus: 400,
    error: { code: -32600 },
  });
});

describe('a list of messages', () => {
  // Rule eras-4.
  test('may come from legacy clients only', () => {
    const batch = [request('ping'), notification];
    expect(eraOf(batch, null, both)).toEqual({ type: 'legacy' });
    expect(eraOf(batch, null, only)).toMatchObject({ httpStatus: 400, error: { code: -32600 } });
  });

  // Rule eras-7 (streamable-http, "Sending Messages" 4): An empty batch, one with a modern message, and every batch
  // if legacy clients are rejected, get 400, -32600.
  test('is refused when any of them is modern (streamable-http: one message per request)', () => {
    const batch = [request('ping'), claiming('tools/list')];
    expect(eraOf(batch, null, both)).toMatchObject({ httpStatus: 400, error: { code: -32600 } });
  });

  // Rule eras-7.
  test('is refused when it is empty', () => {
    expect(eraOf([], null, both)).toMatchObject({ httpStatus: 400, error: { code: -32600 } });
  });
});

test.each([5, 'x', null, true, {}, { method: 5, id: 1 }])('%j is no message', (body) => {
  expect(eraOf(body as JsonValue, null, both)).toMatchObject({
    httpStatus: 400,
    error: { code: -32600 },
  });
});

// Rule eras-2.
test('whatever comes has an era, and nothing with a claim is ever passed on as legacy', () => {
  const words = [
    'jsonrpc',
    'id',
    'method',
    'params',
    '_meta',
    CLAIM,
    'initialize',
    'result',
    'error',
  ];
  const headers = fc.constantFrom(null, MODERN, LEGACY, 'x');
  const bodies = fc.oneof(objectsOf(words), arbitraryJson, fc.array(objectsOf(words)));
  fc.assert(
    fc.property(bodies, headers, fc.constantFrom(only, both), (body, header, policy) => {
      const era = eraOf(body, header, policy);
      const messages = (Array.isArray(body) ? body : [body]).filter(
        (one) => typeof one === 'object' && one !== null && !Array.isArray(one),
      );
      if (messages.some((one) => hasClaim(one as JsonObject))) expect(era.type).not.toBe('legacy');
      if (policy === only) expect(era.type).not.toBe('legacy');
    }),
    { numRuns: 500 },
  );
});
