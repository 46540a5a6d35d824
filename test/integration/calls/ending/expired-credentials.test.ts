/**
 * Credentials that expire while a person thinks. The server keeps the call; whoever brings good ones may
 * go on with it, and whoever does not is told so as HTTP tells it.
 */
import { expect, test } from 'vitest';
import { greet, legacyGateway } from '../../../fixtures/gateways/legacy-gateway.ts';
import { answersOf, reasonOf } from '../../../fixtures/gateways/replica-testbed.ts';
import { advanceUntil, ManualClock } from '../../../fixtures/manual-clock.ts';
import { startTestGateway, type GatewayOverrides } from '../../../fixtures/gateways/gateway.ts';
import { accept, callTool, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import {
  eventStream,
  INITIALIZE_RESULT,
  json,
  ScriptedServer,
} from '../../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';

const CHALLENGE = 'Bearer error="invalid_token"';
const FLEET: GatewayOverrides = {
  transport: 'streamable-http',
  identity: { source: 'header', header: 'x-user' },
  seal: { audience: 'fleet', keys: [{ kid: 'k', key: 'A'.repeat(43) }] },
};

/** A server whose tool asks, whose streams can be resumed, and whose tokens can be revoked. */
async function guardedServer() {
  const revoked = new Set<string>();
  let cut = (): void => {};
  let resumed = (_stream: ReturnType<typeof eventStream>): void => {};
  const live = new Promise<ReturnType<typeof eventStream>>((resolve) => (resumed = resolve));
  let callId: unknown;
  const ended = new Set<unknown>();
  let sessions = 0;
  const server = await ScriptedServer.start((received, response) => {
    const { method, headers, body } = received;
    const session = headers['mcp-session-id'];
    if (ended.has(session)) return void response.writeHead(404).end();
    if (method === 'DELETE') {
      ended.add(session);
      return void response.writeHead(200).end();
    }
    if (revoked.has(String(headers.authorization))) {
      return void response.writeHead(401, { 'www-authenticate': CHALLENGE }).end();
    }
    if (method === 'GET') {
      if (headers['last-event-id'] === undefined) return void response.writeHead(405).end();
      return resumed(eventStream(response));
    }
    if (body.method === 'initialize') {
      const message = { jsonrpc: '2.0', id: body.id, result: INITIALIZE_RESULT };
      sessions += 1;
      return json(response, 200, message, { 'mcp-session-id': `session-${sessions}` });
    }
    if (body.method === 'tools/call') {
      callId = body.id;
      const stream = eventStream(response);
      const requestedSchema = { type: 'object', properties: {} };
      const params = { message: 'Sure?', requestedSchema };
      stream.send({ jsonrpc: '2.0', id: 'ask', method: 'elicitation/create', params }, 'event-1');
      cut = () => response.destroy();
      return;
    }
    response.writeHead(202).end();
    if (body.method !== undefined) return;
    const result = { content: [{ type: 'text', text: 'done' }] };
    void live.then((stream) => stream.send({ jsonrpc: '2.0', id: callId, result }, 'event-2'));
  });
  stopAfterTest(() => server.stop());
  return { server, revoke: (token: string) => revoked.add(`Bearer ${token}`), cut: () => cut() };
}

async function gateways<Count extends 1 | 2>(
  server: ScriptedServer,
  count: Count,
  overrides: GatewayOverrides = {},
) {
  const started = await Promise.all(
    Array.from({ length: count }, () => startTestGateway(server.url, { ...FLEET, ...overrides })),
  );
  for (const gateway of started) stopAfterTest(() => gateway.close());
  return started as Count extends 2
    ? [(typeof started)[0], (typeof started)[0]]
    : [(typeof started)[0]];
}

const by = (token: string) => ({ headers: { 'x-user': 'ann', authorization: `Bearer ${token}` } });
const answered = ({ response }: Exchanged) => ({
  requestState: response.result.requestState,
  inputResponses: { ask: accept() },
});
const text = ({ response }: Exchanged): unknown => response.result?.content?.[0]?.text;

// Rule reattach-4 (authorization, "Error Handling"): If the server refuses the credentials of the retry, it gets the
// status and challenge. A later retry continues the call.
test('a call whose credentials are refused on resumption is left alone, and goes on with valid ones', async () => {
  const { server, revoke } = await guardedServer();
  const [one, other] = await gateways(server, 2);
  const asked = await callTool(one.url, 'act', {}, by('old'));
  revoke('old');
  const refused = await callTool(other.url, 'act', answered(asked), by('old'));
  expect([refused.status, refused.headers.get('www-authenticate')]).toEqual([401, CHALLENGE]);
  expect(refused.response.error.data.reason).toBe('unauthorized');
  expect(text(await callTool(other.url, 'act', answered(asked), by('new')))).toBe('done');
});

// Rule reattach-4.
test('a call whose stream breaks after its credentials expired waits for better ones', async () => {
  const { server, revoke, cut } = await guardedServer();
  const [gateway] = await gateways(server, 1);
  const asked = await callTool(gateway.url, 'act', {}, by('old'));
  revoke('old');
  cut();
  await gateway.log.saw('call.ended');
  expect(gateway.log.named('call.ended')).toMatchObject([{ end: 'left' }]);
  expect(text(await callTool(gateway.url, 'act', answered(asked), by('new')))).toBe('done');
});

// Rule reattach-4.
test('a call that no replica may resume is lost then', async () => {
  const { server, revoke, cut } = await guardedServer();
  const replay = { tools: [], annotated: false };
  const [gateway] = await gateways(server, 1, { continuation: { reattach: false, replay } });
  const asked = await callTool(gateway.url, 'act', {}, by('old'));
  revoke('old');
  cut();
  await gateway.log.saw('upstream.failed');
  expect(reasonOf(await callTool(gateway.url, 'act', answered(asked), by('new')))).toBe(
    'call_lost',
  );
});

// Rule keep-alive-3.
test('a parked call whose session could no longer be pinged is kept alive by the next call of its caller', async () => {
  const clock = new ManualClock();
  const revoked = new Set<string | undefined>();
  const { url, legacy } = await legacyGateway(
    {
      tools: { ...greet, plain: async () => 'done' },
      greets: (authorization) => (revoked.has(authorization) ? null : 'Welcome.'),
    },
    { ...FLEET, clock },
  );
  const asked = await advanceUntil(clock, callTool(url, 'greet', {}, by('old')));
  revoked.add('Bearer old');
  clock.advance(60_000);
  await legacy.saw('ping');
  expect(text(await advanceUntil(clock, callTool(url, 'plain', {}, by('new'))))).toBe('done');
  for (let minute = 1; minute <= 3; minute += 1) {
    clock.advance(60_000);
    await legacy.saw('ping', 1 + minute);
    // The reply to the ping comes before this one.
    await advanceUntil(clock, callTool(url, 'plain', {}, by('new')));
  }
  const [first, ...rest] = legacy.tokens('ping');
  expect([first, new Set(rest)]).toEqual(['Bearer old', new Set(['Bearer new'])]);
  const calls = legacy.received.filter(({ method }) => method === 'tools/call');
  expect(new Set(calls.map(({ session }) => session)).size).toBe(1);
  const answers = answersOf(asked, 'Ann');
  expect(text(await callTool(url, 'greet', answers, by('new')))).toBe('Hello Ann');
});
