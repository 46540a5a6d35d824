/** MCP Apps, an extension that adds nothing to the wire but what both sides declare, and `ui://` resources. */
import { expect, test } from 'vitest';
import { gatewayBefore } from '../../fixtures/gateways/test-gateway.ts';
import { send } from '../../fixtures/clients/modern-client.ts';
import { INITIALIZE_RESULT, json, ScriptedServer } from '../../fixtures/servers/scripted-server.ts';

const UI = 'io.modelcontextprotocol/ui';
const CLIENT = {
  elicitation: {},
  extensions: { [UI]: { mimeTypes: ['text/html;profile=mcp-app'] } },
};
const CLOCK = 'ui://clock/app.html';
const SETTINGS = { readTool: 'settings.read', updateTool: 'settings.update' };
const PLAIN_TOOL = { name: 'time', inputSchema: { type: 'object' } };
const PAGE = {
  uri: CLOCK,
  mimeType: 'text/html;profile=mcp-app',
  text: '<!doctype html>',
  _meta: { ui: { csp: { connectDomains: ['https://time.example'] }, prefersBorder: true } },
};

/** A server that has a tool with a view, for clients that can show one. */
async function clockServer(extensions: string[] = []) {
  const canShow = new Set<unknown>();
  let sessions = 0;
  const server = await ScriptedServer.start(({ method, headers, body }, response) => {
    if (method !== 'POST') return void response.writeHead(method === 'GET' ? 405 : 200).end();
    if (body.id === undefined) return void response.writeHead(202).end();
    const reply = (result: object, more = {}) =>
      json(response, 200, { jsonrpc: '2.0', id: body.id, result }, more);
    if (body.method === 'initialize') {
      const session = `session-${(sessions += 1)}`;
      if (body.params.capabilities.extensions?.[UI] !== undefined) canShow.add(session);
      const capabilities = {
        tools: {},
        resources: {},
        extensions: { [UI]: {}, 'com.example/x': {}, 'com.example/named': { a: 1 } },
        experimental: { 'openai/settings': SETTINGS, 'com.example/y': {} },
      };
      return reply({ ...INITIALIZE_RESULT, capabilities }, { 'mcp-session-id': session });
    }
    const shows = canShow.has(headers['mcp-session-id']);
    const tool = shows ? { ...PLAIN_TOOL, _meta: { ui: { resourceUri: CLOCK } } } : PLAIN_TOOL;
    return reply(body.method === 'tools/list' ? { tools: [tool] } : { contents: [PAGE] });
  });
  const { gateway } = await gatewayBefore(server, {
    transport: 'streamable-http',
    upstream: { extensions },
  });
  return { server, url: gateway.url };
}

// Rule handshake-6 (OpenAI Form Elicitation): MCP Apps are declared, and OpenAI's forms if the client has plain forms
// too. `tasks`, `experimental` and other extensions never are.
test('a client that can show views is offered them, and another one is not', async () => {
  const { url } = await clockServer();
  const tools = async (capabilities: object) =>
    (await send(url, 'tools/list', {}, { capabilities })).response.result.tools;
  expect(await tools(CLIENT)).toEqual([{ ...PLAIN_TOOL, _meta: { ui: { resourceUri: CLOCK } } }]);
  expect(await tools({ elicitation: {} })).toEqual([PLAIN_TOOL]);
});

// Rule discover-4.
test('what the client declares reaches the server, and what the server declares the client', async () => {
  const { server, url } = await clockServer();
  await send(url, 'tools/list', {}, { capabilities: CLIENT });
  const told = server.received.filter(({ body }) => body?.method === 'initialize').at(-1);
  expect(told?.body.params.capabilities.extensions).toEqual(CLIENT.extensions);
  const { response } = await send(url, 'server/discover');
  expect(response.result.capabilities.extensions).toEqual({
    [UI]: {},
    'openai/settings': SETTINGS,
    'io.modelcontextprotocol/tasks': {},
  });
});

// Rule discover-4.
test('what the operator names is told to clients, and nothing else that nobody knows', async () => {
  const { url } = await clockServer(['com.example/named', 'com.example/missing']);
  const { response, text } = await send(url, 'server/discover');
  expect(response.result.capabilities.extensions).toMatchObject({ 'com.example/named': { a: 1 } });
  expect(text).not.toMatch(/com\.example\/(x|y|missing)/);
});

test('what a client makes up in its settings opens no sessions of its own', async () => {
  const { server, url } = await clockServer();
  const list = (settings: object) =>
    send(url, 'tools/list', {}, { capabilities: { extensions: { [UI]: settings } } });
  const views = ['text/html;profile=mcp-app'];
  await list({ mimeTypes: views });
  const sessions = () => server.methods().filter((method) => method === 'initialize').length;
  const before = sessions();
  for (const made of ['a', 'b', 'c']) await list({ mimeTypes: [...views, made], [made]: made });
  expect(sessions()).toBe(before);
});

test('a view is read as the server has it', async () => {
  const { url } = await clockServer();
  const { response } = await send(url, 'resources/read', { uri: CLOCK }, { capabilities: CLIENT });
  expect(response.result.contents).toEqual([PAGE]);
});
