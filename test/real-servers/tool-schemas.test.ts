/** The official client with a validator of 2020-12, in front of a server whose SDK writes schemas of draft-07. */
import { AjvJsonSchemaValidator } from '@modelcontextprotocol/client/validators/ajv';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { Ajv2020 } from 'ajv/dist/2020.js';
import { expect, test } from 'vitest';
import { testGateway } from '../fixtures/gateways/test-gateway.ts';
import { startEverything } from '../fixtures/processes.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

const TOOL = { name: 'get-structured-content', arguments: { location: 'Chicago' } };

/** A client for which a schema of another dialect is none. */
async function connected(schemas: 'as-is' | 'compatible') {
  const server = await startEverything('streamableHttp');
  stopAfterTest(() => server.stop());
  const { url } = await testGateway(`${server.origin}/mcp`, { tools: { schemas } });
  const client = new Client(
    { name: 'strict', version: '1.0.0' },
    {
      versionNegotiation: { mode: { pin: '2026-07-28' } },
      jsonSchemaValidator: new AjvJsonSchemaValidator(new Ajv2020({ strict: false })),
    },
  );
  stopAfterTest(() => client.close());
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
}

// Rule lists-9.
test('a client that validates by 2020-12 uses a tool of draft-07 with `tools.schemas: compatible`', async () => {
  const client = await connected('compatible');
  const { tools } = await client.listTools();
  expect(JSON.stringify(tools)).not.toContain('draft-07');
  const { structuredContent } = await client.callTool(TOOL);
  expect(structuredContent).toHaveProperty('temperature');
});

// Rule lists-9.
test('and cannot without it', async () => {
  const client = await connected('as-is');
  const { tools } = await client.listTools();
  expect(JSON.stringify(tools)).toContain('draft-07');
  await expect(client.callTool(TOOL)).rejects.toThrow(/draft-07/);
});
