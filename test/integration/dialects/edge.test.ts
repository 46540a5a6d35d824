/** The path of a dialect is as guarded as that of its route, and nothing of a dialect is on the route's own path. */
import { describe, expect, test } from 'vitest';
import { DIALECT_NAMES } from '../../../src/dialects/dialects.ts';
import { DialectClient, post } from '../../fixtures/clients/dialect-client.ts';
import { send } from '../../fixtures/clients/modern-client.ts';
import { sendRaw } from '../../fixtures/clients/raw-http.ts';
import { proposalGateway, withDialect } from '../../fixtures/dialects/testbed.ts';
import { WIRES } from '../../fixtures/dialects/wires.ts';
import { startTestGateway } from '../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { json, legacyServer, ScriptedServer } from '../../fixtures/servers/scripted-server.ts';
import { startModernServer } from '../../fixtures/servers/modern-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const PATH = '/drafts/sep-2322';
const BEHIND_PROXY = { identity: { source: 'header', header: 'x-user' } } as const;
const weather = (id: number, more: object = {}) => ({
  jsonrpc: '2.0',
  id,
  method: 'tools/call',
  params: { name: 'get_weather', arguments: { location: 'New York' }, ...more },
});

const sep2322 = (overrides: Parameters<typeof proposalGateway>[2] = {}) =>
  proposalGateway('sep-2322', PATH, overrides);

// Rule dialects-19: In front of a modern server a dialect is refused, and the error names the path to use.
test('a client of a dialect in front of a modern server reads which path it has to use', async () => {
  const { url } = await startModernServer();
  const gateway = await testGateway(url, withDialect('sep-2322', PATH));
  const { body } = await post(new URL(PATH, gateway.url).href, weather(1));
  expect(body.error.message).toBe(
    'This path serves a proposal, in front of legacy servers only; this server speaks 2026-07-28: use /mcp',
  );
});

describe('the lifecycle', () => {
  // Rule dialects-1: `initialize` is answered from what is known of the server. `Mcp-Session-Id` is bound to the
  // principal, and valid for 7 days on every replica.
  test('initialize offers what needs no session', async () => {
    const { client } = await sep2322();
    expect(client.initialized).toEqual({
      protocolVersion: '2025-11-25',
      capabilities: { tools: {}, tasks: { cancel: {}, requests: { tools: { call: {} } } } },
      serverInfo: { name: 'legacy', version: '1.2.3' },
    });
    const pong = await client.send({ jsonrpc: '2.0', id: 1, method: 'ping' });
    expect(pong).toEqual({ jsonrpc: '2.0', id: 1, result: {} });
    const { result } = await client.send({ jsonrpc: '2.0', id: 2, method: 'tools/list' });
    expect(result.tools.map(({ name }: { name: string }) => name)).toContain('get_weather');
    expect(Object.keys(result).toSorted()).toEqual(['resultType', 'tools']);
  });

  // Rule dialects-1.
  test.each([
    ['2025-06-18', '2025-06-18'],
    ['DRAFT-2026-v1', 'DRAFT-2026-v1'],
    ['1999-01-01', '2025-11-25'],
  ])('initialize with version %s gets %s', async (protocolVersion, expected) => {
    const { client } = await sep2322();
    const params = { protocolVersion, capabilities: {}, clientInfo: { name: 'c', version: '1' } };
    const initialize = { jsonrpc: '2.0', id: 1, method: 'initialize', params };
    expect((await post(client.url, initialize)).body.result.protocolVersion).toBe(expected);
  });

  // Rule dialects-1.
  test('another replica with the same key takes the session', async () => {
    const seal = { keys: [{ kid: 'k', key: 'A'.repeat(43) }], audience: 'fleet' };
    const { client, legacy } = await sep2322({ seal });
    const other = await startTestGateway(legacy.url, withDialect('sep-2322', PATH, { seal }));
    stopAfterTest(() => other.close());
    const asked = await post(new URL(PATH, other.url).href, weather(1), client.session);
    expect(asked.body.result.resultType).toBe('input_required');
  });

  // Rule dialects-2 (2025-11-25 transports, "Session Management"): An invalid session id gets 404, and a request with
  // neither a session nor capabilities 400.
  test('a session of another principal, or none, is refused', async () => {
    const { client } = await sep2322({ ...BEHIND_PROXY, headers: { 'x-user': 'ada' } });
    const { url, session } = client;
    const stolen = await post(url, weather(1), { ...session, 'x-user': 'eve' });
    expect([stolen.status, stolen.body.error.code]).toEqual([404, -32600]);
    const forged = { 'x-user': 'ada', 'mcp-session-id': 'k.forged' };
    expect((await post(url, weather(2), forged)).status).toBe(404);
    const bare = await post(url, weather(3), { 'x-user': 'ada' });
    expect([bare.status, bare.body.error.code]).toEqual([400, -32600]);
    expect((await post(url, weather(4))).status).toBe(401);
  });

  // Rule dialects-2.
  test('a session expires after seven days', async () => {
    const clock = new ManualClock();
    const server = await legacyServer((_received, response) => {
      response.writeHead(500).end();
    });
    stopAfterTest(() => server.stop());
    const gateway = await startTestGateway(server.url, withDialect('sep-2322', PATH, { clock }));
    stopAfterTest(() => gateway.close());
    const client = await DialectClient.connect(gateway.url, PATH);
    const list = { jsonrpc: '2.0', id: 1, method: 'subscriptions/listen' };
    expect((await client.post(list)).status).toBe(200);
    clock.advance(7 * 24 * 3_600_000);
    expect((await client.post(list)).status).toBe(404);
  });
});

describe('the guards', () => {
  // Rule dialects-3: The checks of the route hold. `Mcp-Method`, `Mcp-Name` and `MCP-Protocol-Version` are optional.
  test.each<[string, Record<string, string>, number, number]>([
    ['a foreign origin', { origin: 'https://evil.example' }, 403, -32600],
    ['a foreign content type', { 'content-type': 'text/plain' }, 415, -32600],
    ['an Accept that no response meets', { accept: 'text/html' }, 406, -32600],
    ['another Mcp-Method', { 'mcp-method': 'tools/list' }, 400, -32020],
    ['another Mcp-Name', { 'mcp-name': 'rm' }, 400, -32020],
    ['another version', { 'mcp-protocol-version': '2025-06-18' }, 400, -32020],
  ])('%s is refused', async (_what, headers, status, code) => {
    const { client, legacy } = await sep2322();
    const refused = await client.post(weather(1), headers);
    expect([refused.status, refused.body.error.code]).toEqual([status, code]);
    expect(legacy.methods()).not.toContain('tools/call');
  });

  // Rule dialects-3.
  test('a repeated header, a large or deep body and a batch are refused', async () => {
    const { client } = await sep2322({ limits: { maxBodyBytes: 2_000 } });
    const { host, pathname } = new URL(client.url);
    const body = JSON.stringify(weather(1));
    const lines = [
      `POST ${pathname} HTTP/1.1`,
      `Host: ${host}`,
      'Content-Type: application/json',
      `Content-Length: ${body.length}`,
      'Mcp-Session-Id: a',
      'Mcp-Session-Id: b',
    ];
    const repeated = await sendRaw(client.url, `${lines.join('\r\n')}\r\n\r\n${body}`);
    expect([repeated.status, JSON.parse(repeated.body).error.code]).toEqual([400, -32020]);
    expect((await client.post(weather(2, { pad: 'x'.repeat(2_000) }))).status).toBe(413);
    const deep = `${'['.repeat(70)}${']'.repeat(70)}`;
    const nested = await client.post(
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"x":${deep}}}`,
    );
    expect([nested.status, nested.body.error.code]).toEqual([400, -32600]);
    const batch = await client.post([weather(3)]);
    expect([batch.status, batch.body.error.code]).toEqual([400, -32600]);
  });

  // Rule dialects-3.
  test('a principal parks as many calls as its quota allows', async () => {
    const { client } = await sep2322({ limits: { maxParkedCallsPerPrincipal: 1 } });
    expect((await client.send(weather(1))).result.resultType).toBe('input_required');
    const second = await client.post(weather(2));
    expect([second.status, second.body.error.data.reason]).toEqual([200, 'too_many_parked_calls']);
  });

  // Rule dialects-3.
  test('the state of another principal is refused', async () => {
    const { client: ada, gateway } = await sep2322({
      ...BEHIND_PROXY,
      headers: { 'x-user': 'ada' },
    });
    const eve = await DialectClient.connect(gateway.url, PATH, { headers: { 'x-user': 'eve' } });
    const { requestState } = (await ada.send(weather(1))).result;
    const stolen = await eve.send(weather(2, { requestState }));
    expect(stolen.error.code).toBe(-32602);
    const login = { github_login: { action: 'accept', content: { name: 'ada' } } };
    const answered = weather(3, { inputResponses: login, requestState });
    expect((await ada.send(answered)).result.isError).toBe(false);
  });

  // Rule dialects-3.
  test('a drain lets a call end, and takes no new one', async () => {
    const finished = Promise.withResolvers<void>();
    const { client, gateway, legacy } = await sep2322({
      drain: { delayMs: 0, parkedMs: 0, timeoutMs: 60_000 },
      server: {
        tools: { slow: () => finished.promise.then(() => 'done'), quick: async () => 'done' },
      },
    });
    const call = (id: number, name: string) => ({
      jsonrpc: '2.0',
      id,
      method: 'tools/call',
      params: { name },
    });
    const running = client.send(call(1, 'slow'));
    await legacy.saw('tools/call');
    const drained = gateway.drain();
    let other = await client.post(call(2, 'quick'));
    // The drain has begun, and may let it pass for a moment.
    while (other.body.error === undefined) other = await client.post(call(2, 'quick'));
    expect(other.body.error.data.reason).toBe('stopping');
    finished.resolve();
    expect((await running).result.content[0].text).toBe('done');
    await drained;
  });

  // Rule dialects-4: Every method but POST gets 405.
  test.each(['GET', 'DELETE', 'PUT', 'OPTIONS'])('%s is not allowed', async (method) => {
    const { client, legacy } = await sep2322();
    const before = legacy.received.length;
    const headers = { ...client.session, accept: 'text/event-stream' };
    const response = await fetch(client.url, { method, headers });
    expect([response.status, response.headers.get('allow')]).toEqual([405, 'POST']);
    expect(legacy.received).toHaveLength(before);
  });

  // Rule dialects-4.
  test('a modern server is not spoken to in a dialect', async () => {
    const server = await ScriptedServer.start(({ body }, response) => {
      json(response, 200, {
        jsonrpc: '2.0',
        id: body?.id ?? null,
        result: { resultType: 'complete', supportedVersions: ['2026-07-28'], capabilities: {} },
      });
    });
    stopAfterTest(() => server.stop());
    const gateway = await startTestGateway(server.url, withDialect('sep-2322', PATH));
    stopAfterTest(() => gateway.close());
    const before = server.received.length;
    const refused = await post(new URL(PATH, gateway.url).href, weather(1));
    expect([refused.status, refused.body.error.code]).toEqual([502, -32603]);
    expect(server.received).toHaveLength(before);
  });
});

describe('the wires stay apart', () => {
  // Rule dialects-5: Methods of the proposals are unknown on the route's own path (404, -32601), and methods of
  // `2026-07-28` alone on that of a dialect (200, -32601).
  test.each(['tools/callSaga', 'tools/resumeSaga', 'tasks/result', 'tasks/input_response'])(
    '%s is unknown on the path of the route',
    async (method) => {
      const { gateway } = await sep2322();
      const { status, response } = await send(gateway.url, method, { name: 'get_weather' });
      expect([status, response.error.code]).toEqual([404, -32601]);
    },
  );

  // Rule dialects-5.
  test.each(['server/discover', 'subscriptions/listen', 'tools/callSaga'])(
    '%s is unknown in SEP-2322',
    async (method) => {
      const { client } = await sep2322();
      const unknown = await client.post({ jsonrpc: '2.0', id: 1, method, params: {} });
      expect([unknown.status, unknown.body.error.code]).toEqual([200, -32601]);
    },
  );

  // Rule dialects-5.
  test.each(DIALECT_NAMES)('%s has no member of another wire', async (dialect) => {
    const { client } = await proposalGateway(dialect, '/draft');
    const { ask, retry, questionsOf } = WIRES[dialect];
    const first = await client.send(ask('update_work_item', { workItemId: 1 }));
    const [question] = questionsOf(first);
    const content = { resolution: 'Duplicate' };
    const answers = { [question!.key]: { action: 'accept', content } };
    const second = await client.send(retry('update_work_item', { workItemId: 1 }, first, answers));
    const names = new Set(
      [...JSON.stringify([first, second]).matchAll(/"(\w+)":/g)].map(([, name]) => name),
    );
    const others = ROUND_NAMES.filter((name) => !OWN_NAMES[dialect].includes(name));
    expect(others.filter((name) => names.has(name))).toEqual([]);
    expect(OWN_NAMES[dialect].filter((name) => !names.has(name))).toEqual([]);
  });
});

const OWN_NAMES = {
  'first-draft': ['input_requests', 'request_state'],
  'sep-2322': ['resultType', 'inputRequests', 'requestState'],
  rewritten: ['inputRequests', 'requestState'],
  sagas: ['state', 'sagaToken', 'steps', 'stepId'],
};
const ROUND_NAMES = [
  ...new Set([...Object.values(OWN_NAMES).flat(), 'ttlMs', 'cacheScope', '_meta']),
];
