/** The official client finds its way from a refusal to a token by itself, with the metadata of the gateway. */
import {
  Client,
  ClientCredentialsProvider,
  StreamableHTTPClientTransport,
} from '@modelcontextprotocol/client';
import { expect, test } from 'vitest';
import { startGateway } from '../../../src/app/gateway.ts';
import { configOf } from '../../unit/config/problems-of.ts';
import { RecordedLog } from '../../fixtures/gateways/gateway.ts';
import { AuthorizationServer, SECRET } from '../../fixtures/servers/authorization-server.ts';
import { greeter, legacyServer } from '../../fixtures/gateways/replica-testbed.ts';
import { freePort } from '../../fixtures/processes.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

/** A gateway with a configuration file as an operator writes it. */
async function gatewayFor(requiredScopes: readonly string[]) {
  const issuer = await AuthorizationServer.start();
  const legacy = await legacyServer({ tools: greeter().tools });
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/mcp`;
  const identity = {
    source: 'jwt',
    issuer: issuer.issuer,
    audiences: [url],
    jwks: { url: issuer.jwksUrl.href },
    requiredScopes,
    resourceMetadata: { resource: url, scopesSupported: ['mcp:tools'] },
  };
  const routes = [{ upstream: { url: legacy.url } }];
  const file = { listen: `127.0.0.1:${port}`, admin: 'off', routes, identity };
  const gateway = await startGateway(configOf(JSON.stringify(file)), { log: new RecordedLog() });
  stopAfterTest(() => gateway.close());
  return { issuer, gateway };
}

function clientOf(issuer: AuthorizationServer, url: string, scope?: string) {
  const client = new Client(
    { name: 'official', version: '1' },
    {
      versionNegotiation: { mode: { pin: '2026-07-28' } },
      capabilities: { elicitation: { form: {} } },
    },
  );
  client.setRequestHandler('elicitation/create', () => ({
    action: 'accept',
    content: { name: 'Ada' },
  }));
  const authProvider = new ClientCredentialsProvider({
    clientId: 'ada',
    clientSecret: SECRET,
    expectedIssuer: issuer.issuer,
    ...(scope === undefined ? {} : { scope }),
  });
  stopAfterTest(() => client.close());
  return { client, transport: new StreamableHTTPClientTransport(new URL(url), { authProvider }) };
}

// Rule tokens-6.
// Rule tokens-10.
test('the official client gets a token after the first 401, and calls a tool that asks', async () => {
  const { issuer, gateway } = await gatewayFor(['mcp:tools']);
  const { client, transport } = clientOf(issuer, gateway.url);
  await client.connect(transport);
  const done = await client.callTool({ name: 'greet', arguments: {} });
  expect(done.content).toEqual([{ type: 'text', text: 'Hello Ada' }]);
});

// Rule tokens-3.
test('the official client steps up to the scopes of a 403', async () => {
  const { issuer, gateway } = await gatewayFor(['mcp:tools', 'mcp:admin']);
  const { client, transport } = clientOf(issuer, gateway.url, 'mcp:tools');
  await client.connect(transport);
  const done = await client.callTool({ name: 'greet', arguments: {} });
  expect(done.content).toEqual([{ type: 'text', text: 'Hello Ada' }]);
});
