/** When a gateway calls its server reachable: after an answer, also where the operator says how it speaks. */
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, test } from 'vitest';
import { startGateway } from '../../../src/app/gateway.ts';
import {
  RecordedLog,
  startTestGateway,
  testConfig,
  type GatewayOverrides,
  type TestGateway,
} from '../../fixtures/gateways/gateway.ts';
import { testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { LegacyServer } from '../../fixtures/servers/legacy-server.ts';
import { callTool } from '../../fixtures/clients/modern-client.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';
import { freePort } from '../../fixtures/processes.ts';
import { INITIALIZE_RESULT, json, ScriptedServer } from '../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const TRANSPORTS = [
  { transport: 'streamable-http', path: '/mcp' },
  { transport: 'http-sse', path: '/sse' },
] as const;

async function gatewayTo(url: string, overrides: GatewayOverrides): Promise<TestGateway> {
  const gateway = await testGateway(url, { admin: true, ...overrides });
  return gateway;
}

async function legacy(options: Parameters<typeof LegacyServer.start>[0]): Promise<LegacyServer> {
  const server = await LegacyServer.start(options);
  stopAfterTest(() => server.stop());
  return server;
}

/** A server that gives this one answer to everything. */
async function answering(status: number): Promise<string> {
  const server: Server = createServer((_request, response) => {
    response.writeHead(status, { 'content-type': 'text/html' }).end('<h1>hello</h1>');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  stopAfterTest(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
}

async function readiness({ adminUrl }: TestGateway) {
  const answer = await fetch(`${adminUrl}/readyz`);
  return { status: answer.status, body: await answer.json() };
}

describe.each(TRANSPORTS)('a server said to speak $transport', ({ transport, path }) => {
  test('makes the gateway ready when it has responded', async () => {
    const server = await legacy({ transport });
    const gateway = await gatewayTo(server.url, { transport });
    expect(await readiness(gateway)).toEqual({
      status: 200,
      body: { status: 'ready', routes: { mcp: transport } },
    });
    expect(gateway.log.named('upstream.detected')).toEqual([
      { route: 'mcp', kind: transport, cause: 'configured' },
    ]);
    expect(server.received.map(({ method }) => method)).toContain('initialize');
  });

  test('is waited for while it is down, and found when it comes', async () => {
    const port = await freePort();
    const gateway = await gatewayTo(`http://127.0.0.1:${port}${path}`, { transport });
    expect(await readiness(gateway)).toMatchObject({
      status: 503,
      body: {
        status: 'not ready',
        routes: { mcp: expect.stringMatching(/^upstream_unavailable/) },
      },
    });
    expect(gateway.log.named('upstream.detected')).toEqual([]);
    expect(gateway.log.named('upstream.unavailable')).toMatchObject([{ route: 'mcp' }]);
    await legacy({ transport, port });
    await gateway.log.saw('upstream.detected');
    expect((await readiness(gateway)).status).toBe(200);
  });

  // Rule detection-9.
  test.each([200, 404])(
    'and no MCP, with HTTP %i, keeps the gateway from starting',
    async (status) => {
      const starting = startTestGateway(await answering(status), { transport });
      await expect(starting).rejects.toMatchObject({
        code: 'upstream_not_mcp',
        message: expect.stringMatching(/does not speak MCP.*let the gateway detect the transport/),
      });
    },
  );
});

// Rule detection-7: While servers are probed at the start, the gateway is alive and not ready. After 5 s it listens,
// and logs `upstream.unavailable`.
test('probes are answered while a server has not responded yet', async () => {
  const asked = Promise.withResolvers<void>();
  const server = createServer(() => asked.resolve());
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  const config = testConfig(`http://127.0.0.1:${port}/mcp`, { transport: 'streamable-http' });
  const admin = { host: '127.0.0.1', port: await freePort() };
  const clock = new ManualClock();
  const log = new RecordedLog();
  const starting = startGateway({ ...config, admin }, { log, clock });
  stopAfterTest(async () => {
    server.closeAllConnections();
    await Promise.all([
      starting.then((gateway) => gateway.close()),
      new Promise((resolve) => server.close(resolve)),
    ]);
  });
  await asked.promise;
  const health = await fetch(`http://127.0.0.1:${admin.port}/healthz`);
  expect(health.status).toBe(200);
  const ready = await fetch(`http://127.0.0.1:${admin.port}/readyz`);
  expect(ready.status).toBe(503);
  expect(await ready.json()).toEqual({
    status: 'not ready',
    routes: { mcp: 'no response yet' },
  });
  clock.advance(5_000);
  await starting;
  expect(log.named('upstream.unavailable')).toEqual([
    expect.objectContaining({
      code: 'upstream_timeout',
      problem: 'no response within 5000 ms: it may still be starting, and is used once it responds',
    }),
  ]);
});

test('a start that one server stops says nothing of the others, which the gateway asks no longer', async () => {
  const asked = Promise.withResolvers<void>();
  const silent = createServer(() => asked.resolve());
  await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve));
  stopAfterTest(() => new Promise((resolve) => silent.close(resolve)));
  const page = await ScriptedServer.start(async (_received, response) => {
    await asked.promise;
    response.writeHead(200, { 'content-type': 'text/html' }).end('<h1>hello</h1>');
  });
  stopAfterTest(() => page.stop());
  const { port } = silent.address() as AddressInfo;
  const config = testConfig(page.url);
  const routes = [`http://127.0.0.1:${port}/mcp`, page.url].flatMap((url, at) =>
    testConfig(url).routes.map((route) => ({ ...route, id: `r${at}`, path: `/r${at}/mcp` })),
  );
  const log = new RecordedLog();
  await expect(
    startGateway({ ...config, routes }, { log, clock: new ManualClock() }),
  ).rejects.toMatchObject({ code: 'upstream_not_mcp' });
  expect(log.named('upstream.unavailable').map(({ route }) => route)).toEqual(['r1']);
});

type Words = readonly [title: string, status: number, type: string, body: string, problem: string];

// Rule detection-9.
test.for<Words>([
  ['with text', 500, 'text/plain', 'no\n database', 'HTTP 500: "no database"'],
  [
    'with a JSON-RPC error',
    400,
    'application/json',
    JSON.stringify({ jsonrpc: '2.0', id: null, error: { code: -32000, message: 'Bad tenant' } }),
    'HTTP 400 (JSON-RPC error -32000): "Bad tenant"',
  ],
  ['with a page', 500, 'text/html', '<h1>Oops</h1>', 'HTTP 500'],
  [
    'with its credentials',
    404,
    'text/plain',
    'no /mcp?key=canary-query for canary-header',
    'HTTP 404: "no /mcp*** for ***"',
  ],
  [
    'with credentials that are cut off',
    503,
    'text/plain',
    `${'x'.repeat(150)}canary-header`,
    `the server is busy: HTTP 503: "${'x'.repeat(150)}***…"`,
  ],
])('a server that is no MCP server, and says so %s', async ([, status, type, body, problem]) => {
  const server = await ScriptedServer.start((_received, response) => {
    response.writeHead(status, { 'content-type': type }).end(body);
  });
  stopAfterTest(() => server.stop());
  const upstream = { headers: { 'x-api-key': 'canary-header' }, authorization: 'strip' } as const;
  const config = testConfig(`${server.url}?key=canary-query`, { upstream });
  const log = new RecordedLog();
  const started = await startGateway(config, { log, clock: new ManualClock() }).then(
    (gateway) => stopAfterTest(() => gateway.close()),
    String,
  );
  expect(log.named('upstream.unavailable')).toMatchObject([{ problem }]);
  // A status that a proxy gives while the server is down does not keep the gateway from starting.
  if (status >= 500) expect(started).toBeUndefined();
  else expect(started).toContain(`does not speak MCP: ${problem}; give the URL`);
});

// Rule detection-9: At the start, JSON that is no reply delays readiness. A page, text, redirect or 404 in place of
// MCP stops the start, and is logged in one line.
test('a server that sends JSON that is no reply while it starts is asked again', async () => {
  const starting = await ScriptedServer.start((_received, response) => {
    response.writeHead(200, { 'content-type': 'application/json' }).end('{"status":"starting"}');
  });
  stopAfterTest(() => starting.stop());
  const gateway = await gatewayTo(starting.url, {});
  expect(await readiness(gateway)).toMatchObject({
    status: 503,
    body: {
      routes: { mcp: expect.stringMatching(/^upstream_protocol_error: it sent JSON that is/) },
    },
  });
  expect(gateway.log.named('upstream.unavailable')).toMatchObject([
    { code: 'upstream_protocol_error' },
  ]);
  const port = Number(new URL(starting.url).port);
  await starting.stop();
  await legacy({ port });
  await gateway.log.saw('upstream.detected');
  expect((await readiness(gateway)).status).toBe(200);
});

// Rule detection-9.
test.each([
  [
    'https://user:canary-word@mcp.example.com/v2/mcp?key=canary-query',
    'https://mcp.example.com/v2/mcp',
  ],
  ['/mcp/?key=canary-query', '/mcp/'],
])('a server that redirects to %s', async (location, target) => {
  const server = await ScriptedServer.start((_received, response) => {
    response.writeHead(307, { location }).end();
  });
  stopAfterTest(() => server.stop());
  await expect(startTestGateway(server.url)).rejects.toMatchObject({
    code: 'upstream_not_mcp',
    message: expect.stringContaining(
      `does not speak MCP: it responded with a redirect to ${target} (HTTP 307), which the gateway does not follow; give`,
    ),
  });
});

// Rule detection-9.
test('a server that refuses initialize', async () => {
  const server = await ScriptedServer.start(({ body: { id } }, response) => {
    const error = { code: -32002, message: 'License expired' };
    json(response, 200, { jsonrpc: '2.0', id, error });
  });
  stopAfterTest(() => server.stop());
  const starting = startTestGateway(server.url, { transport: 'streamable-http' });
  await expect(starting).rejects.toMatchObject({
    message: expect.stringContaining(
      'it refused initialize with the JSON-RPC error -32002: "License expired"; give',
    ),
  });
});

const REFUSALS = [401, 403].flatMap((status) =>
  (['auto', 'streamable-http', 'http-sse'] as const).map((transport) => ({ status, transport })),
);

describe.each(REFUSALS)('a server refusing with $status, transport $transport', (refusal) => {
  const { status, transport } = refusal;

  // Rule detection-5: A server that refuses the gateway at the start waits for clients with credentials. If no
  // credentials of clients can reach it, the gateway does not start.
  test('is ready for clients that bring credentials', async () => {
    const gateway = await gatewayTo(await answering(status), { transport });
    expect(await readiness(gateway)).toEqual({
      status: 200,
      body: { status: 'ready', routes: { mcp: 'needs credentials' } },
    });
    expect(gateway.log.named('upstream.detected')).toEqual([]);
    expect(gateway.log.named('upstream.unavailable')).toEqual([]);
  });

  const authorization = 'Bearer operator';
  // Rule detection-5.
  test.each([
    ['are stripped', { authorization: 'strip' }],
    [
      'are stripped, the operator’s being there',
      { authorization: 'strip', headers: { authorization } },
    ],
    ['give way to the operator’s', { headers: { authorization } }],
  ] as const)('keeps the gateway from starting where theirs %s', async (_title, upstream) => {
    const url = await answering(status);
    const starting = startTestGateway(`${url}?key=operator`, { transport, upstream });
    const where = `the upstream of route "mcp", ${url}`;
    await expect(starting).rejects.toMatchObject({
      code: 'upstream_refused',
      message: `${where}, refuses the gateway (HTTP ${status}), and clients' credentials are not forwarded: correct upstream.headers, or let clients bring theirs with upstream.authorization: forward`,
    });
  });
});

// Rule detection-5.
test.each(['auto', 'streamable-http'] as const)(
  'a server that responds with 403 without credentials serves clients that bring some, transport %s',
  async (transport) => {
    const server = await ScriptedServer.start(({ method, headers, body }, response) => {
      if (method !== 'POST') return void response.writeHead(405).end();
      if (headers.authorization !== 'Bearer ada') return void response.writeHead(403).end();
      const { id } = body;
      if (body.method === 'initialize') {
        return json(response, 200, { jsonrpc: '2.0', id, result: INITIALIZE_RESULT });
      }
      if (id === undefined) return void response.writeHead(202).end();
      const result = { content: [{ type: 'text', text: 'done' }] };
      if (body.method === 'tools/call') return json(response, 200, { jsonrpc: '2.0', id, result });
      json(response, 400, { jsonrpc: '2.0', id, error: { code: -32601, message: 'no' } });
    });
    stopAfterTest(() => server.stop());
    const gateway = await gatewayTo(server.url, { transport });
    const headers = { authorization: 'Bearer ada' };
    const { response } = await callTool(gateway.url, 'x', {}, { headers });
    expect(response.result.content).toEqual([{ type: 'text', text: 'done' }]);
  },
);

// Rule detection-10.
test.each([401, 500])(
  'a server without sessions that answers server/discover with %i is ready, and serves calls',
  async (status) => {
    const server = await ScriptedServer.start(({ method, body }, response) => {
      if (method !== 'POST') return void response.writeHead(405).end();
      const { id } = body;
      if (id === undefined) return void response.writeHead(202).end();
      if (body.method === 'server/discover') return json(response, status, {});
      const done = { content: [{ type: 'text', text: 'done' }] };
      const result = body.method === 'initialize' ? INITIALIZE_RESULT : done;
      json(response, 200, { jsonrpc: '2.0', id, result });
    });
    stopAfterTest(() => server.stop());
    const gateway = await gatewayTo(server.url, {});
    expect(gateway.log.named('upstream.detected')).toMatchObject([{ cause: 'legacy_for_now' }]);
    expect((await readiness(gateway)).status).toBe(200);
    const { response } = await callTool(gateway.url, 'x');
    expect(response.result.content).toEqual([{ type: 'text', text: 'done' }]);
  },
);

/** A server that knows its users by `X-API-Key`, and refuses whoever has none. */
async function keyed(status: number, refusal: object): Promise<ScriptedServer> {
  const server = await ScriptedServer.start(({ method, headers, body }, response) => {
    if (method !== 'POST') return void response.writeHead(405).end();
    if (headers['x-api-key'] !== 'ada') return json(response, status, refusal);
    const { id } = body;
    if (id === undefined) return void response.writeHead(202).end();
    const done = { content: [{ type: 'text', text: 'done' }] };
    if (body.method === 'server/discover') return json(response, 404, {});
    const result = body.method === 'initialize' ? INITIALIZE_RESULT : done;
    json(response, 200, { jsonrpc: '2.0', id, result });
  });
  stopAfterTest(() => server.stop());
  return server;
}

const RPC_ERROR = { jsonrpc: '2.0', id: null, error: { code: -32000, message: 'Key missing' } };

// Rule detection-5.
test.each([
  [400, RPC_ERROR, 'auto', 'forward'],
  [400, RPC_ERROR, 'auto', 'strip'],
  [400, RPC_ERROR, 'streamable-http', 'forward'],
  [401, RPC_ERROR, 'auto', 'strip'],
  [422, { detail: 'Key missing' }, 'auto', 'forward'],
] as const)(
  'a server that refuses who has no key with %i, %j, serves clients that bring one, transport %s, authorization %s',
  async (status, refusal, transport, authorization) => {
    const server = await keyed(status, refusal);
    const upstream = { authorization, forwardHeaders: ['x-api-key'] };
    const gateway = await gatewayTo(server.url, { transport, upstream });
    expect(await readiness(gateway)).toMatchObject({
      status: 200,
      body: { routes: { mcp: 'needs credentials' } },
    });
    const { response } = await callTool(gateway.url, 'x', {}, { headers: { 'x-api-key': 'ada' } });
    expect(response.result.content).toEqual([{ type: 'text', text: 'done' }]);
    expect(gateway.log.named('upstream.detected')).toHaveLength(1);
    expect(gateway.log.named('upstream.refused')).toEqual([
      { route: 'mcp', status, said: expect.stringContaining('Key missing') },
    ]);
  },
);
