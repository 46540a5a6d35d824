import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  completeResult,
  inputRequiredResult,
  metaMember,
} from '../../../../src/protocol/translate/edge-result.ts';
import type { JsonObject, JsonValue } from '../../../../src/protocol/json.ts';
import { objectsOf } from '../../../fixtures/arbitrary/json.ts';
import { results, revision } from '../../../fixtures/arbitrary/legacy-messages.ts';
import { schemaProblems } from '../../../fixtures/wire/official-schema.ts';

const SERVER_INFO = 'io.modelcontextprotocol/serverInfo';
const RELATED_TASK = 'io.modelcontextprotocol/related-task';
const serverInfo = { name: 's', version: '1' };
const METHODS = Object.keys(results('2025-11-25'));
const CACHEABLE = [
  ...['tools/list', 'prompts/list', 'resources/list'],
  ...['resources/templates/list', 'resources/read'],
];

function complete(method: string, result: JsonObject, cacheable = true): JsonObject {
  return completeResult(method, result, { serverInfo: null, cacheable });
}

/** The tools of a list as the client sees them. */
function listed(...tools: JsonValue[]): JsonValue | undefined {
  return complete('tools/list', { tools })['tools'];
}

const INPUT = { type: 'object' };

// Rule responses-6 (basic/index, "ResultType" and "`_meta`"): Every result has a `resultType`, and the server's own
// name in `_meta["io.modelcontextprotocol/serverInfo"]`.
describe('every result', () => {
  test.each([...METHODS, 'unknown'])(
    'says that it is complete, whatever a legacy server put there: %s (basic/index, "ResultType")',
    (method) => {
      expect(complete(method, {})['resultType']).toBe('complete');
      expect(complete(method, { resultType: 'task' })['resultType']).toBe('complete');
    },
  );

  // Rule responses-6.
  test('names the upstream (basic/index, "Per-response protocol fields")', () => {
    const result = completeResult('tools/call', { content: [] }, { serverInfo });
    expect(result['_meta']).toEqual({ [SERVER_INFO]: serverInfo });
  });

  // Rule responses-6.
  test('names the upstream as it did in initialize, whatever it says in a result', () => {
    const result = { content: [], _meta: { [SERVER_INFO]: { name: 'forged', version: '2' } } };
    expect(completeResult('tools/call', result, { serverInfo })['_meta']).toEqual({
      [SERVER_INFO]: serverInfo,
    });
    expect(complete('tools/call', result)).not.toHaveProperty('_meta');
  });

  test('loses the legacy task it belonged to, and keeps all other _meta', () => {
    const meta = { [RELATED_TASK]: { taskId: 't' }, 'com.example/a': 1 };
    expect(complete('tools/call', { content: [], _meta: meta })['_meta']).toEqual({
      'com.example/a': 1,
    });
  });

  test('has no _meta when there is nothing to put there', () => {
    expect(metaMember({}, null)).toEqual({});
    expect(complete('tools/call', { _meta: { [RELATED_TASK]: {} } })).not.toHaveProperty('_meta');
    expect(complete('tools/call', { content: [], _meta: {} })).not.toHaveProperty('_meta');
  });
});

describe('cache fields (caching, "Cacheable Results")', () => {
  test.each(CACHEABLE)('are on every result of %s, and by default let nobody keep it', (method) => {
    expect(complete(method, {})).toMatchObject({ ttlMs: 0, cacheScope: 'private' });
  });

  // Rule caching-1.
  test.each(['tools/call', 'prompts/get', 'completion/complete'])(
    'are not added to %s',
    (method) => {
      expect(complete(method, {})).not.toHaveProperty('ttlMs');
      expect(complete(method, {})).not.toHaveProperty('cacheScope');
    },
  );

  // Rule caching-2 (caching, "Cacheable Model"): `ttlMs` and `cacheScope` of a legacy server are removed.
  test.each([...METHODS, 'unknown'])(
    'are never those of a legacy server, which knows of no caches: %s',
    (method) => {
      const { ttlMs, cacheScope } = complete(method, { ttlMs: 5, cacheScope: 'public' });
      const none = CACHEABLE.includes(method) ? [0, 'private'] : [undefined, undefined];
      expect([ttlMs, cacheScope]).toEqual(none);
    },
  );

  // Rule caching-2.
  test('are those of the operator, whatever the server says', () => {
    const caching = { ttlMs: 7, cacheScope: 'private' } as const;
    const own = { tools: [], ttlMs: 5, cacheScope: 'public' };
    expect(completeResult('tools/list', own, { serverInfo, caching })).toMatchObject(caching);
  });

  // Rule caching-3.
  test('of a result that answers made are never the upstream’s (caching, "Cache Key")', () => {
    const own = { contents: [], ttlMs: 5, cacheScope: 'public' };
    expect(complete('resources/read', own, false)).toMatchObject({
      ttlMs: 0,
      cacheScope: 'private',
    });
  });
});

describe('tools/call', () => {
  // Rule results-5 (tools, "Structured Content"): A `tools/call` result without `content` gets its structured content
  // as one text block.
  test('without content gets its structured content as text, since content is required', () => {
    expect(complete('tools/call', { structuredContent: { a: 1 } })['content']).toEqual([
      { type: 'text', text: '{"a":1}' },
    ]);
  });

  // Rule results-5.
  test('without either gets an empty content', () => {
    expect(complete('tools/call', {})['content']).toEqual([]);
  });

  // Rule results-4 (tools, "Error Handling"): Content blocks of every type, `structuredContent` and `isError` pass
  // word for word.
  test('keeps structured content, errors and blocks of unknown types word for word', () => {
    const result = { content: [{ type: 'hologram', x: 1 }], structuredContent: [1], isError: true };
    expect(complete('tools/call', result)).toEqual({ ...result, resultType: 'complete' });
  });
});

describe('tools/list', () => {
  // Rule lists-5 (tools, "Tool Names"): Items keep their order. A tool with a duplicate name, or without one, is left
  // out.
  test('keeps the order of the server', () => {
    const tools = ['b', 'a', 'c'].map((name) => ({ name, inputSchema: INPUT }));
    expect(listed(...tools)).toEqual(tools);
  });

  // Rule lists-5.
  test('names each tool once: the first of a name counts (tools, "Tool Names")', () => {
    const first = { name: 'a', description: '1', inputSchema: INPUT };
    expect(listed(first, { ...first, description: '2' })).toEqual([first]);
  });

  // Rule lists-5.
  test('leaves out what cannot be called, having no name', () => {
    expect(listed({ inputSchema: INPUT }, 5, null, { name: 7 })).toEqual([]);
  });

  // Rule lists-6.
  test('says that arguments are an object where a server forgot it', () => {
    expect(listed({ name: 'a' }, { name: 'b', inputSchema: { properties: {} } })).toEqual([
      { name: 'a', inputSchema: INPUT },
      { name: 'b', inputSchema: { type: 'object', properties: {} } },
    ]);
  });

  // Rule lists-6 (tools, "Tool"): A tool loses `execution`, and its `inputSchema` gets `type: "object"` if that is
  // missing. All else stays.
  test('has no "execution", which 2026-07-28 does not know', () => {
    const tool = { name: 'a', inputSchema: INPUT, annotations: { readOnlyHint: true }, title: 'A' };
    expect(listed({ ...tool, execution: { taskSupport: 'required' } })).toEqual([tool]);
  });

  // Rule validation-18.
  test('has no x-mcp-header, wherever a schema may stand: no legacy server reads such headers', () => {
    const marked = { type: 'string', 'x-mcp-header': 'Region' };
    const inputSchema = {
      type: 'object',
      'x-mcp-header': 'A',
      properties: { a: marked, b: { type: 'array', items: marked } },
      $defs: { c: marked },
      anyOf: [marked],
      if: marked,
      additionalProperties: marked,
    };
    const clean = { type: 'string' };
    expect(listed({ name: 'a', inputSchema })).toEqual([
      {
        name: 'a',
        inputSchema: {
          type: 'object',
          properties: { a: clean, b: { type: 'array', items: clean } },
          $defs: { c: clean },
          anyOf: [clean],
          if: clean,
          additionalProperties: clean,
        },
      },
    ]);
  });

  // Rule validation-18.
  test('keeps arguments and values that are called x-mcp-header', () => {
    const inputSchema = {
      type: 'object',
      properties: { 'x-mcp-header': { type: 'string' } },
      default: { 'x-mcp-header': 1 },
      enum: [{ 'x-mcp-header': 1 }],
      const: { 'x-mcp-header': 1 },
      examples: [{ 'x-mcp-header': 1 }],
    };
    expect(listed({ name: 'a', inputSchema })).toEqual([{ name: 'a', inputSchema }]);
  });

  // Rule lists-6.
  test('leaves the dialect of a schema and its references alone', () => {
    const inputSchema = {
      $schema: 'http://json-schema.org/draft-07/schema#',
      type: 'object',
      definitions: { a: {} },
      properties: { a: { $ref: '#/definitions/a' }, b: { $ref: 'https://a.example/b' } },
    };
    expect(listed({ name: 'a', inputSchema })).toEqual([{ name: 'a', inputSchema }]);
  });
});

describe('completion/complete', () => {
  // Rule results-6 (completion, "Completion Results"): `completion/complete` returns at most 100 values, and
  // `hasMore` if the server had more.
  test('gives at most 100 values and says that there are more (completion, "Completion Results")', () => {
    const values = Array.from({ length: 101 }, (_, at) => `v${at}`);
    const result = { completion: { values, total: 101, hasMore: false } };
    expect(complete('completion/complete', result)['completion']).toEqual({
      values: values.slice(0, 100),
      total: 101,
      hasMore: true,
    });
  });

  test('with 100 values is word for word', () => {
    const completion = { values: Array.from({ length: 100 }, () => 'v') };
    expect(complete('completion/complete', { completion })['completion']).toEqual(completion);
  });
});

describe('an InputRequiredResult', () => {
  const request = { method: 'roots/list', params: {} };

  // Rules shown-1, caching-3.
  test('has what is asked, the state and the upstream’s name, and no cache fields', () => {
    expect(inputRequiredResult({ 'roots-1': request }, 'state', serverInfo)).toEqual({
      resultType: 'input_required',
      inputRequests: { 'roots-1': request },
      requestState: 'state',
      _meta: { [SERVER_INFO]: serverInfo },
    });
  });

  // Rule shown-3.
  test('keeps the order in which the server asked', () => {
    const result = inputRequiredResult({ z: request, a: request }, 's', null);
    expect(Object.keys(result['inputRequests'] as JsonObject)).toEqual(['z', 'a']);
  });

  test.each(['tools/call', 'prompts/get', 'resources/read'])(
    'is a valid answer to %s (MRTR, "Supported Requests")',
    (method) => {
      const result = inputRequiredResult({ a: request }, 'state', serverInfo);
      const message = { jsonrpc: '2.0', id: 1, result };
      expect(schemaProblems('2026-07-28', 'to-client', message, method)).toEqual([]);
    },
  );
});

describe.each(METHODS)('whatever a legacy server replies to %s', (method) => {
  const answered = revision.chain((since) => {
    const result = results(since)[method];
    if (result === undefined) throw new Error(method);
    return result.map((legacy) => ({ since, legacy }));
  });

  test('is valid by the modern schema once translated', () => {
    fc.assert(
      fc.property(answered, fc.boolean(), ({ since, legacy }, cacheable) => {
        const before = structuredClone(legacy);
        const envelope = { jsonrpc: '2.0', id: 1 };
        const old = { ...envelope, result: legacy };
        expect(schemaProblems(since, 'to-client', old, method)).toEqual([]);
        const result = completeResult(method, legacy, { serverInfo, cacheable });
        const message = { ...envelope, result };
        expect(schemaProblems('2026-07-28', 'to-client', message, method)).toEqual([]);
        expect(legacy).toEqual(before);
      }),
      { numRuns: 60 },
    );
  });

  test('survives, unknown members included', () => {
    fc.assert(
      fc.property(answered, ({ legacy }) => {
        const { tools: _tools, ttlMs: _ttl, cacheScope: _scope, _meta = {}, ...rest } = legacy;
        const result = completeResult(method, legacy, { serverInfo });
        expect(result).toMatchObject(rest);
        expect(result['_meta']).toEqual({ ...(_meta as JsonObject), [SERVER_INFO]: serverInfo });
      }),
      { numRuns: 60 },
    );
  });
});

test('no malformed input makes a translation throw, and translating twice changes nothing', () => {
  const nonsense = objectsOf([
    ...['tools', 'name', 'inputSchema', 'properties', 'x-mcp-header', 'enum', 'type', 'content'],
    ...['structuredContent', '_meta', 'completion', 'values', 'ttlMs', 'cacheScope', 'public'],
    ...[SERVER_INFO, RELATED_TASK, 'resultType', 'execution', 'constructor', 'toString'],
  ]);
  fc.assert(
    fc.property(fc.constantFrom(...METHODS), nonsense, (method, result) => {
      const once = completeResult(method, result, { serverInfo });
      expect(once['resultType']).toBe('complete');
      expect(completeResult(method, once, { serverInfo })).toEqual(once);
    }),
    { numRuns: 500 },
  );
});
