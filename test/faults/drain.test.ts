/** A replica is told to stop: what it holds goes on elsewhere, is finished, or is told. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { describe, expect, test } from 'vitest';
import {
  answersOf,
  greeter,
  legacyServer,
  reasonOf,
  redisServer,
  replica,
  replicas,
  roundRobin,
  slowGreeter,
  stateOf,
  text,
} from '../fixtures/gateways/replica-testbed.ts';
import { GatewayProcess } from '../fixtures/gateways/gateway-process.ts';
import {
  askName,
  type LegacyServer,
  type LegacyServerOptions,
} from '../fixtures/servers/legacy-server.ts';
import {
  eventStream,
  legacyServer as scriptedServer,
} from '../fixtures/servers/scripted-server.ts';
import { callTool, type Exchanged } from '../fixtures/clients/modern-client.ts';
import { connectModernClient } from '../fixtures/clients/official-client.ts';
import { stopAfterTest } from '../fixtures/stop-after-test.ts';

/** A call that the server has the answer of, and works on. */
async function atWork(
  gateway: GatewayProcess,
  legacy: LegacyServer,
): Promise<{ readonly answer: Promise<Exchanged> }> {
  const asked = await callTool(gateway.url, 'greet');
  const answer = callTool(gateway.url, 'greet', answersOf(asked, 'Ada'));
  await legacy.saw('response');
  return { answer };
}

describe('a call that another replica can resume', () => {
  // Rule drain-2 (MRTR, "Server Requirements" 6): A call that another replica can continue stays with its server. A
  // waiting client is told to retry, at most twice in a call.
  test('is left to the server while it is parked, and goes on there', async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const [one, other] = await replicas(legacy, 2);
    const asked = await callTool(one.url, 'greet');
    expect(await one.drain()).toBe(0);
    expect(legacy.methods()).not.toContain('notifications/cancelled');
    const done = await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
    expect(text(done)).toBe('Hello Ada');
    expect(await other.recoveries()).toEqual(['reattach']);
    expect(effects).toEqual(['Ada']);
  });

  // Rule drain-2.
  test('is handed over while it is at work: its client is told to call again', async () => {
    const { effects, tools, finish } = slowGreeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const [one, other] = await replicas(legacy, 2);
    const working = await atWork(one, legacy);
    expect(await one.drain()).toBe(0);
    const told = await working.answer;
    expect(told.response.result.resultType).toBe('input_required');
    expect(told.response.result.inputRequests).toEqual({});
    const retried = callTool(other.url, 'greet', { requestState: stateOf(told) });
    finish();
    expect(text(await retried)).toBe('Hello Ada');
    expect(effects).toEqual(['Ada']);
  });

  // Rule retries-2.
  test('and whose retry came twice has one outcome, at whatever replica', async () => {
    const { effects, tools, finish } = slowGreeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const [one, other, third] = await replicas(legacy, 3);
    const asked = await callTool(one.url, 'greet');
    const first = callTool(one.url, 'greet', answersOf(asked, 'Ada'));
    await legacy.saw('response');
    expect(await one.drain()).toBe(0);
    const told = { requestState: stateOf(await first) };
    const again = callTool(other.url, 'greet', answersOf(asked, 'Ada'));
    await other.saw('call.resumed');
    const meanwhile = callTool(other.url, 'greet', told);
    await other.saw('call.resumed', 2);
    finish();
    expect(text(await again)).toBe('Hello Ada');
    expect(text(await meanwhile)).toBe('Hello Ada');
    expect(text(await callTool(other.url, 'greet', told))).toBe('Hello Ada');
    await other.kill();
    expect(text(await callTool(third.url, 'greet', told))).toBe('Hello Ada');
    expect(effects).toEqual(['Ada']);
  });
});

describe('a call that no other process can resume', () => {
  // Rule drain-1.
  test('is finished, when it can be in time', async () => {
    const { tools, finish } = slowGreeter();
    const legacy = await legacyServer({ tools });
    const config = { drain: { delay: '0s', timeout: '20s' } };
    const [one] = await replicas(legacy, 1, { config });
    const working = await atWork(one, legacy);
    const gone = one.drain();
    await one.saw('gateway.draining');
    finish();
    expect(text(await working.answer)).toBe('Hello Ada');
    expect(await gone).toBe(0);
  });

  // Rule drain-5: Every other call is cancelled, with -32603 and `data.reason` `draining`. Its later retry is told
  // that the call is lost.
  test('is cancelled when it cannot, and its client is told why', async () => {
    const { tools } = slowGreeter();
    const legacy = await legacyServer({ tools });
    const config = { drain: { delay: '0s', timeout: '100ms' } };
    const [one] = await replicas(legacy, 1, { config });
    const working = await atWork(one, legacy);
    expect(await one.drain()).toBe(0);
    expect(reasonOf(await working.answer)).toBe('draining');
    await legacy.saw('notifications/cancelled');
  });

  // Rule drain-5.
  test(
    'is cancelled where no other process could open its pointer, though the server keeps its events',
    { tags: ['long'] },
    async () => {
      const { tools } = slowGreeter();
      const legacy = await legacyServer({ tools, keepsEvents: true });
      const config = { seal: {}, drain: { delay: '0s', timeout: '100ms' } };
      const [one] = await replicas(legacy, 1, { relay: false, config });
      const working = await atWork(one, legacy);
      expect(await one.drain()).toBe(0);
      expect(reasonOf(await working.answer)).toBe('draining');
      await legacy.saw('notifications/cancelled');
    },
  );

  // Rule drain-12: A drain that ends parked calls logs a warning with their number.
  // Rule drain-5.
  test('is cancelled while it is parked, and its retry elsewhere is told that it is lost', async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools });
    const [one, other] = await replicas(legacy, 2);
    const asked = await callTool(one.url, 'greet');
    expect(await one.drain()).toBe(0);
    expect(one.named('gateway.calls_lost')).toMatchObject([{ level: 'warn', calls: 1 }]);
    await legacy.saw('notifications/cancelled');
    const retried = await callTool(other.url, 'greet', answersOf(asked, 'Ada'));
    expect(reasonOf(retried)).toBe('call_lost');
    expect(effects).toEqual([]);
  });
});

/**
 * Two replicas in front of a server that never ends a stream, so that the drain of the first takes its
 * time; and a call that is parked there.
 */
async function endedByDrain(route: object = {}) {
  let asking = true;
  const server = await scriptedServer(({ body }, response) => {
    const stream = eventStream(response);
    const params = { message: 'Sure?', requestedSchema: { type: 'object', properties: {} } };
    const content = [{ type: 'text', text: 'done' }];
    if (asking) stream.send({ jsonrpc: '2.0', id: 'sure', method: 'elicitation/create', params });
    else stream.send({ jsonrpc: '2.0', id: body.id, result: { content } });
  });
  stopAfterTest(() => server.stop());
  const start = async () => {
    const gateway = await GatewayProcess.start({ upstream: server.url, relay: true, route });
    stopAfterTest(() => gateway.kill());
    return gateway;
  };
  const [one, other] = [await start(), await start()];
  const asked = await callTool(one.url, 'greet');
  asking = false;
  const retryAt = ({ url }: GatewayProcess) => callTool(url, 'greet', answersOf(asked, 'Ada'));
  const gone = one.drain();
  await server.saw(({ body }) => body?.method === 'notifications/cancelled');
  return { one, other, retryAt, gone };
}

describe('while a replica stops that has ended a parked call', () => {
  // Rule drain-5.
  test('a retry there and one that is relayed to it are told that the call is lost', async () => {
    const { one, other, retryAt, gone } = await endedByDrain();
    const told = await Promise.all([retryAt(one), retryAt(other), retryAt(one)]);
    expect(told.map(reasonOf)).toEqual(['call_lost', 'call_lost', 'call_lost']);
    for (const { response } of told) {
      expect(response.result._meta['mrtr-gateway/mayHaveActed']).toBe('yes');
    }
    expect(await gone).toBe(0);
  });

  // Rule drain-5.
  test('a retry elsewhere replays it where that is allowed', { tags: ['long'] }, async () => {
    const { one, other, retryAt, gone } = await endedByDrain({
      continuation: { replay: { tools: ['greet'] } },
    });
    const refused = await retryAt(one);
    expect(refused.response.error.data).toEqual({
      reason: 'stopping',
      retryAfterMs: 1_000,
      mayHaveActed: 'yes',
      retryable: true,
      help: 'mrtr-gateway/docs/operate/errors.md#stopping',
    });
    expect(text(await retryAt(other))).toBe('done');
    expect(await other.recoveries()).toEqual(['replay']);
    expect(await gone).toBe(0);
  });
});

describe('with drain.parked a parked call that no other process can resume', () => {
  const keeping = (parked: string) => ({ drain: { delay: '0s', parked, timeout: '2s' } });

  // Rule drain-4: Parked calls and tasks that no other process can resume are kept for `drain.parked` (50 s by
  // default), and their retries are served.
  test('is kept for 50 s unless the configuration says otherwise', async () => {
    const { tools } = greeter();
    const config = { drain: { delay: '0s', parked: undefined, timeout: '2s' } };
    const [one] = await replicas(await legacyServer({ tools }), 1, { config });
    const asked = await callTool(one.url, 'greet');
    const gone = one.drain();
    await one.saw('gateway.calls_kept');
    expect(one.named('gateway.calls_kept')).toMatchObject([
      { level: 'info', calls: 1, forMs: 50_000 },
    ]);
    expect(text(await callTool(one.url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
    expect(await gone).toBe(0);
  });

  // Rule drain-4.
  test('is kept, and its retry is served wherever it lands', async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools });
    const [one, other] = await replicas(legacy, 2, { config: keeping('1h') });
    const [first, second] = [await callTool(one.url, 'greet'), await callTool(one.url, 'greet')];
    const gone = one.drain();
    await one.saw('gateway.draining');
    expect(text(await callTool(other.url, 'greet', answersOf(first, 'Ada')))).toBe('Hello Ada');
    expect(text(await callTool(one.url, 'greet', answersOf(second, 'Bob')))).toBe('Hello Bob');
    expect(await gone).toBe(0);
    expect(one.named('gateway.calls_lost')).toEqual([]);
    expect(effects).toEqual(['Ada', 'Bob']);
    expect(legacy.methods()).not.toContain('notifications/cancelled');
  });

  // Rule drain-4.
  test('is kept when its retry parks it again', { tags: ['long'] }, async () => {
    const tools: LegacyServerOptions['tools'] = {
      greet: async (call) => `Hello ${await askName(call)} ${await askName(call)}`,
    };
    const [one] = await replicas(await legacyServer({ tools }), 1, { config: keeping('1h') });
    const first = await callTool(one.url, 'greet');
    const gone = one.drain();
    await one.saw('gateway.draining');
    const second = await callTool(one.url, 'greet', answersOf(first, 'Ada'));
    const done = await callTool(one.url, 'greet', answersOf(second, 'Lovelace'));
    expect(text(done)).toBe('Hello Ada Lovelace');
    expect(await gone).toBe(0);
  });

  // Rule drain-4.
  test('is cancelled when that time is over', { tags: ['long'] }, async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools });
    const [one] = await replicas(legacy, 1, { config: keeping('100ms') });
    await callTool(one.url, 'greet');
    expect(await one.drain()).toBe(0);
    await legacy.saw('notifications/cancelled');
    expect(effects).toEqual([]);
  });
});

// Rule drain-4.
test(
  'with drain.parked a parked call that another replica can resume is not waited for',
  { tags: ['long'] },
  async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const config = { drain: { delay: '0s', parked: '1h', timeout: '2s' } };
    const [one, other] = await replicas(legacy, 2, { config });
    const asked = await callTool(one.url, 'greet');
    expect(await one.drain()).toBe(0);
    expect(text(await callTool(other.url, 'greet', answersOf(asked, 'Ada')))).toBe('Hello Ada');
    expect(effects).toEqual(['Ada']);
  },
);

// Rule store-3.
test(
  'a call that the server ended by itself while nobody waited leaves its outcome for other replicas',
  { tags: ['redis'] },
  async () => {
    const patience = new AbortController();
    const tools: LegacyServerOptions['tools'] = {
      greet: async (call) => {
        await askName(call, 'Your name?', 'name', patience.signal).catch(() => 'nobody');
        return 'Hello whoever';
      },
    };
    const redis = await redisServer();
    const [one, other] = await replicas(await legacyServer({ tools }), 2, { redis: redis.url });
    const answers = answersOf(await callTool(one.url, 'greet'), 'Ada');
    patience.abort();
    await one.saw('call.result_ready');
    expect(await one.drain()).toBe(0);
    expect(text(await callTool(other.url, 'greet', answers))).toBe('Hello whoever');
    expect(await other.recoveries()).toEqual(['outcome']);
  },
);

test('a call of a legacy client is finished, and its standalone stream does not delay the end', async () => {
  const [listening, finishing] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
  const legacy = await legacyServer({ tools: { work: () => finishing.promise } });
  const config = { drain: { delay: '0s', timeout: '1h' } };
  const [one] = await replicas(legacy, 1, { config });
  const client = new Client({ name: 'legacy', version: '1.0.0' });
  stopAfterTest(() => client.close());
  const transport = new StreamableHTTPClientTransport(new URL(one.url), {
    fetch: async (url, init) => {
      const answer = await fetch(url, init);
      if (init?.method === 'GET' && answer.ok) listening.resolve();
      return answer;
    },
  });
  // The SDK's own types disagree under exactOptionalPropertyTypes.
  await client.connect(transport as Parameters<Client['connect']>[0]);
  await listening.promise;
  const answer = client.callTool({ name: 'work', arguments: {} });
  await legacy.saw('tools/call');
  const gone = one.drain();
  await one.saw('gateway.draining');
  finishing.resolve('worked');
  expect(await answer).toMatchObject({ content: [{ text: 'worked' }] });
  expect(await gone).toBe(0);
});

// Rule passthrough-14.
test.each(['*/*', 'text/event-stream'])(
  'a legacy client that listens over HTTP+SSE with Accept: %s does not delay the end',
  async (accept) => {
    const legacy = await legacyServer({ transport: 'http-sse' });
    const config = { drain: { delay: '0s', timeout: '1h' } };
    const [one] = await replicas(legacy, 1, { config });
    const leaving = new AbortController();
    stopAfterTest(async () => leaving.abort());
    const stream = await fetch(one.url, { headers: { accept }, signal: leaving.signal });
    expect(stream.headers.get('content-type')).toBe('text/event-stream');
    expect(await one.drain()).toBe(0);
  },
);

// Rule drain-1: New calls get -32603 with `data.reason` `stopping`, and readiness ends. Running requests finish
// within `drain.timeout`.
// Rule drain-10: Each response closes its connection. `data.retryAfterMs`, and `Retry-After` of `/readyz`, say when
// to retry.
test('new calls are refused while a replica drains, and readiness says so', async () => {
  const { tools, finish } = slowGreeter();
  const legacy = await legacyServer({ tools });
  const config = { drain: { delay: '0s', timeout: '20s' } };
  const [one] = await replicas(legacy, 1, { config });
  const working = await atWork(one, legacy);
  const gone = one.drain();
  await one.saw('gateway.draining');
  const readiness = await fetch(`${one.adminUrl}/readyz`);
  expect([readiness.status, readiness.headers.get('retry-after')]).toEqual([503, '1']);
  expect(await readiness.json()).toMatchObject({ status: 'draining' });
  const refused = await callTool(one.url, 'greet');
  expect(refused.response.error.data).toMatchObject({ reason: 'stopping', retryAfterMs: 1_000 });
  finish();
  const finished = await working.answer;
  // Also of a response to a request that was there before.
  expect([refused, finished].map(({ headers }) => headers.get('connection'))).toEqual([
    'close',
    'close',
  ]);
  await gone;
});

// Rule drain-11: A new request of a legacy client gets 503 with `Retry-After`. Its answers and notifications pass.
test('a legacy client is told to retry later, and finishes what it has begun', async () => {
  const { tools } = greeter();
  const legacy = await legacyServer({ tools });
  const config = { drain: { delay: '0s', timeout: '20s' } };
  const [one] = await replicas(legacy, 1, { config });
  const { client, post } = await legacyClient(one.url);
  const answering = Promise.withResolvers<{ name: string }>();
  client.setRequestHandler(ElicitRequestSchema, async () => ({
    action: 'accept',
    content: await answering.promise,
  }));
  const answer = client.callTool({ name: 'greet', arguments: {} });
  await legacy.saw('tools/call');
  const gone = one.drain();
  await one.saw('gateway.draining');
  const list = () => post({ jsonrpc: '2.0', id: 7, method: 'tools/list' });
  let refused = await list();
  while (refused.status === 200) refused = await list();
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
  expect(await refused.json()).toMatchObject({
    id: 7,
    error: { code: -32603, data: { reason: 'stopping', mayHaveActed: 'no', retryAfterMs: 1_000 } },
  });
  answering.resolve({ name: 'Ada' });
  expect(await answer).toMatchObject({ content: [{ text: 'Hello Ada' }] });
  expect(await gone).toBe(0);
});

test.each([1, 2])(
  'a connection to the admin listener without a whole request does not hold up the end (%i worker(s))',
  async (workers) => {
    const legacy = await legacyServer({ tools: greeter().tools });
    const gateway = await replica(legacy, { relay: false, config: { workers } });
    const { hostname, port } = new URL(gateway.adminUrl);
    for (const bytes of ['', 'GET /heal']) {
      const socket = connect(Number(port), hostname);
      stopAfterTest(async () => socket.destroy());
      await once(socket, 'connect');
      socket.write(bytes);
    }
    // By then the listener has the connections, too.
    expect((await fetch(`${gateway.adminUrl}/healthz`)).status).toBe(200);
    expect(await gateway.drain()).toBe(0);
  },
);

/** A connected client of the official SDK, and what posts a message in its session. */
async function legacyClient(url: string) {
  const client = new Client(
    { name: 'legacy', version: '1.0.0' },
    { capabilities: { elicitation: {} } },
  );
  stopAfterTest(() => client.close());
  const transport = new StreamableHTTPClientTransport(new URL(url));
  // The SDK's own types disagree under exactOptionalPropertyTypes.
  await client.connect(transport as Parameters<Client['connect']>[0]);
  const headers = {
    'content-type': 'application/json',
    accept: 'application/json, text/event-stream',
    'mcp-session-id': String(transport.sessionId),
    'mcp-protocol-version': String(transport.protocolVersion),
  };
  const post = (message: object) =>
    fetch(url, { method: 'POST', headers, body: JSON.stringify(message) });
  return { client, post };
}

// Rule drain-2.
test(
  'two replicas that are restarted one after the other under load fail no call',
  { tags: ['long'], timeout: 60_000 },
  async () => {
    const { effects, tools } = greeter();
    const legacy = await legacyServer({ tools, keepsEvents: true });
    const config = { drain: { delay: '300ms', timeout: '5s' } };
    let fleet = [...(await replicas(legacy, 2, { config }))];
    const front = await roundRobin(fleet);
    let stopping = false;
    const results: unknown[] = [];
    let hasResult = Promise.withResolvers<void>();
    const caller = async (who: number) => {
      const client = await connectModernClient(front.url, () => ({ name: `caller ${who}` }));
      while (!stopping) {
        const result = await client.callTool({ name: 'greet', arguments: {} });
        results.push((result.content as { text: string }[])[0]?.text);
        hasResult.resolve();
        hasResult = Promise.withResolvers();
      }
      await client.close();
    };
    const callers = Promise.all(Array.from({ length: 8 }, (_, who) => caller(who)));
    for (const old of [...fleet]) {
      const before = results.length;
      const fresh = await replica(legacy, { config });
      fleet = [...fleet.filter((one) => one !== old), fresh];
      // As an orchestrator does it: the endpoint goes from the front, and the process is told to stop.
      const gone = old.drain();
      front.use(fleet.map(({ url }) => url));
      expect(await gone).toBe(0);
      // A promise that is resolved already would keep the callers, which are in this process, from their turn.
      while (results.length < before + 20) await Promise.race([callers, hasResult.promise]);
    }
    stopping = true;
    await callers;
    expect(results.filter((words) => !/^Hello caller \d$/.test(String(words)))).toEqual([]);
    expect(effects).toHaveLength(results.length);
  },
);
