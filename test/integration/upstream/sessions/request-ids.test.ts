/** Ids of our requests, at servers that hold less than a JSON-RPC id may be. */
import { expect, test } from 'vitest';
import { callTool, send } from '../../../fixtures/clients/modern-client.ts';
import { gatewayBefore } from '../../../fixtures/gateways/test-gateway.ts';
import {
  INITIALIZE_RESULT,
  json,
  ScriptedServer,
} from '../../../fixtures/servers/scripted-server.ts';

// Rule wire-3.
test.each<[string, (id: number) => number]>([
  ['without a sign', (id) => id % 2 ** 32],
  ['with a sign', (id) => id | 0],
  ['to the largest that there is', () => 2 ** 32 - 1],
])('a server that cuts integers to 32 bits, %s, is asked under texts', async (_how, cut) => {
  const server = await ScriptedServer.start(({ method, body }, response) => {
    if (method === 'GET') return void response.writeHead(405).end();
    if (method === 'DELETE') return void response.writeHead(200).end();
    if (body.id === undefined) return void response.writeHead(202).end();
    const id = typeof body.id === 'number' ? cut(body.id) : body.id;
    const results: Record<string, object> = {
      initialize: INITIALIZE_RESULT,
      'tools/list': { tools: [] },
      'tools/call': { content: [{ type: 'text', text: 'done' }] },
    };
    const result = results[body.method];
    const headers = { 'mcp-session-id': 'session-1' };
    if (result === undefined)
      json(response, 400, { jsonrpc: '2.0', id, error: { code: -32601, message: 'unknown' } });
    else json(response, 200, { jsonrpc: '2.0', id, result }, headers);
  });
  const { gateway } = await gatewayBefore(server);
  const called = await Promise.all([callTool(gateway.url, 'do'), callTool(gateway.url, 'do')]);
  expect(called.map(({ response }) => response.result?.content[0].text)).toEqual(['done', 'done']);
  expect((await send(gateway.url, 'tools/list')).response.result.tools).toEqual([]);
  const calls = server.received.filter(({ body }) => body?.method === 'tools/call');
  const ids: unknown[] = calls.map(({ body }) => body.id);
  expect(new Set(ids).size).toBe(2);
  // A server of the Ruby SDK takes texts of these characters only.
  for (const id of ids) expect(id).toEqual(expect.stringMatching(/^[a-zA-Z0-9_-]{20,}$/));
  expect(calls.map(({ body }) => body.params._meta.progressToken)).toEqual(ids);
});
