/** Results whose data could trouble a program that judges it, and which is only handed on. */
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { accept, callTool, type Exchanged } from '../../fixtures/clients/modern-client.ts';
import { startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { ODD, serveOdd } from '../../fixtures/servers/odd-data.ts';
import { eventStream, ScriptedServer } from '../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const PROGRAM = fileURLToPath(new URL('../../fixtures/servers/odd-data.ts', import.meta.url));

async function gatewayTo(...[target, options]: Parameters<typeof startTestGateway>) {
  const gateway = await startTestGateway(target, options);
  stopAfterTest(() => gateway.close());
  return gateway.url;
}

async function overHttp(): Promise<string> {
  let write: (text: string) => void = () => {};
  const serve = serveOdd((text) => write(text));
  const server = await ScriptedServer.start(({ method, body }, response) => {
    if (method !== 'POST') return void response.writeHead(405).end();
    if (body.method === undefined || body.id === undefined) response.writeHead(202).end();
    else if (body.method === 'tools/call') {
      const { send } = eventStream(response);
      write = (text) => send(JSON.parse(text));
    } else {
      response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's' });
      write = (text) => response.end(text);
    }
    serve(body);
  });
  stopAfterTest(() => server.stop());
  return gatewayTo(server.url);
}

async function overHttpSse(): Promise<string> {
  let serve: ReturnType<typeof serveOdd> = () => {};
  const server = await ScriptedServer.start(({ method, path, body }, response) => {
    if (method === 'GET') {
      const { raw, send } = eventStream(response);
      serve = serveOdd((text) => send(JSON.parse(text)));
      return void raw('event: endpoint\ndata: /messages\n\n');
    }
    if (path !== '/messages') return void response.writeHead(405).end();
    response.writeHead(202).end();
    serve(body);
  });
  stopAfterTest(() => server.stop());
  return gatewayTo(server.url, { transport: 'http-sse' });
}

const overStdio = () => gatewayTo({ command: process.execPath, args: [PROGRAM] });

function expectOdd({ response }: Exchanged): void {
  expect(JSON.stringify(response.result?.structuredContent)).toBe(ODD);
  expect(Object.keys(response.result._meta)).toContain('__proto__');
  expect(({} as Record<string, unknown>)['polluted']).toBeUndefined();
}

describe.each([
  ['HTTP', overHttp],
  ['HTTP+SSE', overHttpSse],
  ['stdio', overStdio],
])('over %s, data that could reach a prototype, and is 600 levels deep,', (_transport, start) => {
  // Rule limits-3.
  test('reaches the client in the result of a plain call', async () => {
    expectOdd(await callTool(await start(), 'odd'));
  });

  // Rule limits-3.
  test('reaches the client in the result of a call that asked', async () => {
    const url = await start();
    const { requestState, inputRequests } = (await callTool(url, 'ask')).response.result;
    const [key = ''] = Object.keys(inputRequests);
    const inputResponses = { [key]: accept({ name: 'Ada' }) };
    expectOdd(await callTool(url, 'ask', { requestState, inputResponses }));
  });

  // Rule limits-3.
  test('is told from data that is too deep, whose call fails with the name of the limit', async () => {
    const { response } = await callTool(await start(), 'deeper');
    expect(response.error?.message ?? response.result?.content?.[0]?.text).toContain(
      'at most 1000 levels of objects and arrays',
    );
  });
});
