/** The calls of one caller find what the server keeps in its session. */
import { describe, expect, test } from 'vitest';
import {
  accept,
  callTool,
  type Exchanged,
  type SendOptions,
} from '../../fixtures/clients/modern-client.ts';
import { startTestGateway, type GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { ManualClock, advanceUntil, turnsUntil } from '../../fixtures/manual-clock.ts';
import { countingServer } from '../../fixtures/servers/counting-server.ts';
import type { LegacyServerOptions } from '../../fixtures/servers/legacy-server.ts';
import { json, legacyServer } from '../../fixtures/servers/scripted-server.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const ADA: SendOptions = { headers: { authorization: 'Bearer ada' } };
const BOB: SendOptions = { headers: { authorization: 'Bearer bob' } };

async function stage({
  gateway = {},
  ...server
}: Omit<LegacyServerOptions, 'tools'> & { gateway?: GatewayOverrides } = {}) {
  const counting = await countingServer(server);
  const started = await startTestGateway(counting.server.url, gateway);
  stopAfterTest(() => started.close());
  const call = (name: string, options: SendOptions = {}, more: object = {}) =>
    callTool(started.url, name, more, options);
  return { ...counting, gateway: started, call };
}

function textOf({ response }: Exchanged): string {
  return String(response.result?.content?.[0]?.text ?? JSON.stringify(response));
}

/** What a retry of a call that asks sends. */
function answers({ response }: Exchanged, name = 'Ada'): object {
  const { requestState, inputRequests } = response.result;
  const inputResponses = Object.fromEntries(
    Object.keys(inputRequests).map((key) => [key, accept({ name })]),
  );
  return { requestState, inputResponses };
}

describe.each(['streamable-http', 'http-sse'] as const)('over %s', (transport) => {
  // Rule sessions-2: All calls of a caller use one session, its home. It is kept for `sessions.idleTimeout` without
  // a call, and pinged.
  test('calls in sequence share a session, for the local user and for callers with credentials', async () => {
    const { call } = await stage({ transport });
    for (const caller of [{}, ADA]) {
      const counts = [];
      for (let at = 0; at < 3; at += 1) counts.push(textOf(await call('count', caller)));
      expect(counts).toEqual(['1', '2', '3']);
    }
  });

  // Rule sessions-2.
  test('calls at once share a session', async () => {
    const { call } = await stage({ transport });
    const counts = await Promise.all([1, 2, 3, 4, 5].map(() => call('count')));
    expect(counts.map(textOf).sort()).toEqual(['1', '2', '3', '4', '5']);
  });

  // Rule sessions-2.
  test.each(['ask', 'ask-uncorrelated'])(
    'a question of %s does not change the session',
    async (tool) => {
      const { call } = await stage({ transport });
      expect(textOf(await call('count'))).toBe('1');
      const asked = await call(tool);
      expect(textOf(await call('count'))).toBe('2');
      expect(textOf(await call(tool, {}, answers(asked)))).toBe('Ada 3');
      expect(textOf(await call('count'))).toBe('4');
    },
  );

  // Rule sessions-1.
  test('two callers never meet', async () => {
    const { call } = await stage({ transport });
    const counts = [];
    for (const caller of [ADA, BOB, {}, ADA, BOB, {}])
      counts.push(textOf(await call('count', caller)));
    expect(counts).toEqual(['1', '1', '1', '2', '2', '2']);
  });

  // Rule sessions-2.
  test('a session that was idle for 20 minutes is the same', async () => {
    const clock = new ManualClock();
    // The timer of a ping's reply must not look like that of the next ping.
    const upstream = { headersTimeoutMs: 10_000 };
    const { call, server } = await stage({ transport, gateway: { clock, upstream } });
    expect(textOf(await advanceUntil(clock, call('count')))).toBe('1');
    clock.advance(5_000);
    clock.advance(55_000);
    await server.saw('ping');
    // The next ping follows the reply to the one before.
    for (let minute = 2; minute <= 20; minute += 1) {
      await turnsUntil(() => clock.nextInMs === 60_000);
      clock.advance(60_000);
      await server.saw('ping', minute);
    }
    expect(textOf(await advanceUntil(clock, call('count')))).toBe('2');
  });

  // Rule sessions-6.
  test('a session goes on after a call in it was cancelled', async () => {
    const { call, server, open } = await stage({ transport });
    expect(textOf(await call('count'))).toBe('1');
    const leaving = new AbortController();
    const left = call('slow', { signal: leaving.signal });
    await server.saw('tools/call', 2);
    leaving.abort();
    await expect(left).rejects.toThrow();
    await server.saw('notifications/cancelled');
    open();
    expect(textOf(await call('count'))).toBe('3');
    expect(textOf(await call('count'))).toBe('4');
  });

  // Rule sessions-15: A home that the server has forgotten, or that made room for another, gets a new session. The
  // gateway logs it, and the client gets one log message.
  test('a session that the server forgot is replaced, and the caller is told once', async () => {
    const { call, server, gateway } = await stage({ transport });
    const logs = { meta: { 'io.modelcontextprotocol/logLevel': 'info' } };
    expect(textOf(await call('count'))).toBe('1');
    await server.forget();
    const [told, again] = [await call('count', logs), await call('count', logs)];
    expect([textOf(told), textOf(again)]).toEqual(['1', '2']);
    expect(told.notifications).toMatchObject([
      {
        method: 'notifications/message',
        params: { level: 'warning', logger: 'mrtr-gateway', data: expect.stringContaining('gone') },
      },
    ]);
    expect(again.notifications).toEqual([]);
    expect(gateway.log.named('session.replaced')).toHaveLength(1);
  });
});

describe('a caller', () => {
  const named = { identity: { source: 'header', header: 'x-user' } } as const;

  // Rule sessions-1.
  test('whom a header names keeps its session with a new token, and its requests carry that token', async () => {
    const { call, server } = await stage({ gateway: named });
    const as = (token: string) => ({
      headers: { 'x-user': 'ada', authorization: `Bearer ${token}` },
    });
    expect(textOf(await call('count', as('old')))).toBe('1');
    expect(textOf(await call('count', as('new')))).toBe('2');
    expect(server.tokens('tools/call')).toEqual(['Bearer old', 'Bearer new']);
  });

  // Rule sessions-2.
  test('whose token the server refuses is not pinged for until it brings a new one', async () => {
    const clock = new ManualClock();
    let valid = 'Bearer old';
    const pings: unknown[] = [];
    const server = await legacyServer(({ body, headers: { authorization } }, response) => {
      if (body.method === 'ping') pings.push(authorization);
      if (authorization !== valid) return json(response, 401, {});
      json(response, 200, { jsonrpc: '2.0', id: body.id, result: { content: [] } });
    });
    const gateway = await startTestGateway(server.url, { ...named, clock });
    stopAfterTest(() => gateway.close());
    const callWith = async (authorization: string) => {
      const headers = { 'x-user': 'ada', authorization };
      return advanceUntil(clock, callTool(gateway.url, 'count', {}, { headers }));
    };
    await callWith(valid);
    valid = 'Bearer new';
    clock.advance(60_000);
    await turnsUntil(() => pings.length > 0);
    // No timer but that of the idle time is left, once the refusal is here.
    await turnsUntil(() => (clock.nextInMs ?? 0) > 60_000);
    clock.advance(600_000);
    expect(pings).toEqual(['Bearer old']);
    expect((await callWith(valid)).response.result).toBeDefined();
    clock.advance(60_000);
    await turnsUntil(() => pings.length > 1);
    expect(pings).toEqual(['Bearer old', 'Bearer new']);
    // The first one was to find out what server it is.
    expect(server.received.filter(({ body }) => body?.method === 'initialize')).toHaveLength(2);
  });

  // Rule sessions-1.
  test('whom nothing but a token names has another session with another token', async () => {
    const { call } = await stage();
    expect(textOf(await call('count', ADA))).toBe('1');
    expect(textOf(await call('count', BOB))).toBe('1');
    expect(textOf(await call('count', ADA))).toBe('2');
  });

  // Rule sessions-1.
  test('has a session for each conversation that a header names', async () => {
    const { call } = await stage({ gateway: { sessions: { key: { header: 'X-Conversation' } } } });
    const counts = [];
    for (const name of ['one', 'other', 'one'])
      counts.push(textOf(await call('count', { headers: { 'x-conversation': name } })));
    expect(counts).toEqual(['1', '1', '2']);
  });

  // Rule sessions-2.
  test('finds its state in a call that runs while another waits for its client', async () => {
    const { call, open, server } = await stage();
    const asked = await call('ask');
    const slow = call('slow');
    await server.saw('tools/call', 2);
    expect(textOf(await call('count'))).toBe('2');
    open();
    expect(textOf(await slow)).toBe('1');
    expect(textOf(await call('ask', {}, answers(asked)))).toBe('Ada 3');
  });

  // Rule sessions-3.
  test('has a session for each call at once where sessions.concurrency is separate', async () => {
    const { call, open, server } = await stage({
      gateway: { sessions: { concurrency: 'separate' } },
    });
    const slow = call('slow');
    await server.saw('tools/call');
    expect(textOf(await call('count'))).toBe('1');
    open();
    expect(textOf(await slow)).toBe('1');
    expect(textOf(await call('count'))).toBe('2');
  });

  // Rule sessions-12.
  test('gets an error that it can repeat when too many of its calls wait', async () => {
    const { call, open, server } = await stage({
      gateway: { sessions: { concurrency: 'queue' } },
    });
    const slow = call('slow');
    await server.saw('tools/call');
    const waiting = Array.from({ length: 101 }, () => call('count'));
    const first = await Promise.race(waiting);
    expect(first.response.error).toMatchObject({
      code: -32603,
      data: { reason: 'upstream_busy', mayHaveActed: 'no' },
    });
    expect(server.methods().filter((method) => method === 'tools/call')).toHaveLength(1);
    open();
    expect(textOf(await slow)).toBe('1');
    const served = (await Promise.all(waiting)).filter(({ response }) => response.result);
    expect(served.map(textOf)).toHaveLength(100);
  });
});
