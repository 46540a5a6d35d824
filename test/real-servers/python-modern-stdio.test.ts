/**
 * Version 2 of the official Python SDK over stdio, which speaks 2026-07-28 with whoever does not begin with `initialize`, so that
 * `upstream.era: modern` has its requests passed to it. Runs where `MCP_PYTHON_2` names a Python that has it.
 */
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { describe, expect, test } from 'vitest';
import { testGateway } from '../fixtures/gateways/test-gateway.ts';
import { PYTHON_2_STDIO } from '../fixtures/real-servers/python/python-server.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

async function conversation(transport: StdioClientTransport | StreamableHTTPClientTransport) {
  const client = new Client(
    { name: 'official', version: '1.0.0' },
    { versionNegotiation: { mode: { pin: '2026-07-28' } } },
  );
  await client.connect(transport);
  stopAfterTest(() => client.close());
  const call = (name: string, args = {}) =>
    client.callTool({ name, arguments: args }).catch((error: unknown) => String(error));
  const listener = await client.listen({ toolsListChanged: true });
  await listener.close();
  return {
    server: client.getServerVersion(),
    capabilities: client.getServerCapabilities(),
    honored: listener.honoredFilter,
    tools: await client.listTools(),
    prompts: await client.listPrompts(),
    resources: await client.listResources(),
    added: await call('add', { a: 1, b: 2 }),
    wrong: await call('add', { a: 'x' }),
    failed: await call('fail'),
    counted: await call('count', { steps: 2 }),
    prompt: await client.getPrompt({ name: 'review', arguments: { code: 'x' } }),
  };
}

// Rule modern-stdio-22.
describe('a server of version 2 of the Python SDK over stdio', { tags: ['python-2'] }, () => {
  test('gives the official client what it gives directly, if its era is modern', async () => {
    const overrides = { upstream: { era: 'modern' } } as const;
    const gateway = await testGateway(PYTHON_2_STDIO, overrides);
    const url = new URL(gateway.url);
    const through = await conversation(new StreamableHTTPClientTransport(url));
    const direct = await conversation(new StdioClientTransport(PYTHON_2_STDIO));
    expect(through).toEqual(direct);
    expect(JSON.stringify(direct.added)).toContain('3');
  });
});
