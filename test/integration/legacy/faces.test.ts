/**
 * Any client in front of any server: official clients of each era, in front of the official server in each form in which servers are
 * met. What a client gets depends on neither.
 */
import { fileURLToPath } from 'node:url';
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as LegacyStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as LegacyHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, test } from 'vitest';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { startServer } from '../../fixtures/processes.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const SERVER = fileURLToPath(new URL('../../fixtures/servers/faces-server.js', import.meta.url));
const INFO = { name: 'official', version: '1.0.0' };
const CAPABILITIES = { elicitation: { form: {} } };
const ANSWER = { action: 'accept' as const, content: { name: 'Ada' } };

/** Where a client connects: to a URL, or to a process that it starts itself. */
type Place = string | { readonly command: string; readonly args: string[] };

/** What a client gets of a server, in whatever form that is. */
const ALL = {
  server: 'faces',
  tools: ['echo', 'ask', 'fail'],
  echo: '{"said":"hello"}',
  ask: expect.stringContaining('"name":"Ada"'),
  fail: [true, '"it does not work"'],
  resource: 'Buy milk',
};

async function modern(place: Place, pin = true) {
  const client = new Client(INFO, {
    capabilities: CAPABILITIES,
    ...(pin && { versionNegotiation: { mode: { pin: '2026-07-28' } } }),
  });
  client.setRequestHandler('elicitation/create', () => ANSWER);
  const overHttp = (url: string) => new StreamableHTTPClientTransport(new URL(url));
  await client.connect(
    typeof place === 'string' ? overHttp(place) : new StdioClientTransport(place),
  );
  stopAfterTest(() => client.close());
  return gotBy(client);
}

async function legacy(place: Place) {
  const client = new LegacyClient(INFO, { capabilities: CAPABILITIES });
  client.setRequestHandler(ElicitRequestSchema, async () => ANSWER);
  const transport =
    typeof place === 'string' ? new LegacyHttp(new URL(place)) : new LegacyStdio(place);
  // The types of the official client are looser than `exactOptionalPropertyTypes`.
  await client.connect(transport as Parameters<LegacyClient['connect']>[0]);
  stopAfterTest(() => client.close());
  return gotBy(client);
}

const CLIENTS = {
  'of 2026-07-28': (place: Place) => modern(place),
  'of 2025-11-25': legacy,
  'of both, which begins with initialize': (place: Place) => modern(place, false),
} as const;

async function gotBy(client: Client | LegacyClient) {
  const call = async (name: string) => {
    const result = await client.callTool({ name, arguments: { said: 'hello' } });
    const [first] = result.content as { readonly text: string }[];
    return { text: first?.text, isError: result.isError };
  };
  const failed = await call('fail');
  const { contents } = await client.readResource({ uri: 'memo://one' });
  const [resource] = contents as { readonly text: string }[];
  return {
    server: client.getServerVersion()?.name,
    tools: (await client.listTools()).tools.map(({ name }) => name),
    echo: (await call('echo')).text,
    ask: (await call('ask')).text,
    fail: [failed.isError, failed.text],
    resource: resource?.text,
  };
}

/** Starts a server over HTTP; one over stdio is started by who uses it. */
async function placeOf(form: string): Promise<Place> {
  const command = { command: process.execPath, args: [SERVER, form] };
  if (form.endsWith('stdio')) return command;
  const server = await startServer(command.command, command.args, { ready: /^http:\S+$/m });
  stopAfterTest(server.stop);
  return server.output().trim();
}

const FORMS = [
  'legacy-http',
  'legacy-stdio',
  'both-sessions',
  'both-stateless',
  'modern-http',
  'modern-stdio',
];

describe.each(FORMS)('in front of the server %s', (form) => {
  test.each(Object.keys(CLIENTS) as (keyof typeof CLIENTS)[])(
    'a client %s gets everything',
    async (client) => {
      const place = await placeOf(form);
      const { url } = await testGateway(place);
      expect(await CLIENTS[client](url)).toEqual(ALL);
    },
  );
});

test.each([
  ['legacy-http', 'of 2025-11-25'],
  ['legacy-stdio', 'of 2025-11-25'],
  ['both-sessions', 'of 2026-07-28'],
  ['both-sessions', 'of 2025-11-25'],
  ['both-stateless', 'of 2026-07-28'],
  ['modern-http', 'of 2026-07-28'],
  ['modern-stdio', 'of 2026-07-28'],
] as const)('that is what the server %s gives directly to a client %s', async (form, client) => {
  expect(await CLIENTS[client](await placeOf(form))).toEqual(ALL);
});
