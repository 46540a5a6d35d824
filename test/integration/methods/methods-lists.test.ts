/** Lists of a legacy server, which has them in pages, for clients who get them whole. */
import { describe, expect, test } from 'vitest';
import { answering, countOf, replies } from '../../fixtures/gateways/method-testbed.ts';
import { send, type SendOptions } from '../../fixtures/clients/modern-client.ts';
import { json } from '../../fixtures/servers/scripted-server.ts';

const named = (count: number, first = 0) =>
  Array.from({ length: count }, (_, at) => ({
    name: `tool-${first + at}`,
    inputSchema: { type: 'object' },
  }));
describe('a list', () => {
  // Rule lists-2 (pagination, "Error Handling"): A request with a cursor gets -32602 with `data.reason`
  // `unknown_cursor`.
  test('has no pages of its own, so that every cursor is refused and no server is asked', async () => {
    const { server, url } = await answering({ 'tools/list': replies({ tools: [] }) });
    for (const method of ['tools/list', 'prompts/list', 'resources/list']) {
      const { status, response } = await send(url, method, { cursor: 'next' });
      expect(status).toBe(200);
      expect(response.error).toMatchObject({ code: -32602, data: { reason: 'unknown_cursor' } });
      expect(server.methods()).not.toContain(method);
    }
  });

  // Rule lists-3.
  test.each([
    [5_000, 'tools'],
    [5_001, 'error'],
  ])('of %i items is given whole or not at all: %s', async (count, member) => {
    const { url } = await answering({
      'tools/list': ({ body }, response) => {
        const second = body.params?.cursor === 'more';
        const tools = second ? named(count - 3_000, 3_000) : named(3_000);
        const result = second ? { tools } : { tools, nextCursor: 'more' };
        json(response, 200, { jsonrpc: '2.0', id: body.id, result });
      },
    });
    const { response } = await send(url, 'tools/list');
    if (member === 'tools') expect(response.result.tools).toHaveLength(count);
    else expect(response.error).toMatchObject({ code: -32603, data: { reason: 'list_too_long' } });
  });

  // Rule lists-3.
  test('of far more items in one page is refused for that', async () => {
    const tools = Array(400_000).fill(0);
    const { url } = await answering({ 'tools/list': replies({ tools }) });
    const { response } = await send(url, 'tools/list');
    expect(response.error).toMatchObject({ code: -32603, data: { reason: 'list_too_long' } });
  });

  // Rule lists-3: A list of more than 50 pages or 5000 items gets -32603 with `data.reason` `list_too_long`. A failed
  // page fails the list.
  test('of 50 pages is batched, and of more is refused', async () => {
    let pages = 50;
    const { server, url } = await answering({
      'tools/list': ({ body }, response) => {
        const page = Number(body.params?.cursor ?? 1);
        const more = page < pages ? { nextCursor: String(page + 1) } : {};
        const result = { tools: named(1, page), ...more };
        json(response, 200, { jsonrpc: '2.0', id: body.id, result });
      },
    });
    expect((await send(url, 'tools/list')).response.result.tools).toHaveLength(50);
    pages = 51;
    const { response } = await send(url, 'tools/list');
    expect(response.error.data.reason).toBe('list_too_long');
    expect(countOf(server, 'tools/list')).toBe(100);
  });

  // Rule lists-3.
  test('of which a page fails is that failure, and never half a list', async () => {
    const { url } = await answering({
      'tools/list': ({ body }, response) => {
        if (body.params?.cursor === undefined) {
          const result = { tools: named(1), nextCursor: 'more' };
          return json(response, 200, { jsonrpc: '2.0', id: body.id, result });
        }
        const error = { code: -32603, message: 'no more' };
        json(response, 200, { jsonrpc: '2.0', id: body.id, error });
      },
    });
    const { response } = await send(url, 'tools/list');
    expect(response).toMatchObject({ error: { code: -32603, message: 'no more' } });
    expect(response).not.toHaveProperty('result');
  });

  // Rule lists-4 (tools, "Capabilities"): A list is requested with the capabilities and credentials of its request.
  // Rules lists-1, sessions-7.
  test('asks all its pages in one session, and takes another for another kind of client', async () => {
    const { server, url } = await answering({
      'tools/list': ({ body }, response) => {
        const more = body.params?.cursor === undefined ? { nextCursor: '' } : {};
        const result = { tools: named(1), ...more };
        json(response, 200, { jsonrpc: '2.0', id: body.id, result });
      },
    });
    const list = (options: SendOptions) => send(url, 'tools/list', {}, options);
    const before = server.received.length;
    await list({ capabilities: {} });
    await list({ capabilities: {} });
    await list({ capabilities: { roots: {} } });
    const declared = server.received
      .slice(before)
      .filter(({ body }) => body?.method === 'initialize')
      .map(({ body }) => body.params.capabilities);
    expect(declared).toEqual([{}, { roots: {} }]);
  });
});
