/** Whether an error that reads like "unknown session" is about the session, or is the tool's own. */
import { describe, expect, test } from 'vitest';
import type { UpstreamFailure } from '../../../../src/model/upstream-failure.ts';
import { gatewayBefore } from '../../../fixtures/gateways/test-gateway.ts';
import { callTool } from '../../../fixtures/clients/modern-client.ts';
import {
  eventStream,
  INITIALIZE_RESULT,
  json,
  legacyServer,
  ScriptedServer,
} from '../../../fixtures/servers/scripted-server.ts';
import {
  call,
  Heard,
  open,
  reply,
  upstreamOf,
} from '../../../fixtures/servers/upstream-testbed.ts';

/** A server that ends the streams of its calls early, and knows nothing of the session then. */
function breakingServer() {
  return legacyServer(
    (_received, response) => {
      const stream = eventStream(response);
      stream.raw('id: e1\nretry: 100\ndata:\n\n');
      stream.end();
    },
    { onGet: (_received, response) => json(response, 404, {}) },
  );
}

const unknown = (id: unknown) => ({
  jsonrpc: '2.0',
  id,
  error: { code: -32001, message: 'Browser session not found' },
});

const callsOf = (server: ScriptedServer) =>
  server.methods().filter((method) => method === 'tools/call').length;

describe('the reply to a call', () => {
  // Rule expired-1.
  test('is the tool’s own in a session that was opened for the call', async () => {
    const server = await legacyServer(({ body }, response) =>
      json(response, 200, unknown(body.id)),
    );
    const session = await open(upstreamOf(server, { transport: 'streamable-http' }));
    expect(await call(session).heard.until('replied')).toEqual([
      'replied',
      { error: { code: -32001, message: 'Browser session not found' } },
    ]);
    expect(session.dead).toBe(false);
  });

  // Rule expired-1.
  test('is about the session where that served before, and the server says nothing else', async () => {
    let calls = 0;
    const server = await legacyServer(({ body }, response) => {
      calls += 1;
      json(response, 200, calls === 1 ? reply(body.id) : unknown(body.id));
    });
    const session = await open(upstreamOf(server, { transport: 'streamable-http' }));
    await call(session).heard.until('replied');
    expect(await call(session).heard.until('lost')).toEqual(['lost', 'session_gone']);
    expect(session.dead).toBe(true);
  });

  // Rule expired-1.
  test.each([
    ['progress', (id: unknown) => progressOf(id)],
    ['a question', () => ({ jsonrpc: '2.0', id: 'q', method: 'roots/list' })],
  ])('is the tool’s own after %s of it, wherever it was sent', async (_name, before) => {
    let calls = 0;
    const server = await legacyServer(({ body }, response) => {
      calls += 1;
      if (calls === 1) return json(response, 200, reply(body.id));
      const stream = eventStream(response);
      stream.send(before(body.id));
      stream.send(unknown(body.id));
      stream.end();
    });
    const session = await open(upstreamOf(server, { transport: 'streamable-http' }));
    await call(session).heard.until('replied');
    await call(session).heard.until('replied');
    expect(session.dead).toBe(false);
  });
});

// Rule expired-4: A call that the server had accepted is not sent again: it is lost.
test('a call that was taken may have had effects, whatever becomes of its session', async () => {
  const server = await breakingServer();
  const session = await open(upstreamOf(server, { transport: 'streamable-http' }));
  const heard = new Heard();
  const lost = new Promise<UpstreamFailure>((resolve) => (heard.lost = resolve));
  session.call('tools/call', () => ({ name: 't' }), heard, {});
  expect(await lost).toMatchObject({ code: 'session_gone', details: { mayHaveActed: true } });
});

describe('the reply to another request', () => {
  test('is passed on where the session has never replied to one', async () => {
    const server = await legacyServer(({ body }, response) =>
      json(response, 200, unknown(body.id)),
    );
    const session = await open(upstreamOf(server, { transport: 'streamable-http' }));
    expect(await session.request('tools/list', {}, {})).toMatchObject({ error: { code: -32001 } });
  });

  test('means that the session is unknown where it has', async () => {
    let asked = 0;
    const server = await legacyServer(({ body }, response) => {
      asked += 1;
      json(response, 200, asked === 1 ? reply(body.id, { tools: [] }) : unknown(body.id));
    });
    const session = await open(upstreamOf(server, { transport: 'streamable-http' }));
    await session.request('tools/list', {}, {});
    await expect(session.request('tools/list', {}, {})).rejects.toMatchObject({
      code: 'session_gone',
    });
  });

  // Rule expired-1.
  test('means so at once where it is the reply to a ping, which no tool gives', async () => {
    const server = await legacyServer(({ body }, response) =>
      json(response, 200, unknown(body.id)),
    );
    const session = await open(upstreamOf(server, { transport: 'streamable-http' }));
    await expect(session.request('ping', {}, {})).rejects.toMatchObject({ code: 'session_gone' });
  });
});

// Rule failures-6.
describe('a gateway calls a tool once', () => {
  test('that replies with an error about a session of its own', async () => {
    const server = await legacyServer(({ body }, response) => {
      const stream = eventStream(response);
      stream.send(progressOf(body.id));
      stream.send(unknown(body.id));
      stream.end();
    });
    const url = await gatewayTo(server);
    const { response } = await callTool(url, 'browse');
    expect(JSON.stringify(response)).toContain('Browser session not found');
    expect(callsOf(server)).toBe(1);
  });

  // Rule expired-4.
  test('whose stream broke, when the server no longer knows the session', async () => {
    const server = await breakingServer();
    const url = await gatewayTo(server);
    const { response } = await callTool(url, 'work');
    expect(response.result?._meta?.['mrtr-gateway/reason'] ?? response.error?.data?.reason).toBe(
      'call_lost',
    );
    expect(callsOf(server)).toBe(1);
  });
});

function progressOf(id: unknown) {
  return {
    jsonrpc: '2.0',
    method: 'notifications/progress',
    params: { progressToken: id, progress: 1 },
  };
}

async function gatewayTo(server: ScriptedServer): Promise<string> {
  const { gateway } = await gatewayBefore(server, { transport: 'streamable-http' });
  return gateway.url;
}

/** A server of HTTP+SSE that refuses every message as soon as it has forgotten its session. */
async function forgetfulServer() {
  let stream: ReturnType<typeof eventStream> | undefined;
  let knows = true;
  const server = await ScriptedServer.start(({ method, path, body }, response) => {
    if (method === 'GET') {
      stream = eventStream(response);
      return void stream.raw('event: endpoint\ndata: /message?sessionId=abc\n\n');
    }
    if (path === '/mcp') return void response.writeHead(404).end();
    response.writeHead(knows ? 202 : 404).end();
    if (body.method === 'initialize') stream?.send(reply(body.id, INITIALIZE_RESULT));
  });
  return { server, forget: () => (knows = false) };
}

// The one stream of HTTP+SSE stays open here, so that nothing else would end the wait.
test('a call over HTTP+SSE is lost as soon as the server is seen to have forgotten its session', async () => {
  const { server, forget } = await forgetfulServer();
  const session = await open(upstreamOf(server, { transport: 'http-sse' }));
  const { heard, exchange } = call(session);
  await exchange.accepted;
  forget();
  await expect(session.request('tools/list', {}, {})).rejects.toMatchObject({
    code: 'session_gone',
  });
  expect(await heard.until('lost')).toEqual(['lost', 'session_gone']);
});
