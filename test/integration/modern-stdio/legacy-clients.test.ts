/** Legacy clients in front of a server over stdio that speaks 2026-07-28 only: the official client of 2025-11-25, and the official server. */
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  ElicitRequestSchema,
  ResourceUpdatedNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { expect, test } from 'vitest';
import { OFFICIAL, modernStdio, textOf } from '../../fixtures/gateways/modern-stdio.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const ALICE = { headers: { authorization: 'Bearer alice' } };

async function legacyClient(url: string) {
  const client = new Client({ name: 'old', version: '1' }, { capabilities: { elicitation: {} } });
  client.setRequestHandler(ElicitRequestSchema, async ({ params }) => ({
    action: 'accept',
    content: { said: `yes to ${params.message}` },
  }));
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    requestInit: { headers: ALICE.headers },
  });
  await client.connect(transport as Parameters<Client['connect']>[0]);
  stopAfterTest(() => client.close());
  const say = async (name: string, args = {}) => {
    const { content } = await client.callTool({ name, arguments: args });
    return (content as { text: string }[])[0]?.text;
  };
  return { client, say };
}

// Rule modern-stdio-50: A legacy client shares the process of its caller with modern clients.
test('a legacy client is asked in the call, in the process that modern clients of its caller have', async () => {
  const { url, pids } = await modernStdio(OFFICIAL);
  const { client, say } = await legacyClient(url);
  expect(client.getServerVersion()).toMatchObject({ name: 'modern' });
  expect(client.getInstructions()).toBe('Read before use');
  expect(await say('ask', { what: 'sure?' })).toBe('sure?: yes to sure?, in round 1');
  expect(await say('pid')).toBe(await textOf(url, 'pid', {}, ALICE));
  const { tools } = await client.listTools();
  expect(tools.map(({ name }) => name)).toContain('ask');
  // The first is the greeting of the start.
  expect(await pids.all()).toHaveLength(2);
});

// Rule modern-stdio-10.
test('a legacy client hears of changes, also after the process was killed', async () => {
  const { url, pids } = await modernStdio(OFFICIAL);
  const { client, say } = await legacyClient(url);
  const told: string[] = [];
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
    told.push(params.uri);
  });
  await client.subscribeResource({ uri: 'memo://one' });
  await say('change');
  await expect.poll(() => told.length).toBe(1);
  process.kill((await pids.all()).at(-1)!, 'SIGKILL');
  await expect.poll(() => told.length).toBe(2);
  await say('change');
  await expect.poll(() => told.length).toBe(3);
});
