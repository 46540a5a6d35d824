/** The official client in front of the official server over stdio that speaks 2026-07-28 only: all as directly. */
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const SERVER = fileURLToPath(
  new URL('../../fixtures/servers/modern-stdio-server.js', import.meta.url),
);
const COMMAND = { command: process.execPath, args: [SERVER, 'reject'] };

async function connected(transport: StdioClientTransport | StreamableHTTPClientTransport) {
  const client = new Client(
    { name: 'official', version: '1.0.0' },
    {
      versionNegotiation: { mode: { pin: '2026-07-28' } },
      capabilities: { elicitation: { form: {} } },
    },
  );
  client.setRequestHandler('elicitation/create', async ({ params }) => ({
    action: 'accept',
    content: { said: `yes to ${params.message}` },
  }));
  await client.connect(transport);
  stopAfterTest(() => client.close());
  return client;
}

/** Uses what a server offers. @returns what the client got */
async function conversation(client: Client): Promise<object> {
  const told: string[] = [];
  client.setNotificationHandler('notifications/tools/list_changed', async () => {
    told.push('tools');
  });
  client.setNotificationHandler('notifications/resources/updated', async ({ params }) => {
    told.push(params.uri);
  });
  const call = (name: string, args = {}) =>
    client.callTool({ name, arguments: args }).catch((error: unknown) => String(error));
  const listener = await client.listen({
    toolsListChanged: true,
    resourceSubscriptions: ['memo://one'],
  });
  const got = {
    server: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    instructions: client.getInstructions(),
    tools: await client.listTools(),
    prompts: await client.listPrompts(),
    resources: await client.listResources(),
    templates: await client.listResourceTemplates(),
    honored: listener.honoredFilter,
    echo: await call('echo', { said: 'a\nb\u2028c' }),
    asked: await call('ask', { what: 'sure?' }),
    failed: await call('fail'),
    unknown: await call('no-such-tool'),
    invalid: await call('echo', { said: 1 }),
    header: await call('sql', { region: 'eu' }),
    prompt: await client.getPrompt({ name: 'greet', arguments: { name: 'Ada' } }),
    resource: await client.readResource({ uri: 'memo://two' }),
    missing: await client
      .readResource({ uri: 'nothing://here' })
      .catch((error: unknown) => String(error)),
    completed: await client.complete({
      ref: { type: 'ref/prompt', name: 'greet' },
      argument: { name: 'name', value: 'A' },
    }),
    changed: await call('change'),
  };
  await expect.poll(() => told.length).toBe(2);
  await listener.close();
  return { ...got, told: told.toSorted() };
}

test('what the official client gets is what it gets directly', async () => {
  const gateway = await testGateway({ command: COMMAND.command, args: COMMAND.args });
  const through = await conversation(
    await connected(new StreamableHTTPClientTransport(new URL(gateway.url))),
  );
  const direct = await conversation(await connected(new StdioClientTransport(COMMAND)));
  expect(through).toEqual(direct);
  expect(JSON.stringify(direct)).toContain('in round 1');
});
