/** Legacy clients and the reference server, with the pass-through between them and nothing noticed. */
import type { AddressInfo } from 'node:net';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js';
import {
  ElicitRequestSchema,
  LoggingMessageNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { createStreamingApp } from '../../../src/front/passthrough/streaming-app.ts';
import { registerPassThrough } from '../../../src/front/passthrough/passthrough.ts';
import { startEverything, type ServerProcess } from '../../fixtures/processes.ts';
import { PASS_THROUGH_OPTIONS, passPosts } from '../../fixtures/pass-through-options.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

/** The pass-through to one path of a server; resolves with its own address. */
async function gatewayTo(server: ServerProcess, path: string): Promise<URL> {
  const app = createStreamingApp({ forceCloseConnections: true });
  const passThrough = registerPassThrough(app, {
    ...PASS_THROUGH_OPTIONS,
    upstream: new URL(path, server.origin),
    path,
    others: ['/*'],
  });
  passPosts(app, path, passThrough);
  await app.listen({ host: '127.0.0.1', port: 0 });
  stopAfterTest(() => app.close());
  const { port } = app.server.address() as AddressInfo;
  return new URL(path, `http://127.0.0.1:${port}`);
}

/** A client that answers every form with the same name. */
function askableClient(): Client {
  const client = new Client(
    { name: 'legacy', version: '1.0.0' },
    { capabilities: { elicitation: {} } },
  );
  client.setRequestHandler(ElicitRequestSchema, () => ({
    action: 'accept',
    content: { name: 'Ada Lovelace' },
  }));
  stopAfterTest(() => client.close());
  return client;
}

/** The SDK types `sessionId` in a way that strict optional properties refuse. */
const connected = (client: Client, transport: object) => client.connect(transport as Transport);

function textOf(result: object): string {
  return JSON.stringify('content' in result ? result.content : result);
}

/** `fetch` that tells which answers came. */
function watchedFetch() {
  const waiting: { method: string; found: (response: Response) => void }[] = [];
  return {
    fetch: async (url: string | URL, init?: RequestInit): Promise<Response> => {
      const response = await fetch(url, init);
      const method = init?.method ?? 'GET';
      const index = waiting.findIndex((waiter) => waiter.method === method);
      if (index >= 0) waiting.splice(index, 1)[0]?.found(response);
      return response;
    },
    next: (method: string) =>
      new Promise<Response>((found) => void waiting.push({ method, found })),
  };
}

function nextLogMessage(client: Client): Promise<unknown> {
  return new Promise((resolve) =>
    client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) =>
      resolve(params.data),
    ),
  );
}

// Rule passthrough-2 (2025-11-25 transports, "Streamable HTTP"; 2024-11-05 transports, "HTTP with SSE"): The whole
// legacy protocol works: sessions, questions during a call, standalone streams, resumption, DELETE and HTTP+SSE.
describe('over Streamable HTTP', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await startEverything('streamableHttp');
  });
  afterAll(() => server.stop());

  test('a client initializes, lists tools and calls one', async () => {
    const client = askableClient();
    const transport = new StreamableHTTPClientTransport(await gatewayTo(server, '/mcp'));
    await connected(client, transport);
    expect(client.getServerVersion()?.name).toBe('mcp-servers/everything');
    expect(transport.sessionId).toMatch(/^[0-9a-f-]{36}$/);
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toContain('echo');
    const echoed = await client.callTool({
      name: 'echo',
      arguments: { message: 'h\u00e9 \u20ac' },
    });
    expect(textOf(echoed)).toContain('Echo: h\u00e9 \u20ac');
  });

  test('a tool asks in the middle of its call and gets the answer', async () => {
    const client = askableClient();
    await connected(client, new StreamableHTTPClientTransport(await gatewayTo(server, '/mcp')));
    const result = await client.callTool({ name: 'trigger-elicitation-request', arguments: {} });
    expect(textOf(result)).toContain('- Name: Ada Lovelace');
  });

  test('each request of a session can go through another replica', async () => {
    const replicas = [await gatewayTo(server, '/mcp'), await gatewayTo(server, '/mcp')] as const;
    let requests = 0;
    const inTurns = (_url: string | URL, init?: RequestInit) => {
      requests += 1;
      return fetch(replicas[requests % 2 === 0 ? 0 : 1], init);
    };
    const client = askableClient();
    const transport = new StreamableHTTPClientTransport(replicas[0], { fetch: inTurns });
    await connected(client, transport);
    for (let call = 0; call < 3; call += 1) {
      const result = await client.callTool({ name: 'trigger-elicitation-request', arguments: {} });
      expect(textOf(result)).toContain('- Name: Ada Lovelace');
    }
    expect(requests).toBeGreaterThan(6);
  });

  test('progress of a call comes while it runs', async () => {
    const client = askableClient();
    await connected(client, new StreamableHTTPClientTransport(await gatewayTo(server, '/mcp')));
    const progress: number[] = [];
    await client.callTool(
      { name: 'trigger-long-running-operation', arguments: { duration: 0.3, steps: 3 } },
      undefined,
      { onprogress: (step) => progress.push(step.progress) },
    );
    expect(progress).toEqual([1, 2, 3]);
  });

  test('notifications come on the stream that the client opened with GET', async () => {
    const watched = watchedFetch();
    const client = askableClient();
    const logged = nextLogMessage(client);
    const streamOpened = watched.next('GET');
    const url = await gatewayTo(server, '/mcp');
    await connected(client, new StreamableHTTPClientTransport(url, { fetch: watched.fetch }));
    const stream = await streamOpened;
    expect(stream.headers.get('content-type')).toBe('text/event-stream');
    await client.callTool({ name: 'toggle-simulated-logging', arguments: {} });
    expect(await logged).toMatch(/message/);
  });

  // Rule passthrough-2.
  test('a stream is resumed after the event that came last', async () => {
    const client = askableClient();
    const transport = new StreamableHTTPClientTransport(await gatewayTo(server, '/mcp'));
    await connected(client, transport);
    const tokens: string[] = [];
    await client.callTool(
      { name: 'trigger-long-running-operation', arguments: { duration: 0.1, steps: 2 } },
      undefined,
      { onprogress: () => {}, onresumptiontoken: (token: string) => tokens.push(token) },
    );
    const resumed = new StreamableHTTPClientTransport(await gatewayTo(server, '/mcp'), {
      sessionId: transport.sessionId ?? '',
    });
    stopAfterTest(() => resumed.close());
    const answered = new Promise<object>((resolve) => {
      resumed.onmessage = (message) => {
        if ('result' in message) resolve(message.result);
      };
    });
    await resumed.start();
    await resumed.resumeStream(tokens[0] ?? '');
    expect(textOf(await answered)).toContain('Long running operation completed');
  });

  test('DELETE ends the session', async () => {
    const client = askableClient();
    const url = await gatewayTo(server, '/mcp');
    const transport = new StreamableHTTPClientTransport(url);
    await connected(client, transport);
    const sessionId = transport.sessionId ?? '';
    await transport.terminateSession();
    const answer = await fetch(url, {
      method: 'POST',
      headers: {
        accept: 'application/json, text/event-stream',
        'content-type': 'application/json',
        'mcp-session-id': sessionId,
      },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' }),
    });
    expect(answer.status).toBeGreaterThanOrEqual(400);
    expect(await answer.text()).toContain('session');
  });
});

// Rule passthrough-2.
describe('over HTTP+SSE', () => {
  let server: ServerProcess;
  beforeAll(async () => {
    server = await startEverything('sse');
  });
  afterAll(() => server.stop());

  test('a client initializes, lists tools, calls one and is asked by another', async () => {
    const client = askableClient();
    await connected(client, new SSEClientTransport(await gatewayTo(server, '/sse')));
    expect(client.getServerVersion()?.name).toBe('mcp-servers/everything');
    const { tools } = await client.listTools();
    expect(tools.map(({ name }) => name)).toContain('echo');
    const echoed = await client.callTool({ name: 'echo', arguments: { message: 'hello' } });
    expect(textOf(echoed)).toContain('Echo: hello');
    const asked = await client.callTool({ name: 'trigger-elicitation-request', arguments: {} });
    expect(textOf(asked)).toContain('- Name: Ada Lovelace');
  });

  test('notifications come on the stream', async () => {
    const client = askableClient();
    const logged = nextLogMessage(client);
    await connected(client, new SSEClientTransport(await gatewayTo(server, '/sse')));
    await client.callTool({ name: 'toggle-simulated-logging', arguments: {} });
    expect(await logged).toMatch(/message/);
  });
});
