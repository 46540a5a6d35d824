/** Lists and what is known of tools before they are called: how long it is kept, and for whom. */
import { describe, expect, test } from 'vitest';
import {
  startTestGateway,
  type GatewayOverrides,
  type TestGateway,
} from '../../fixtures/gateways/gateway.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { callTool, send } from '../../fixtures/clients/modern-client.ts';
import {
  eventStream,
  json,
  ScriptedServer,
  INITIALIZE_RESULT,
} from '../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const TOOL = {
  name: 'sql',
  inputSchema: {
    type: 'object',
    properties: { region: { type: 'string', 'x-mcp-header': 'Region' }, query: { type: 'string' } },
  },
};
const INVALID = {
  name: 'broken',
  inputSchema: { type: 'object', properties: { n: { type: 'number', 'x-mcp-header': 'N' } } },
};

/** A server whose lists differ by who asks, and which says when they change. */
async function server(
  tools: readonly object[] = [TOOL, INVALID],
  beforeList: () => Promise<void> = async () => {},
) {
  let changed = () => {};
  let update = () => {};
  let cut = () => {};
  const scripted = await ScriptedServer.start((received, response) => {
    const { body } = received;
    if (received.method === 'GET') {
      const stream = eventStream(response);
      changed = () => stream.send({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' });
      update = () => {
        const params = { uri: 'test://a' };
        stream.send({ jsonrpc: '2.0', method: 'notifications/resources/updated', params });
        stream.send({ jsonrpc: '2.0', id: 'after', method: 'ping' });
      };
      cut = () => void stream.end();
      return;
    }
    if (received.method === 'DELETE' || body.id === undefined) {
      response.writeHead(202).end();
      return;
    }
    const reply = (result: object) =>
      json(response, 200, { jsonrpc: '2.0', id: body.id, result }, { 'mcp-session-id': 's' });
    switch (body.method) {
      case 'initialize':
        return reply({
          ...INITIALIZE_RESULT,
          capabilities: { tools: { listChanged: true }, resources: {} },
        });
      case 'tools/list':
        return void beforeList().then(() => reply({ tools }));
      case 'resources/read':
        return reply({ contents: [{ uri: 'test://a', text: 'a' }] });
      case 'tools/call':
        return reply({ content: [{ type: 'text', text: 'called' }] });
      default:
        return json(response, 400, {
          jsonrpc: '2.0',
          id: null,
          error: { code: -32000, message: 'no' },
        });
    }
  });
  stopAfterTest(() => scripted.stop());
  const listed = () => scripted.methods().filter((method) => method === 'tools/list').length;
  /** Resolves when the gateway has heard of the change of a resource. */
  const updated = async () => {
    update();
    await scripted.saw(({ body }) => body?.id === 'after');
  };
  return { scripted, listed, updated, change: () => changed(), cut: () => cut() };
}

async function gateway(
  scripted: ScriptedServer,
  overrides: GatewayOverrides,
): Promise<TestGateway> {
  const started = await startTestGateway(scripted.url, overrides);
  stopAfterTest(() => started.close());
  return started;
}

const list = (url: string, headers: Record<string, string> = {}) =>
  send(url, 'tools/list', {}, { headers }).then(({ response }) => response.result);

describe('how long a client can cache a result', () => {
  // Rule caching-1 (caching, "Cacheable Results"): Lists and resources have `ttlMs: 0` and `cacheScope: "private"`,
  // unless `caching` says otherwise. Other results have neither.
  test('is not at all, unless the operator says so', async () => {
    const { scripted } = await server();
    const { url } = await gateway(scripted, {});
    expect(await list(url)).toMatchObject({ ttlMs: 0, cacheScope: 'private' });
    const read = await send(url, 'resources/read', { uri: 'test://a' });
    expect(read.response.result).toMatchObject({ ttlMs: 0, cacheScope: 'private' });
  });

  // Rule caching-1.
  test('is what the operator says, for lists and for resources', async () => {
    const { scripted } = await server();
    const caching = { listTtlMs: 60_000, resourceTtlMs: 5_000, scope: 'public' } as const;
    const { url } = await gateway(scripted, { caching });
    expect(await list(url)).toMatchObject({ ttlMs: 60_000, cacheScope: 'public' });
    const read = await send(url, 'resources/read', { uri: 'test://a' });
    expect(read.response.result).toMatchObject({ ttlMs: 5_000, cacheScope: 'public' });
  });
});

describe('a gateway that serves lists itself', () => {
  const caching = { listTtlMs: 60_000 };

  // Rule caching-4 (caching, "Cache Scope Field"): With `caching.listTtl` the gateway caches lists by principal,
  // credentials and capabilities, until the server says that they changed.
  test('asks once while the list may be kept, and says how long that is still', async () => {
    const { scripted, listed } = await server();
    const clock = new ManualClock();
    const { url } = await gateway(scripted, { caching, clock });
    const first = await list(url);
    clock.advance(20_000);
    const second = await list(url);
    expect(second).toEqual({ ...first, ttlMs: 40_000 });
    expect(listed()).toBe(1);
    clock.advance(40_000);
    expect((await list(url)).ttlMs).toBe(60_000);
    expect(listed()).toBe(2);
  });

  // Rule caching-4.
  test('caches no list longer because its clock is set back', async () => {
    const { scripted, listed } = await server();
    const clock = new ManualClock();
    const { url } = await gateway(scripted, { caching, clock });
    await list(url);
    clock.setBy(-3_600_000);
    expect((await list(url)).ttlMs).toBe(60_000);
    clock.advance(60_000);
    await list(url);
    expect(listed()).toBe(2);
  });

  // Rules lists-4, caching-4.
  test('asks again for each caller, and for each kind of client', async () => {
    const { scripted, listed } = await server();
    const { url } = await gateway(scripted, { caching });
    await list(url, { authorization: 'Bearer a' });
    await list(url, { authorization: 'Bearer b' });
    await list(url, { authorization: 'Bearer a' });
    expect(listed()).toBe(2);
    await send(url, 'tools/list', {}, { headers: { authorization: 'Bearer a' }, capabilities: {} });
    expect(listed()).toBe(3);
  });

  test('asks once for a client whose requests differ by progress token and trace only', async () => {
    const { scripted, listed } = await server();
    const { url } = await gateway(scripted, { caching });
    for (const number of [1, 2, 3]) {
      const meta = {
        progressToken: number,
        traceparent: `00-${'a'.repeat(32)}-${String(number).padStart(16, '0')}-01`,
        tracestate: `vendor=${number}`,
        baggage: `number=${number}`,
        'io.modelcontextprotocol/logLevel': number === 1 ? 'debug' : 'error',
      };
      await send(url, 'tools/list', {}, { meta });
    }
    expect(listed()).toBe(1);
  });

  test('asks again if a server may respond differently: other members, other vendor keys, another client', async () => {
    const { scripted, listed } = await server();
    const { url } = await gateway(scripted, { caching });
    const clientInfo = { name: 'another', version: '1.0.0' };
    const asked = [
      () => send(url, 'tools/list'),
      () => send(url, 'tools/list', { 'com.example/filter': 'a' }),
      () => send(url, 'tools/list', { 'com.example/filter': 'b' }),
      () => send(url, 'tools/list', {}, { meta: { 'com.example/tenant': 'a' } }),
      () => send(url, 'tools/list', {}, { meta: { 'com.example/tenant': 'b' } }),
      () =>
        send(url, 'tools/list', {}, { meta: { 'io.modelcontextprotocol/clientInfo': clientInfo } }),
    ];
    for (const ask of [...asked, ...asked]) await ask();
    expect(listed()).toBe(asked.length);
  });

  // Rule notifications-7 (caching, "Interaction with Notifications"): `list_changed` drops the cached lists of
  // `caching.listTtl`.
  // Rule caching-4.
  test('asks again when the server reports that the list changed', async () => {
    const { scripted, listed, change } = await server();
    const { url } = await gateway(scripted, { caching });
    await list(url);
    change();
    while (listed() < 2) await list(url);
    expect(listed()).toBe(2);
  });

  // Rules caching-4, resumption-6.
  test('asks again after the stream for such reports broke', async () => {
    const { scripted, listed, cut } = await server();
    const { url } = await gateway(scripted, { caching });
    await list(url);
    cut();
    while (listed() < 2) await list(url);
    expect(listed()).toBe(2);
  });
});

describe('headers that repeat a parameter', () => {
  const call = (url: string, args: object, headers: Record<string, string> = {}) =>
    send(url, 'tools/call', { name: 'sql', arguments: args }, { headers });

  // Rule validation-18 (streamable-http, "Server Behavior for Custom Headers"): `x-mcp-header` is removed by default.
  // With `tools.parameterHeaders: validate`, headers that differ from the arguments get 400, -32020.
  test('are asked of nobody by default, and mean nothing', async () => {
    const { scripted } = await server();
    const { url } = await gateway(scripted, {});
    expect(JSON.stringify((await list(url)).tools)).not.toContain('x-mcp-header');
    const called = await call(url, { region: 'a' }, { 'mcp-param-region': 'b' });
    expect(called.status).toBe(200);
  });

  // Rule validation-18.
  test('are checked against the arguments where the operator wants that', async () => {
    const { scripted } = await server();
    const { url } = await gateway(scripted, { tools: { parameterHeaders: 'validate' } });
    const [sql, broken] = (await list(url)).tools;
    expect(sql.inputSchema.properties.region['x-mcp-header']).toBe('Region');
    expect(broken.inputSchema.properties.n, 'a client would drop the whole tool').toEqual({
      type: 'number',
    });
    const refused = await call(url, { region: 'a' }, { 'mcp-param-region': 'b' });
    expect([refused.status, refused.response.error.code]).toEqual([400, -32020]);
    const missing = await call(url, { region: 'a' });
    expect([missing.status, missing.response.error.code]).toEqual([400, -32020]);
    const agreeing = await call(url, { region: 'a' }, { 'mcp-param-region': 'a' });
    expect([agreeing.status, agreeing.response.result.content[0].text]).toEqual([200, 'called']);
    expect((await call(url, { query: 'q' })).status).toBe(200);
  });

  test('are looked up again when the tools changed, and not for each change of a resource', async () => {
    const { scripted, listed, updated, change } = await server();
    const { url } = await gateway(scripted, { tools: { parameterHeaders: 'validate' } });
    const ada = { authorization: 'Bearer ada', 'mcp-param-region': 'a' };
    await call(url, { region: 'a' }, ada);
    await updated();
    await call(url, { region: 'a' }, ada);
    expect(listed()).toBe(1);
    change();
    while (listed() < 2) await call(url, { region: 'a' }, ada);
  });

  // Rule cancellation-2.
  test('and a client that leaves while they are looked up has called nothing', async () => {
    const asked = Promise.withResolvers<void>();
    const answer = Promise.withResolvers<void>();
    const { scripted } = await server([TOOL], async () => {
      asked.resolve();
      await answer.promise;
    });
    const started = await gateway(scripted, { tools: { parameterHeaders: 'validate' } });
    const leaving = new AbortController();
    const params = { name: 'sql', arguments: {} };
    const called = send(started.url, 'tools/call', params, { signal: leaving.signal });
    await asked.promise;
    leaving.abort();
    await expect(called).rejects.toThrow();
    // Whoever is answered now came after the other had gone.
    await send(started.url, 'made/up');
    answer.resolve();
    await started.drain();
    expect(scripted.methods()).not.toContain('tools/call');
  });

  // Rule validation-18.
  test('are checked for a client that never listed the tools, too', async () => {
    const { scripted, listed } = await server();
    const { url } = await gateway(scripted, { tools: { parameterHeaders: 'validate' } });
    expect((await call(url, { region: 'a' })).status).toBe(400);
    await callTool(url, 'sql');
    expect(listed(), 'one look serves many calls').toBe(1);
  });
});
