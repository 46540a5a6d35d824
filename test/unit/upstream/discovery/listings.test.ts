import { describe, expect, test } from 'vitest';
import type { JsonObject } from '../../../../src/protocol/json.ts';
import { readListings, type List } from '../../../../src/upstream/discovery/listings.ts';
import { UpstreamFailure } from '../../../../src/model/upstream-failure.ts';

const always =
  (result: JsonObject): List =>
  async () => ({ result });

test('only what is declared is asked for', async () => {
  const asked: string[] = [];
  const found = await readListings({ tools: {} }, async (method) => {
    asked.push(method);
    return { result: { tools: [] } };
  });
  expect(asked).toEqual(['tools/list']);
  expect(found.prompts).toEqual({ declared: false, items: [], truncated: false, problem: null });
});

test('pages are followed by their cursors', async () => {
  const pages: Record<string, JsonObject> = {
    '': { tools: [{ name: 'a' }], nextCursor: 'b' },
    b: { tools: [{ name: 'b' }] },
  };
  const { tools } = await readListings({ tools: {} }, async (_method, { cursor }) => ({
    result: pages[String(cursor ?? '')] ?? {},
  }));
  expect(tools.items.map(({ name }) => name)).toEqual(['a', 'b']);
});

test('a cursor that leads to itself ends the list', async () => {
  const list = always({ tools: [{ name: 'a' }], nextCursor: 'x' });
  const { tools } = await readListings({ tools: {} }, list);
  expect(tools).toMatchObject({ truncated: false, problem: null });
  expect(tools.items).toHaveLength(2);
});

test('cursors without an end are followed twenty times', async () => {
  let page = 0;
  const { tools } = await readListings({ tools: {} }, async () => ({
    result: { tools: [], nextCursor: String((page += 1)) },
  }));
  expect(page).toBe(20);
  expect(tools.truncated).toBe(true);
});

test('a description gives its first line, and annotations their hints', async () => {
  const annotations = { readOnlyHint: true, idempotentHint: 'yes' };
  const list = always({
    tools: [{ name: 'a', description: '\n  First. \r\nSecond.', annotations }],
  });
  expect((await readListings({ tools: {} }, list)).tools.items).toEqual([
    { name: 'a', description: 'First.', readOnly: true, idempotent: false },
  ]);
});

test('a value that is not an entry is passed over, and one that is not a string is empty', async () => {
  const list = always({ prompts: [null, 'x', { name: 7, description: {} }] });
  expect((await readListings({ prompts: {} }, list)).prompts.items).toEqual([
    { name: '', description: null },
  ]);
});

describe('what goes wrong is said with what was read before', () => {
  test.each<[string, List, string]>([
    [
      'an error',
      async () => ({ error: { code: -32603, message: 'secret' } }),
      'JSON-RPC error -32603',
    ],
    ['a strange result', always({}), 'the result has no "tools"'],
    [
      'silence',
      () => Promise.reject(new UpstreamFailure('upstream_timeout', '', { mayHaveActed: true })),
      'timed out',
    ],
    [
      'a refusal',
      () =>
        Promise.reject(
          new UpstreamFailure('unauthorized', '', { mayHaveActed: false, httpStatus: 403 }),
        ),
      'HTTP 403',
    ],
  ])('%s', async (_name, list, problem) => {
    expect((await readListings({ tools: {} }, list)).tools.problem).toBe(problem);
  });

  test('but resources without templates are no problem', async () => {
    const found = await readListings({ resources: {} }, async (method) =>
      method === 'resources/list'
        ? { result: { resources: [{ uri: 'a:b', name: 'a' }] } }
        : { error: { code: -32601, message: 'Method not found' } },
    );
    expect(found.resources.items).toEqual([{ uri: 'a:b', name: 'a', description: null }]);
    expect(found.resourceTemplates.problem).toBeNull();
  });
});

// Rule lists-10.
test('a tool tells whether one of its schemas keeps the name of an older dialect', async () => {
  const $schema = 'http://json-schema.org/draft-07/schema#';
  const tools = [
    { name: 'new', inputSchema: {} },
    { name: 'older', inputSchema: { $schema } },
    { name: 'left', inputSchema: { $schema }, outputSchema: { $schema, dependencies: {} } },
  ];
  const found = await readListings({ tools: {} }, async () => ({ result: { tools } }));
  expect(found.tools.items.map(({ olderDialect }) => olderDialect)).toEqual([
    undefined,
    'taken-off',
    'left',
  ]);
});
