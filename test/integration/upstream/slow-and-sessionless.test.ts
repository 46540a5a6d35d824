/** Servers that are slow to reply to `initialize`, and servers that give no session ids. */
import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { callTool, modernBody, modernHeaders, send } from '../../fixtures/clients/modern-client.ts';
import { startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { advanceUntil, ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';
import { INITIALIZE_RESULT, json, ScriptedServer } from '../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const ANONYMOUS = { headers: { 'x-forwarded-for': '203.0.113.1' } };
const greetings = (server: ScriptedServer) =>
  server.methods().filter((method) => method === 'initialize').length;

/** @param sessionId what the server gives, `null` for none */
async function stage(sessionId: { current: string | null }) {
  const server = await ScriptedServer.start(({ method, headers, body }, response) => {
    if (method !== 'POST') return void response.writeHead(405).end();
    const { id } = body;
    const replied = (result: object, more = {}) =>
      json(response, 200, { jsonrpc: '2.0', id, result }, more);
    if (body.method === 'initialize') {
      const given = sessionId.current === null ? {} : { 'mcp-session-id': sessionId.current };
      return replied(INITIALIZE_RESULT, given);
    }
    const knows = headers['mcp-session-id'] === (sessionId.current ?? undefined);
    const error = { code: -32600, message: 'Bad Request: Missing session ID' };
    if (!knows) return json(response, 400, { jsonrpc: '2.0', id: null, error });
    if (id === undefined) return void response.writeHead(202).end();
    replied({ content: [{ type: 'text', text: `in ${headers['mcp-session-id'] ?? 'none'}` }] });
  });
  stopAfterTest(() => server.stop());
  const gateway = await startTestGateway(server.url);
  stopAfterTest(() => gateway.close());
  const called = async () => {
    const { response } = await callTool(gateway.url, 'where', {}, ANONYMOUS);
    return response.result?.content?.[0]?.text ?? response;
  };
  return { server, gateway, called };
}

// Rule handshake-15: With a server that gives no session ids the handshake is not repeated for each call. It is
// repeated once a minute, beside a call that does not wait for it, and as soon as the server demands a session id.
test('a call needs no handshake with a server that gives no session ids', async () => {
  const { server, called } = await stage({ current: null });
  const atStart = greetings(server);
  expect([await called(), await called()]).toEqual(['in none', 'in none']);
  expect(greetings(server)).toBe(atStart);
});

// Rule handshake-15.
test('a server that begins to give session ids is greeted again, and the call goes on', async () => {
  const sessionId: { current: string | null } = { current: null };
  const { called } = await stage(sessionId);
  await called();
  sessionId.current = 'session-1';
  expect(await called()).toBe('in session-1');
});

// Rule discover-7.
test('a server that takes ten seconds to reply to initialize is discovered by its greeting', async () => {
  const held = Promise.withResolvers<() => void>();
  const server = await ScriptedServer.start(({ method, body }, response: ServerResponse) => {
    if (method !== 'POST') return void response.writeHead(method === 'DELETE' ? 200 : 405).end();
    if (body.method !== 'initialize') return void response.writeHead(202).end();
    const replied = { jsonrpc: '2.0', id: body.id, result: INITIALIZE_RESULT };
    held.resolve(() => json(response, 200, replied, { 'mcp-session-id': 'session-1' }));
  });
  stopAfterTest(() => server.stop());
  const clock = new ManualClock();
  const gateway = await advanceUntil(clock, startTestGateway(server.url, { clock }), 10_000);
  stopAfterTest(() => gateway.close());
  const waiting = clock.pending;
  const discovered = send(gateway.url, 'server/discover');
  await turnsUntil(() => clock.pending > waiting);
  clock.advance(5_000);
  (await held.promise)();
  const { response } = await discovered;
  expect(response.result.supportedVersions).toContain('2026-07-28');
  expect(greetings(server)).toBe(1);
  expect(gateway.log.named('upstream.slow')).toEqual([{ route: 'mcp', ms: 10_000 }]);
});

// Rule responses-9: The response to `server/discover` is JSON, whatever `edge.commitAfter` says: some clients read nothing else
// before they know whether the server speaks `2026-07-28`.
test('server/discover is answered with JSON, however long the server takes for a caller', async () => {
  const server = await ScriptedServer.start(({ method, headers, body }, response) => {
    if (method !== 'POST') return void response.writeHead(method === 'DELETE' ? 200 : 405).end();
    if (body.method !== 'initialize') return void response.writeHead(202).end();
    const replied = { jsonrpc: '2.0', id: body.id, result: INITIALIZE_RESULT };
    const greet = () => json(response, 200, replied, { 'mcp-session-id': 'session-1' });
    if (headers.authorization === undefined) greet();
    else setTimeout(greet, 300);
  });
  stopAfterTest(() => server.stop());
  const gateway = await startTestGateway(server.url, { edge: { commitAfterMs: 0 } });
  stopAfterTest(() => gateway.close());
  const response = await fetch(gateway.url, {
    method: 'POST',
    headers: { ...modernHeaders('server/discover', {}), authorization: 'Bearer ada' },
    body: JSON.stringify(modernBody('server/discover', {})),
  });
  expect(response.headers.get('content-type')).toBe('application/json');
  expect(await response.json()).toMatchObject({ result: { resultType: 'complete' } });
  expect(greetings(server)).toBe(2);
});

// Rule drain-9: A request that waits for a server which does not reply (`server/discover`, a list) gets error -32603
// `stopping` when the process stops after `drain.timeout`.
test('who waits for the greeting of a silent server is told when the gateway stops', async () => {
  const server = await ScriptedServer.start(() => {});
  stopAfterTest(() => server.stop());
  const clock = new ManualClock();
  const drain = { delayMs: 0, parkedMs: 0, timeoutMs: 500 };
  const starting = startTestGateway(server.url, { clock, drain });
  const gateway = await advanceUntil(clock, starting, 10_000);
  const waiting = clock.pending;
  const requests = [send(gateway.url, 'server/discover'), send(gateway.url, 'tools/list')];
  await turnsUntil(() => clock.pending > waiting + 1);
  const drained = advanceUntil(clock, gateway.drain());
  for (const { status, response } of await Promise.all(requests)) {
    expect(status).toBe(200);
    expect(response.error).toMatchObject({ code: -32603, data: { reason: 'stopping' } });
  }
  await drained;
});
