/** What keeps requests from the server: rates, tools that are busy, a server that is down, and too much load. */
import { createServer, type AddressInfo, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import {
  startTestGateway,
  type GatewayOverrides,
  type TestGateway,
} from '../../../fixtures/gateways/gateway.ts';
import { answersOf } from '../../../fixtures/gateways/replica-testbed.ts';
import { callTool, send, type Exchanged } from '../../../fixtures/clients/modern-client.ts';
import { freePort } from '../../../fixtures/processes.ts';
import { ChangingServer } from '../../../fixtures/servers/changing-server.ts';
import {
  eventStream,
  json,
  legacyServer,
  type Answer,
} from '../../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../../fixtures/stop-after-test.ts';

const IDENTITY = { source: 'header', header: 'x-user' } as const;
const by = (user: string) => ({ headers: { 'x-user': user } });
const rate = (requests: number) => ({ requests, windowMs: 60_000 });
const tool = { rate: null, ratePerPrincipal: null, maxRunning: null };

const QUESTION = {
  jsonrpc: '2.0',
  id: 'q',
  method: 'elicitation/create',
  params: {
    message: 'Name?',
    requestedSchema: { type: 'object', properties: { name: { type: 'string' } } },
  },
};
const done = (id: unknown) => ({
  jsonrpc: '2.0',
  id,
  result: { content: [{ type: 'text', text: 'done' }] },
});

/** A server whose tool `ask` asks a question, and whose other tools are done at once. */
async function start(overrides: GatewayOverrides, onCall: Answer = () => {}) {
  let asked: { readonly id: unknown; readonly stream: ReturnType<typeof eventStream> } | null =
    null;
  const server = await legacyServer(
    (received, response, request) => {
      const { body } = received;
      if (body.method === 'tools/list') {
        return json(response, 200, { jsonrpc: '2.0', id: body.id, result: { tools: [] } });
      }
      if (body.method === 'ping') return json(response, 200, { ...done(body.id), result: {} });
      if (body.params.name === 'ask') {
        asked = { id: body.id, stream: eventStream(response) };
        return asked.stream.send(QUESTION);
      }
      void onCall(received, response, request);
      if (!response.headersSent && body.params.name !== 'slow') json(response, 200, done(body.id));
    },
    {
      onResponse: (_received, response) => {
        response.writeHead(202).end();
        asked?.stream.send(done(asked.id));
        asked?.stream.end();
      },
    },
  );
  stopAfterTest(() => server.stop());
  const gateway = await startTestGateway(server.url, { admin: true, ...overrides });
  stopAfterTest(() => gateway.close());
  const calls = () => server.methods().filter((method) => method === 'tools/call').length;
  return { server, gateway, url: gateway.url, calls };
}

async function refusals({ adminUrl }: TestGateway): Promise<string[]> {
  const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
  const lines = metrics.matchAll(
    /^mrtr_gateway_limited_requests_total\{route="mcp",limit="([^"]*)"\} ([1-9]\d*)/gm,
  );
  return [...lines].map(([, limit, count]) => `${limit} ${count}`);
}

const textOf = ({ response }: Exchanged): unknown => response.result?.content?.[0]?.text;

describe('a rate', () => {
  // Rule admission-1: `limits.ratePerPrincipal` bounds the rate of requests of each caller. Further requests are not
  // sent to the server, and get error -32603 with `data.reason` `rate_limited`, `data.limit` and the time to wait,
  // `data.retryAfterMs`. Others are not affected.
  // Rule admission-2: A retry, with or without answers, and a request about a task are not refused by these limits: the
  // call was admitted before. A retry that is passed through is one more request (admission-8).
  test('of one caller holds for new calls and lists, and not for its retries or for others', async () => {
    const { gateway, url, calls } = await start({
      identity: IDENTITY,
      routeLimits: { ratePerPrincipal: rate(2) },
    });
    const asked = await callTool(url, 'ask', {}, by('Ada'));
    expect(textOf(await callTool(url, 'plain', {}, by('Ada')))).toBe('done');
    for (const method of ['tools/call', 'tools/list']) {
      const params = method === 'tools/call' ? { name: 'plain', arguments: {} } : {};
      const refused = await send(url, method, params, by('Ada'));
      expect(refused.status).toBe(200);
      expect(refused.response.error).toMatchObject({
        code: -32603,
        data: { reason: 'rate_limited', limit: 'limits.ratePerPrincipal' },
      });
      const { retryAfterMs } = refused.response.error.data;
      expect(retryAfterMs).toBeGreaterThan(0);
      expect(retryAfterMs).toBeLessThanOrEqual(60_000);
    }
    expect(calls()).toBe(2);
    expect(textOf(await callTool(url, 'plain', {}, by('Eve')))).toBe('done');
    expect(textOf(await callTool(url, 'ask', answersOf(asked, 'Ada'), by('Ada')))).toBe('done');
    expect(await refusals(gateway)).toEqual(['limits.ratePerPrincipal 2']);
    // One line for both.
    expect(gateway.log.named('request.limited')).toEqual([
      { route: 'mcp', limit: 'limits.ratePerPrincipal', refused: 1 },
    ]);
  });

  // Rule admission-3: `limits.rate` holds for all callers of the route together. A request that is refused by the
  // caller's own rate does not count here.
  test('of the route holds for all, and who exceeds its own rate takes nothing of it', async () => {
    const { url, calls } = await start({
      identity: IDENTITY,
      routeLimits: { rate: rate(3), ratePerPrincipal: rate(1) },
    });
    for (let index = 0; index < 5; index += 1) await callTool(url, 'plain', {}, by('Ada'));
    expect(textOf(await callTool(url, 'plain', {}, by('Bea')))).toBe('done');
    expect(textOf(await callTool(url, 'plain', {}, by('Cid')))).toBe('done');
    const refused = await callTool(url, 'plain', {}, by('Dan'));
    expect(refused.response.error.data).toMatchObject({ limit: 'limits.rate', mayHaveActed: 'no' });
    expect(calls()).toBe(3);
  });

  // Rule admission-4: `limits.tools` limits single tools, besides the limits of the route.
  test('of a tool holds for this tool only', async () => {
    const { url, calls } = await start({
      routeLimits: { tools: { mail: { ...tool, rate: rate(1) } } },
    });
    await callTool(url, 'mail');
    const refused = await callTool(url, 'mail');
    expect(refused.response.error.data).toMatchObject({ limit: 'limits.tools.rate' });
    expect(textOf(await callTool(url, 'plain'))).toBe('done');
    expect(calls()).toBe(2);
  });
});

// Rule admission-5: With `limits.tools.*.maxRunning` as many calls of a tool run at a time. One more gets error -32603
// with `data.reason` `tool_busy`. Retries count, and are not refused; parked calls do not count.
test('a tool that is busy takes no further call, and every retry', async () => {
  const { url, server, gateway } = await start(
    {
      routeLimits: {
        tools: { slow: { ...tool, maxRunning: 1 }, ask: { ...tool, maxRunning: 1 } },
      },
    },
    ({ body }, response) => {
      if (body.params.name !== 'slow') return;
      finish = () => json(response, 200, done(body.id));
    },
  );
  const [first, second] = [await callTool(url, 'ask'), await callTool(url, 'plain')];
  expect(textOf(second)).toBe('done');
  const slow = callTool(url, 'slow');
  await server.saw(({ body }) => body?.params?.name === 'slow');
  const refused = await callTool(url, 'slow');
  expect(refused.response.error.data).toMatchObject({
    reason: 'tool_busy',
    limit: 'limits.tools.maxRunning',
    retryAfterMs: 1_000,
  });
  expect(textOf(await callTool(url, 'ask', answersOf(first, 'Ada')))).toBe('done');
  finish();
  expect(textOf(await slow)).toBe('done');
  const again = callTool(url, 'slow');
  await server.saw(({ body }) => body?.params?.name === 'slow' && server.received.length > 0);
  await until(() => server.methods().filter((name) => name === 'tools/call').length === 4);
  finish();
  expect(textOf(await again)).toBe('done');
  expect(await refusals(gateway)).toEqual(['limits.tools.maxRunning 1']);
});

let finish = () => {};

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await sleep(5);
}

describe('a server that is down', () => {
  /** How it is left alone: for longer than a test takes, or hardly at all. */
  const breaker = (openForMs: number) => ({
    upstream: {
      circuitBreaker: {
        consecutiveFailures: 3,
        openForMs,
        maxOpenForMs: openForMs,
        statuses: [502, 503, 504],
      },
    },
  });

  // Rule admission-6: After `upstream.circuitBreaker.consecutiveFailures` failures in a row (no connection, no response
  // in time, 502, 503 or 504) new requests get error -32603 with `data.reason` `circuit_open` and the time to wait, and
  // the server is left alone: `mrtr_gateway_upstream_up` is 0. Then one request is tried. Parked calls and their retries
  // go on.
  // Rule admission-2.
  test('is left alone, while its parked calls go on', async () => {
    const { gateway, url, calls, server } = await start(breaker(600_000), (_received, response) => {
      response.writeHead(503, { 'content-type': 'text/plain' }).end('no database');
    });
    const asked = await callTool(url, 'ask');
    for (let index = 0; index < 3; index += 1) {
      expect((await callTool(url, 'plain')).response.error.data.reason).toBe('upstream_busy');
    }
    for (let index = 0; index < 5; index += 1) {
      const { status, headers, response } = await callTool(url, 'plain');
      // The header means nothing with a success (RFC 9110, section 10.2.3).
      expect([status, headers.get('retry-after')]).toEqual([200, null]);
      expect(response.error.data).toMatchObject({ reason: 'circuit_open', mayHaveActed: 'no' });
      expect(response.error.data.retryAfterMs).toBeLessThanOrEqual(750_000);
    }
    expect(calls()).toBe(4);
    expect(await open(gateway)).toBe('1');
    expect(await up(gateway)).toBe('0');
    expect(await refusals(gateway)).toEqual(['upstream.circuitBreaker 5']);
    expect(gateway.log.named('upstream.circuit_opened')).toEqual([
      {
        ...{ route: 'mcp', url: server.url },
        ...{ code: 'upstream_busy', problem: 'the server is busy: HTTP 503' },
      },
    ]);
    expect(textOf(await callTool(url, 'ask', answersOf(asked, 'Ada')))).toBe('done');
  });

  // Rule admission-6.
  test('is used again when it responds', async () => {
    let isDown = true;
    const { gateway, url } = await start(breaker(100), (_received, response) => {
      if (isDown) response.writeHead(503).end();
    });
    for (let index = 0; index < 3; index += 1) await callTool(url, 'plain');
    await gateway.log.saw('upstream.circuit_opened');
    isDown = false;
    while ((await callTool(url, 'plain')).response.error !== undefined) await sleep(20);
    expect(await open(gateway)).toBe('0');
    expect(await up(gateway)).toBe('1');
    expect(gateway.log.named('upstream.circuit_closed')).toEqual([{ route: 'mcp' }]);
  });

  // Rule admission-6.
  test('is found by requests that are passed through, too, and its line has no secret', async () => {
    const { upstream } = breaker(600_000);
    const url = `http://127.0.0.1:${await freePort()}/mcp`;
    const gateway = await startTestGateway(`${url}?key=hidden`, { upstream });
    stopAfterTest(() => gateway.close());
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/list' });
    const headers = { 'content-type': 'application/json', 'mcp-protocol-version': '2025-06-18' };
    while (gateway.log.named('upstream.circuit_opened').length === 0) {
      expect((await fetch(gateway.url, { method: 'POST', headers, body })).status).toBe(502);
    }
    const problem = expect.stringMatching(/^connection failed: .*ECONNREFUSED/);
    expect(gateway.log.named('upstream.circuit_opened')).toEqual([
      { route: 'mcp', url, code: 'upstream_unavailable', problem },
    ]);
  });

  // Rule admission-6.
  test('is one whose port is closed', async () => {
    const { server, url } = await start(breaker(600_000));
    await server.stop();
    const reasons: unknown[] = [];
    for (let index = 0; index < 5; index += 1) {
      reasons.push((await callTool(url, 'plain')).response.error.data.reason);
    }
    expect(reasons.slice(0, 1)).toEqual(['upstream_unavailable']);
    expect(reasons.slice(3)).toEqual(['circuit_open', 'circuit_open']);
  });

  // Rule admission-6.
  test('is one that accepts connections and replies to no initialize', async () => {
    const server = createServer();
    await new Promise<void>((listening) => server.listen(0, '127.0.0.1', listening));
    const sockets = new Set<Socket>();
    server.on('connection', (socket) => sockets.add(socket));
    stopAfterTest(async () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    });
    const { port } = server.address() as AddressInfo;
    const { upstream } = breaker(600_000);
    const gateway = await startTestGateway(`http://127.0.0.1:${port}/mcp`, {
      transport: 'streamable-http',
      upstream: { ...upstream, headersTimeoutMs: 200 },
      admin: true,
    });
    stopAfterTest(() => gateway.close());
    for (let index = 0; index < 3; index += 1) await callTool(gateway.url, 'plain');
    const { response } = await callTool(gateway.url, 'plain');
    expect(response.error.data).toMatchObject({ reason: 'circuit_open', mayHaveActed: 'no' });
    expect(await up(gateway)).toBe('0');
    expect(gateway.log.named('upstream.circuit_opened')).toMatchObject([
      { code: 'upstream_timeout', problem: expect.stringMatching(/ within 200 ms$/) },
    ]);
  });

  const open = (gateway: TestGateway) => gauge(gateway, 'mrtr_gateway_circuit_open');
  const up = (gateway: TestGateway) => gauge(gateway, 'mrtr_gateway_upstream_up');

  async function gauge({ adminUrl }: TestGateway, name: string): Promise<string | undefined> {
    const metrics = await (await fetch(`${adminUrl}/metrics`)).text();
    return new RegExp(`^${name}\\{route="mcp"\\} (\\d)`, 'm').exec(metrics)?.[1];
  }
});

// Rule admission-7: While the event loop is later than `limits.maxEventLoopDelay`, new requests get error -32603 with
// `data.reason` `overloaded` and `data.retryAfterMs`; retries are served.
test(
  'a process that cannot keep up refuses new calls, serves retries, and recovers',
  { tags: ['long'] },
  async () => {
    const { gateway, url } = await start({ limits: { maxEventLoopDelayMs: 100 } });
    const asked = await callTool(url, 'ask');
    const busy = setInterval(() => {
      const untilMs = performance.now() + 300;
      while (performance.now() < untilMs);
    }, 1);
    stopAfterTest(async () => clearInterval(busy));
    let refused = await callTool(url, 'plain');
    while (refused.response.error === undefined) refused = await callTool(url, 'plain');
    expect(refused.status).toBe(200);
    expect(refused.response.error.data).toMatchObject({
      reason: 'overloaded',
      retryAfterMs: 1_000,
    });
    expect(textOf(await callTool(url, 'ask', answersOf(asked, 'Ada')))).toBe('done');
    clearInterval(busy);
    let served = await callTool(url, 'plain');
    while (served.response.error !== undefined) {
      await sleep(100);
      served = await callTool(url, 'plain');
    }
    expect(textOf(served)).toBe('done');
    expect((await refusals(gateway))[0]).toMatch(/^limits\.maxEventLoopDelay /);
  },
);

describe('requests that are passed through', () => {
  /** A modern server behind a gateway with limits. */
  const modern = async (routeLimits: GatewayOverrides['routeLimits'] & object) => {
    const server = await ChangingServer.start('modern');
    const gateway = await startTestGateway(server.url, { routeLimits });
    stopAfterTest(() => gateway.close());
    const calls = () =>
      server.scripted.methods().filter((method) => method === 'tools/call').length;
    return { url: gateway.url, calls };
  };
  const post = (url: string, body: object, headers: Record<string, string> = {}) =>
    fetch(url, {
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        ...headers,
      },
      body: JSON.stringify(body),
    });
  const call = { jsonrpc: '2.0', id: 7, method: 'tools/call', params: { name: 'plain' } };
  const where = JSON.stringify({ ...call, params: { name: 'where' } });

  // Rule admission-8: Requests that are passed through to the endpoint of a server count as well. One beyond a rate
  // gets 429; one for a server that is down, or at a process that cannot keep up, gets 503. Both have `Retry-After`,
  // in seconds that are rounded up, and the same JSON-RPC error. Each request of a batch counts. A retry for a modern
  // server counts, since only that server knows whether it issued the `requestState`. So does a body that only the
  // server can read (a compressed one, for example); it gets 415 where single tools are limited. Responses,
  // notifications and other paths are not limited.
  test('get 429 with Retry-After, and answers of legacy clients pass', async () => {
    const { url, server, gateway } = await start({ routeLimits: { ratePerPrincipal: rate(1) } });
    const asked = await post(url, { ...call, params: { name: 'ask' } });
    const refused = await post(url, call);
    expect(refused.status).toBe(429);
    const seconds = Number(refused.headers.get('retry-after'));
    expect(seconds).toBeGreaterThan(0);
    expect(seconds).toBeLessThanOrEqual(60);
    expect(await refused.json()).toMatchObject({
      id: 7,
      error: { code: -32603, data: { reason: 'rate_limited', mayHaveActed: 'no' } },
    });
    const answer = { jsonrpc: '2.0', id: 'q', result: { action: 'decline' } };
    expect((await post(url, answer)).status).toBe(202);
    expect(await asked.text()).toContain('done');
    expect(server.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
    expect(await refusals(gateway)).toEqual(['limits.ratePerPrincipal 1']);
  });

  // Rule admission-8.
  test('of legacy clients count with the member of retries as well', async () => {
    const { url, calls } = await start({ routeLimits: { ratePerPrincipal: rate(1) } });
    const params = { name: 'plain', requestState: 'any' };
    expect((await post(url, { ...call, params })).status).toBe(200);
    expect((await post(url, { ...call, params })).status).toBe(429);
    expect(calls()).toBe(1);
  });

  // Rule admission-8.
  test('of a modern server count with a requestState as well, which only that server could check', async () => {
    const { url, calls } = await modern({ ratePerPrincipal: rate(1) });
    expect((await callTool(url, 'where')).status).toBe(200);
    const retry = { requestState: 'made-up', inputResponses: {} };
    expect((await callTool(url, 'where', retry)).status).toBe(429);
    expect(calls()).toBe(1);
  });

  // Rule admission-8.
  test('count each for itself in a batch, which is passed as a whole or not at all', async () => {
    const tools = { plain: { ...tool, rate: rate(1) } };
    const { url, server } = await start({ routeLimits: { tools } });
    const ping = { jsonrpc: '2.0', id: 6, method: 'ping' };
    const refused = await post(url, [ping, call, { ...call, id: 8 }]);
    expect(refused.status).toBe(429);
    expect(await refused.json()).toMatchObject({ id: 8, error: { code: -32603 } });
    expect(server.received.filter(({ body }) => Array.isArray(body))).toEqual([]);
  });

  // Rule admission-8.
  test('give their places back when a long batch is refused, without a warning', async () => {
    const warnings: string[] = [];
    const onWarning = ({ message }: Error) => void warnings.push(message);
    process.on('warning', onWarning);
    stopAfterTest(async () => void process.off('warning', onWarning));
    const tools = { plain: { ...tool, maxRunning: 30 } };
    const { url, calls } = await start({ routeLimits: { tools } });
    const batch = Array.from({ length: 31 }, (_, id) => ({ ...call, id }));
    for (let times = 0; times < 2; times += 1) {
      const refused = await post(url, batch);
      expect(await refused.json()).toMatchObject({ id: 30, error: { code: -32603 } });
    }
    expect(calls()).toBe(0);
    expect(warnings).toEqual([]);
  });

  // Rule admission-8.
  test('of a modern server count when only the server could read them', async () => {
    const { url } = await modern({ ratePerPrincipal: rate(1) });
    expect((await callTool(url, 'where')).status).toBe(200);
    const compressed = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-encoding': 'gzip' },
      body: gzipSync(JSON.stringify(call)),
    });
    expect(compressed.status).toBe(429);
    expect(await compressed.json()).toMatchObject({ error: { data: { reason: 'rate_limited' } } });
  });

  // Rule admission-8.
  test.each([
    ['compressed', gzipSync(where), { 'content-encoding': 'gzip' }],
    ['in UTF-16', Buffer.from(`\ufeff${where}`, 'utf16le'), {}],
    ['with two names', where.replace('{"name"', '{"name":"other","name"'), {}],
    ['with a list for a name', where.replace('"where"', '["where"]'), {}],
    [
      'with a name that is not a string',
      where.replace('"where"', '{"toString":1,"valueOf":1}'),
      {},
    ],
  ])('of a modern server get 415 where tools are limited: %s', async (_how, body, headers) => {
    const { url, calls } = await modern({ tools: { where: { ...tool, maxRunning: 1 } } });
    const response = await fetch(url, {
      method: 'POST',
      headers: { 'content-type': 'application/json', ...headers },
      body,
    });
    expect(response.status).toBe(415);
    expect(await response.json()).toMatchObject({ error: { code: -32600 } });
    expect(calls()).toBe(0);
  });

  // Rule admission-8.
  test('get 503 with Retry-After while the server is down', async () => {
    const circuitBreaker = {
      consecutiveFailures: 5,
      openForMs: 60_000,
      maxOpenForMs: 60_000,
      statuses: [503],
    };
    const { url } = await start(
      { upstream: { circuitBreaker } },
      (_received, response) => void response.writeHead(503).end(),
    );
    for (let index = 0; index < 5; index += 1) {
      const failed = await post(url, call);
      expect([failed.status, failed.headers.get('retry-after')]).toEqual([503, null]);
    }
    const refused = await post(url, call);
    expect(refused.status).toBe(503);
    const { error } = (await refused.json()) as { error: { data: Record<string, unknown> } };
    expect(error.data).toMatchObject({ reason: 'circuit_open', mayHaveActed: 'no' });
    const waitMs = Number(error.data['retryAfterMs']);
    expect(waitMs).toBeGreaterThan(1_000);
    expect(refused.headers.get('retry-after')).toBe(String(Math.ceil(waitMs / 1_000)));
  });
});
