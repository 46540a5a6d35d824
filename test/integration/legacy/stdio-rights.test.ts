/** Rules on who may use what, for legacy clients in front of a server over stdio: each way around them. */
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { EventReader, initializeOf, LegacyHttpClient } from '../../fixtures/clients/legacy-http.ts';
import { allow } from '../../fixtures/gateways/rights-testbed.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';

const SERVER = fileURLToPath(new URL('../../fixtures/servers/stdio-server.js', import.meta.url));
const LIST = { jsonrpc: '2.0', id: 'list', method: 'tools/list' };

function restricted() {
  const stdio = { command: process.execPath, args: [SERVER, 'plain'] };
  return testGateway(stdio, { tools: allow('pid', 'announce') });
}

// Rule rights-1.
test('a tool that is not allowed does not exist, however it is called', async () => {
  const { url } = await restricted();
  const client = await LegacyHttpClient.open(url);
  expect((await client.call('pid')).status).toBe(200);
  const { status, body } = await client.call('exit');
  expect([status, body.error]).toMatchObject([
    200,
    { code: -32602, message: 'Unknown tool: exit' },
  ]);
  const twice =
    '{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"pid","name":"exit"}}';
  const headers = { 'content-type': 'application/json', ...client.headers };
  expect((await fetch(url, { method: 'POST', headers, body: twice })).status).toBe(400);
  expect(
    (await client.post({ method: 'tools/call', params: { name: 'exit' }, jsonrpc: '2.0' })).status,
  ).toBe(400);
  expect((await client.call('pid')).status).toBe(200);
});

// Rule rights-4.
test('a batch is refused where there are rules', async () => {
  const { url } = await restricted();
  const client = new LegacyHttpClient(url);
  await client.initialize(initializeOf({}, '2025-03-26'));
  expect((await client.post([client.callOf('exit')])).status).toBe(400);
  expect((await client.call('pid')).status).toBe(200);
});

// Rule rights-3.
test.each([
  ['as one JSON object', 'application/json'],
  ['on a stream', 'text/event-stream'],
])('a list has what is allowed only, %s', async (_how, accept) => {
  const { url } = await restricted();
  const client = await LegacyHttpClient.open(url);
  const { headers, body } = await client.post(LIST, { accept });
  expect(headers.get('content-type')).toBe(accept);
  expect(body.result).toEqual({
    tools: [
      { name: 'pid', inputSchema: { type: 'object' } },
      { name: 'announce', inputSchema: { type: 'object' } },
    ],
  });
});

// Rule rights-3.
test('a list on a stream that is resumed has what is allowed only', async () => {
  const { url } = await restricted();
  const client = await LegacyHttpClient.open(url);
  const stream = new EventReader(await client.send(LIST, { accept: 'text/event-stream' }));
  const first = await stream.next();
  const [number] = (first?.id ?? '').split('.');
  const resumed = await client.listen({ 'last-event-id': `${number}.0` });
  expect((await resumed.next())?.message.result).toEqual(first?.message.result);
});
