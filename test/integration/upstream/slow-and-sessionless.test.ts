/** Servers that are slow to reply to `initialize`, and servers that give no session ids. */
import { expect, test } from 'vitest';
import { hurriedClock } from '../../fixtures/hurried-clock.ts';
import {
  callTool,
  modernBody,
  modernHeaders,
  send,
  type Exchanged,
  type SendOptions,
} from '../../fixtures/clients/modern-client.ts';
import { startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { advanceUntil, ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';
import { freePort } from '../../fixtures/processes.ts';
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

// Rule handshake-14.
test('a call needs no handshake with a server that gives no session ids', async () => {
  const { server, called } = await stage({ current: null });
  const atStart = greetings(server);
  expect([await called(), await called()]).toEqual(['in none', 'in none']);
  expect(greetings(server)).toBe(atStart);
});

// Rule handshake-14.
test('a server that begins to give session ids is greeted again, and the call goes on', async () => {
  const sessionId: { current: string | null } = { current: null };
  const { called } = await stage(sessionId);
  await called();
  sessionId.current = 'session-1';
  expect(await called()).toBe('in session-1');
});

const ADA = { headers: { authorization: 'Bearer ada' } };

/** A server that replies to `initialize` when it is told to: to some requests, or to all. */
async function silentServer(isHeld: (authorization: string | undefined) => boolean = () => true) {
  const held: (() => void)[] = [];
  const server = await ScriptedServer.start(({ method, headers, body }, response) => {
    if (method !== 'POST') return void response.writeHead(method === 'DELETE' ? 200 : 405).end();
    if (body.method !== 'initialize') return void response.writeHead(202).end();
    const greet = () => {
      const replied = { jsonrpc: '2.0', id: body.id, result: INITIALIZE_RESULT };
      json(response, 200, replied, { 'mcp-session-id': 'session-1' });
    };
    const refuse = () => json(response, 401, {}, { 'www-authenticate': CHALLENGE });
    const reply = headers.authorization === 'Bearer eve' ? refuse : greet;
    if (isHeld(headers.authorization)) held.push(reply);
    else reply();
  });
  stopAfterTest(() => server.stop());
  return { server, release: () => held.splice(0).forEach((reply) => reply()) };
}

const CHALLENGE = 'Bearer realm="mcp"';

/** What is certain of a server that said nothing. */
const CERTAIN = {
  resultType: 'complete',
  supportedVersions: ['2026-07-28'],
  // The gateway makes tasks of calls by itself.
  capabilities: { tools: {}, extensions: { 'io.modelcontextprotocol/tasks': {} } },
  ttlMs: 0,
  cacheScope: 'private',
};

/** Asks what a server offers, and lets the time pass that this can take. */
async function discoverWithin(
  clock: ManualClock,
  url: string,
  ms: number,
  options: SendOptions = {},
) {
  const from = clock.elapsed();
  const { status, headers, response } = await advanceUntil(
    clock,
    send(url, 'server/discover', {}, options),
    ms,
  );
  expect(clock.elapsed() - from).toBeLessThanOrEqual(ms);
  return { status, headers, response };
}

// Rule discover-7.
test('a server that has not greeted yet is discovered within half a second, and then by its greeting', async () => {
  const { server, release } = await silentServer();
  const clock = new ManualClock();
  const gateway = await advanceUntil(clock, startTestGateway(server.url, { clock }), 10_000);
  stopAfterTest(() => gateway.close());
  const listeningAtMs = clock.elapsed();
  const { response } = await discoverWithin(clock, gateway.url, 500);
  expect(response.result).toEqual(CERTAIN);
  clock.advance(5_000 - (clock.elapsed() - listeningAtMs));
  release();
  await gateway.log.saw('upstream.detected');
  const later = await discoverWithin(clock, gateway.url, 500);
  expect(later.response.result.capabilities).toMatchObject(INITIALIZE_RESULT.capabilities);
  expect(later.response.result.ttlMs).toBe(60_000);
  expect(greetings(server)).toBe(1);
  expect(gateway.log.named('upstream.slow')).toEqual([{ route: 'mcp', ms: 10_000 }]);
});

// Rule discover-7.
test('a caller to whom the server does not reply gets what it said to the gateway itself', async () => {
  const { server, release } = await silentServer((authorization) => authorization !== undefined);
  const clock = new ManualClock();
  const gateway = await startTestGateway(server.url, { clock });
  stopAfterTest(() => gateway.close());
  const { response } = await discoverWithin(clock, gateway.url, 500, ADA);
  expect(response.result.capabilities).toMatchObject(INITIALIZE_RESULT.capabilities);
  expect(response.result).toMatchObject({ ttlMs: 0, cacheScope: 'private' });
  await server.saw(({ headers }) => headers.authorization !== undefined);
  release();
  const later = await send(gateway.url, 'server/discover', {}, ADA);
  expect(later.response.result.ttlMs).toBe(60_000);
});

// Rule discover-8.
test('credentials that the server once refused are refused while it does not reply, too', async () => {
  let isSilent = false;
  const { server } = await silentServer(() => isSilent);
  const clock = new ManualClock();
  const gateway = await startTestGateway(server.url, { clock });
  stopAfterTest(() => gateway.close());
  const eve = { headers: { authorization: 'Bearer eve' } };
  const told = ({ status, headers }: Pick<Exchanged, 'status' | 'headers'>) => [
    status,
    headers.get('www-authenticate'),
  ];
  expect(told(await send(gateway.url, 'server/discover', {}, eve))).toEqual([401, CHALLENGE]);
  isSilent = true;
  expect(told(await discoverWithin(clock, gateway.url, 500, eve))).toEqual([401, CHALLENGE]);
});

// Rule discover-7.
test('a server that is down since the start is discovered as one that has tools', async () => {
  const gateway = await startTestGateway(`http://127.0.0.1:${await freePort()}/mcp`);
  stopAfterTest(() => gateway.close());
  const { status, response } = await send(gateway.url, 'server/discover');
  expect([status, response.result]).toEqual([200, CERTAIN]);
});

// Rule responses-9: The response to `server/discover` is always JSON.
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
  const gateway = await startTestGateway(server.url, { clock: hurriedClock(50) });
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

// Rule drain-1.
test('who waits for the greeting of a silent server is told when the gateway stops', async () => {
  const server = await ScriptedServer.start(() => {});
  stopAfterTest(() => server.stop());
  const clock = new ManualClock();
  const drain = { delayMs: 0, parkedMs: 0, timeoutMs: 500 };
  const starting = startTestGateway(server.url, { clock, drain });
  const gateway = await advanceUntil(clock, starting, 10_000);
  const waiting = clock.pending;
  const requests = [send(gateway.url, 'prompts/list'), send(gateway.url, 'tools/list')];
  await turnsUntil(() => clock.pending > waiting + 1);
  const drained = advanceUntil(clock, gateway.drain());
  for (const { status, response } of await Promise.all(requests)) {
    expect(status).toBe(200);
    expect(response.error).toMatchObject({ code: -32603, data: { reason: 'stopping' } });
  }
  await drained;
});
