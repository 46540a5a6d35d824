/** Whether a server over stdio learns the roots of legacy clients: some take them for the folders that they may use. */
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { expect, test } from 'vitest';
import { initializeOf, LegacyHttpClient } from '../../fixtures/clients/legacy-http.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const SERVER = fileURLToPath(new URL('../../fixtures/servers/folders-server.js', import.meta.url));

async function before(roots: 'none' | 'caller') {
  const stdio = { command: process.execPath, args: [SERVER, '/srv'], roots };
  return testGateway(stdio);
}

async function connected(roots: 'none' | 'caller') {
  const { url } = await before(roots);
  const capabilities = { roots: { listChanged: true }, elicitation: {} };
  const client = new Client({ name: 'legacy', version: '1.0.0' }, { capabilities });
  stopAfterTest(() => client.close());
  let asked = 0;
  client.setRequestHandler(ListRootsRequestSchema, () => {
    asked += 1;
    return { roots: [{ uri: 'file:///' }] };
  });
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  const folders = async (args = {}) => {
    const { content } = await client.callTool({ name: 'folders', arguments: args });
    return JSON.parse((content as { text: string }[])[0]?.text ?? '') as unknown;
  };
  return { client, folders, asked: () => asked };
}

// Rule face-30: With `upstream.roots: none`, the default, the server does not learn the roots of legacy clients, and
// its `roots/list` gets -32601.
test('a server does not learn the roots of its client, whatever it does to learn them', async () => {
  const { client, folders, asked } = await connected('none');
  const kept = { folders: ['/srv'], declared: { elicitation: { form: {} } } };
  expect(await folders()).toEqual(kept);
  await client.sendRootsListChanged();
  expect(await folders()).toEqual(kept);
  expect(await folders({ ask: true })).toEqual(kept);
  expect(asked()).toBe(0);
});

// Rule face-30.
test('not even a client that spells them otherwise, or hides a notice in a batch, has it learn them', async () => {
  const { url } = await before('none');
  const client = new LegacyHttpClient(url);
  await client.initialize(initializeOf({ Roots: {}, sampling: {} }, '2025-03-26'));
  const notice = { jsonrpc: '2.0', method: 'notifications/roots/list_changed' };
  expect((await client.post([notice, notice])).status).toBe(202);
  const told = JSON.parse(await client.text('folders')) as unknown;
  expect(told).toEqual({ folders: ['/srv'], declared: { sampling: {} } });
});

// Rule face-30.
test('a server learns them with `caller`', async () => {
  const { client, folders } = await connected('caller');
  await expect
    .poll(async () => (await folders()) as object)
    .toMatchObject({
      folders: ['file:///'],
      declared: { roots: { listChanged: true } },
    });
  await client.sendRootsListChanged();
  expect(await folders()).toMatchObject({ folders: ['file:///'] });
});
