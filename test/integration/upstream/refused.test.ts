/** Servers that refuse the gateway for another reason than missing credentials, such as its `Host`. */
import { expect, test } from 'vitest';
import { callTool, send } from '../../fixtures/clients/modern-client.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { INITIALIZE_RESULT, json, ScriptedServer } from '../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const NAME = 'localhost:8931';

/** Accepts requests with one `Host` only, as Playwright's server does. */
async function checkingHost(said = `Access is only allowed at ${NAME}`): Promise<ScriptedServer> {
  const server = await ScriptedServer.start(({ method, headers, body }, response) => {
    if (headers.host !== NAME) return void response.writeHead(403).end(said);
    if (method !== 'POST') return void response.writeHead(method === 'GET' ? 405 : 200).end();
    if (body.id === undefined) return void response.writeHead(202).end();
    const of = { jsonrpc: '2.0', id: body.id };
    if (body.method === 'initialize') {
      json(response, 200, { ...of, result: INITIALIZE_RESULT }, { 'mcp-session-id': 's' });
    } else if (body.method === 'tools/call') {
      json(response, 200, { ...of, result: { content: [{ type: 'text', text: 'done' }] } });
    } else {
      json(response, 400, { ...of, error: { code: -32601, message: 'Method not found' } });
    }
  });
  stopAfterTest(() => server.stop());
  return server;
}

// Rule detection-5.
test('a server that accepts another Host only is logged with its words, and refuses clients truthfully', async () => {
  const server = await checkingHost(
    `Access\u001b[1m is only\n allowed at ${NAME}, not for key-123456`,
  );
  const gateway = await testGateway(server.url, {
    upstream: { headers: { 'x-key': 'key-123456' } },
  });
  expect(gateway.log.named('upstream.refused')).toEqual([
    {
      route: 'mcp',
      status: 403,
      said: `Access [1m is only allowed at ${NAME}, not for ***`,
    },
  ]);
  const { status, response } = await send(gateway.url, 'server/discover');
  expect(status).toBe(403);
  expect(response.error.message).toBe('The server refused this request, or its credentials');
});

test('upstream.hostHeader is the Host of every request', async () => {
  const server = await checkingHost();
  const gateway = await testGateway(server.url, { upstream: { hostHeader: NAME } });
  const { response } = await callTool(gateway.url, 'echo');
  expect(response.result.content).toEqual([{ type: 'text', text: 'done' }]);
  await fetch(new URL('/health', gateway.url));
  await fetch(gateway.url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: '{"jsonrpc":"2.0","id":1,"method":"ping"}',
  });
  expect(server.received.map(({ path }) => path)).toContain('/health');
  expect(server.methods()).toContain('ping');
  expect(new Set(server.received.map(({ headers }) => headers.host))).toEqual(new Set([NAME]));
});
