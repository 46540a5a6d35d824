/** What servers of every revision list and return, and what of it reaches a modern client. */
import { describe, expect, test } from 'vitest';
import { callTool, send } from '../fixtures/clients/modern-client.ts';
import {
  blocksOf,
  promptOf,
  resourceOf,
  resultOf,
  selfOf,
  templateOf,
  toolOf,
} from '../fixtures/revisions/content.ts';
import { ITEM_NAMES, TOOL_NAMES } from '../fixtures/revisions/sdk.ts';
import { revisionStage, textOf } from '../fixtures/revisions/testbed.ts';
import { SERVERS, TITLE } from '../fixtures/revisions/table.ts';

describe.each(SERVERS)(TITLE, (shape) => {
  const { revision } = shape;
  const stage = revisionStage(shape);
  const self = selfOf(revision);
  const ofServer = { _meta: { 'io.modelcontextprotocol/serverInfo': self.serverInfo } };
  const lists = [
    { method: 'tools/list', member: 'tools', names: TOOL_NAMES, item: toolOf },
    { method: 'prompts/list', member: 'prompts', names: ITEM_NAMES, item: promptOf },
    { method: 'resources/list', member: 'resources', names: ITEM_NAMES, item: resourceOf },
    {
      method: 'resources/templates/list',
      member: 'resourceTemplates',
      names: ITEM_NAMES,
      item: templateOf,
    },
  ];

  // Rule lists-1 (2025-11-25 pagination, "Implementation Guidelines"): A list is read to its end in one session, and
  // returned without `nextCursor`.
  // Rule lists-6.
  test.each(lists)(
    '$method has every page, and each item whole',
    async ({ method, member, names, item }) => {
      const { response } = await send(stage.url, method);
      const items = names.map((name) => {
        // Of the legacy tasks, which a modern client does not know.
        const { execution: _tasks, ...rest } = item(revision, name) as Record<string, unknown>;
        return rest;
      });
      expect(response.result).toEqual({
        resultType: 'complete',
        [member]: items,
        ttlMs: 0,
        cacheScope: 'private',
        ...ofServer,
      });
      expect(stage.server.all(method).map(({ body }) => body.params?.cursor)).toEqual([
        undefined,
        '',
        ...names.slice(2).map((_name, at) => String(at + 2)),
      ]);
    },
  );

  // Rules responses-6, wire-1.
  test('tools/call returns every block, structured content and what nobody knows', async () => {
    const { response } = await callTool(stage.url, 'everything');
    expect(response.result).toEqual({
      ...resultOf(revision),
      resultType: 'complete',
      _meta: { ...resultOf(revision)._meta, ...ofServer._meta },
    });
  });

  // Rule results-4.
  test('a tool that fails returns its failure as a result', async () => {
    const { response } = await callTool(stage.url, 'fail');
    expect(response.result).toMatchObject({
      isError: true,
      content: [{ type: 'text', text: 'It did not work' }],
    });
  });

  // Rule results-4.
  test('prompts/get returns its messages with every block', async () => {
    const params = { name: 'one', arguments: { who: 'Ada' } };
    const { response } = await send(stage.url, 'prompts/get', params);
    expect(response.result).toEqual({
      resultType: 'complete',
      description: 'For Ada',
      messages: blocksOf(revision).map((content) => ({ role: 'user', content })),
      ...ofServer,
    });
  });

  test('resources/read returns texts and bytes, to be kept by nobody', async () => {
    const uri = 'test://one';
    const { response } = await send(stage.url, 'resources/read', { uri });
    expect(response.result).toEqual({
      resultType: 'complete',
      contents: [
        { uri, mimeType: 'text/plain', text: 'a text' },
        { uri, mimeType: 'image/png', blob: 'iVBORw0KGgo=' },
      ],
      ttlMs: 0,
      cacheScope: 'private',
      ...ofServer,
    });
  });

  // Rule envelope-3 (basic/index, "`_meta`"): Trace context and vendors' members of `_meta` go upstream, other
  // members that MCP reserves do not. The gateway replaces the progress token.
  test('a call carries arguments, trace context and vendor members, and nothing of the modern envelope', async () => {
    const trace = {
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      tracestate: 'vendor=1',
      baggage: 'user=ada',
      'com.example/of': 'the client',
    };
    const args = { a: 'text', nested: { list: [1, null, true] } };
    const done = await callTool(stage.url, 'echo', { arguments: args }, { meta: trace });
    expect(JSON.parse(textOf(done))).toEqual({ arguments: args, _meta: trace });
  });
});
