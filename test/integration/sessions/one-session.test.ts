/** Servers that can have one session only: a second one is refused, or crashes them. Their calls of different callers run one at a time. */
import { describe, expect, test, vi } from 'vitest';
import { accept, callTool, send, type Exchanged } from '../../fixtures/clients/modern-client.ts';
import type { GatewayOverrides } from '../../fixtures/gateways/gateway.ts';
import { gatewayBefore, testGateway } from '../../fixtures/gateways/test-gateway.ts';
import { SubscribingServer } from '../../fixtures/servers/subscribing-server.ts';
import { ListeningClient } from '../../fixtures/clients/listening-client.ts';
import { countingServer } from '../../fixtures/servers/counting-server.ts';
import type { LegacyServerOptions } from '../../fixtures/servers/legacy-server.ts';
import { Severable } from '../../fixtures/network/flaky-proxy.ts';
import { hurriedClock } from '../../fixtures/hurried-clock.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const NAMES = ['ada', 'bob', 'carl'];
const as = (name: string) => ({ headers: { authorization: `Bearer ${name}` } });
const LOGS = { meta: { 'io.modelcontextprotocol/logLevel': 'info' } };

async function stage(
  { transport, secondSession = 'crash' }: Pick<LegacyServerOptions, 'transport' | 'secondSession'>,
  overrides: GatewayOverrides = { sessions: { max: 1 } },
) {
  const counting = await countingServer({ ...(transport && { transport }), secondSession });
  const gateway = await testGateway(counting.server.url, {
    ...overrides,
    clock: hurriedClock(5),
  });
  const call = (caller: string, name: string, more: object = {}, options: object = {}) =>
    callTool(gateway.url, name, more, { ...as(caller), ...options });
  return { ...counting, gateway, call };
}

const textOf = ({ response }: Exchanged) =>
  String(response.result?.content?.[0]?.text ?? JSON.stringify(response));

describe.each(['streamable-http', 'http-sse'] as const)('over %s', (transport) => {
  // Rule sessions-19: With `sessions.max: 1`, requests of all callers wait for their turn in one session. It has no
  // notifications, and no call there is released.
  test('calls of different callers run one at a time, one after the other and at once, and the server has one session', async () => {
    const { server, call, gateway } = await stage({ transport });
    for (const name of NAMES) {
      const { response } = await send(gateway.url, 'server/discover', {}, as(name));
      expect(response.result.supportedVersions).toContain('2026-07-28');
    }
    for (const name of [...NAMES, ...NAMES]) expect(textOf(await call(name, 'count'))).toBe('1');
    const calls = NAMES.flatMap((name) => [call(name, 'count'), call(name, 'count')]);
    const lists = NAMES.map((name) => send(gateway.url, 'tools/list', {}, as(name)));
    for (const called of await Promise.all(calls)) expect(textOf(called)).toMatch(/^[123]$/);
    for (const { response } of await Promise.all(lists)) {
      expect(response.result.tools.length).toBeGreaterThan(3);
    }
    expect(server.crashes).toBe(0);
    expect(gateway.log.named('upstream.one_session')).toEqual([
      { route: 'mcp', cause: 'configured' },
    ]);
  });

  // Rule sessions-19.
  test('callers without credentials and a session for each call take turns as well', async () => {
    const { server, gateway } = await stage({ transport });
    const nobody = { headers: { 'x-forwarded-for': '203.0.113.1' } };
    const calls = await Promise.all(NAMES.map(() => callTool(gateway.url, 'count', {}, nobody)));
    expect(calls.map(textOf)).toEqual(['1', '1', '1']);
    expect(server.crashes).toBe(0);
  });

  // Rule sessions-15.
  test('a caller whose session ended for another one is told once', async () => {
    const { call, gateway } = await stage({ transport });
    const told = async (name: string) => {
      const { notifications } = await call(name, 'count', {}, LOGS);
      return notifications.filter(({ params }) => params.logger === 'mrtr-gateway').length;
    };
    expect([await told('ada'), await told('bob')]).toEqual([0, 0]);
    expect(gateway.log.named('session.replaced')).toEqual([{ route: 'mcp', reason: 'needed' }]);
    expect([await told('ada'), await told('ada')]).toEqual([1, 0]);
  });

  // Rule sessions-19.
  test('a call that waits for its client keeps the session, and the next caller waits', async () => {
    const { server, call } = await stage({ transport });
    const { response } = await call('ada', 'ask');
    const waiting = call('bob', 'count');
    const { requestState, inputRequests } = response.result;
    const inputResponses = Object.fromEntries(
      Object.keys(inputRequests).map((key) => [key, accept({ name: 'Ada' })]),
    );
    expect(textOf(await call('ada', 'ask', { requestState, inputResponses }))).toBe('Ada 1');
    expect(textOf(await waiting)).toBe('1');
    expect(server.crashes).toBe(0);
  });

  // Rule sessions-19.
  test('a caller cannot keep the session by making one call after the other', async () => {
    const { server, call, open, gateway } = await stage({ transport });
    await send(gateway.url, 'server/discover', {}, as('ada'));
    const order: string[] = [];
    const noted = async (caller: string, called: Promise<Exchanged>) => {
      order.push(`${caller} ${textOf(await called)}`);
    };
    const first = noted('ada', call('ada', 'slow'));
    await server.saw('tools/call');
    const others = noted('bob', call('bob', 'count'));
    // Replies to later requests show that the calls wait.
    await send(gateway.url, 'tools/list', {}, as('ada'));
    const next = noted('ada', call('ada', 'count'));
    await send(gateway.url, 'server/discover', {}, as('ada'));
    open();
    await Promise.all([first, others, next]);
    expect(order).toEqual(['ada 1', 'bob 1', 'ada 1']);
  });

  // Rule sessions-19.
  test('a listener is told that it gets no notifications', async () => {
    const { server, call, gateway } = await stage({ transport });
    const leaving = new AbortController();
    const notifications = { toolsListChanged: true };
    const listening = send(
      gateway.url,
      'subscriptions/listen',
      { notifications },
      {
        ...as('ada'),
        signal: leaving.signal,
      },
    );
    expect(textOf(await call('bob', 'count'))).toBe('1');
    const { response } = await send(gateway.url, 'server/discover', {}, as('ada'));
    expect(response.result.capabilities.tools.listChanged).toBeUndefined();
    leaving.abort();
    await listening.catch(() => {});
    expect(server.crashes).toBe(0);
  });

  // Rule sessions-22: A server that loses or refuses a second session is served with one from then on
  // (`upstream.one_session`). `probe` detects it, and prints `sessions.max: 1`.
  test('a server that refuses a second session is served with one, and the gateway logs it', async () => {
    const { call, gateway } = await stage({ transport, secondSession: 'refused' }, {});
    for (const name of [...NAMES, ...NAMES]) expect(textOf(await call(name, 'count'))).toBe('1');
    expect(gateway.log.named('upstream.one_session')).toEqual([{ route: 'mcp', cause: 'refused' }]);
  });

  // Rule sessions-22.
  test.each([1, 3])(
    'none of %d first calls is refused because of the session of the greeting or of another call',
    async (count) => {
      const { server } = await countingServer({ transport, secondSession: 'refused' });
      const gateway = await testGateway(server.url);
      const callers = NAMES.slice(0, count);
      const calls = callers.map((name) => callTool(gateway.url, 'count', {}, as(name)));
      expect((await Promise.all(calls)).map(textOf)).toEqual(callers.map(() => '1'));
    },
  );

  // Rule sessions-22.
  test('a server that crashed twice when a second session opened gets one session', async () => {
    const { server, call, gateway } = await stage({ transport }, {});
    for (const name of ['ada', 'bob', 'ada', 'bob']) await call(name, 'count');
    const { crashes } = server;
    expect(crashes).toBeGreaterThan(1);
    for (const name of ['ada', 'bob', 'carl']) expect(textOf(await call(name, 'count'))).toBe('1');
    expect(server.crashes).toBe(crashes);
    expect(gateway.log.named('upstream.one_session')).toEqual([{ route: 'mcp', cause: 'crashed' }]);
  });
});

// Rule sessions-22.
test('a network that breaks connections while sessions open does not mean one session', async () => {
  const { server } = await countingServer();
  const way = await Severable.to({ host: '127.0.0.1', port: server.port });
  stopAfterTest(() => way.stop());
  const gateway = await testGateway(`http://127.0.0.1:${way.port}/mcp`);
  for (const name of NAMES) {
    let hasBroken = false;
    way.watch((chunk) => {
      if (hasBroken || !chunk.includes('"initialize"')) return;
      hasBroken = true;
      // Not only this connection breaks, but also the streams of all sessions.
      way.mend();
    });
    expect(textOf(await callTool(gateway.url, 'count', {}, as(name)))).toBe('1');
    expect(hasBroken).toBe(true);
  }
  for (const name of NAMES) {
    expect(textOf(await callTool(gateway.url, 'count', {}, as(name)))).toBe('2');
  }
  expect(gateway.log.named('upstream.one_session')).toEqual([]);
});

// Rule sessions-22.
test('a server that is busy once for another caller keeps the session of the first one', async () => {
  const server = await SubscribingServer.start();
  const { gateway } = await gatewayBefore(server);
  const listener = await ListeningClient.open(gateway.url, { toolsListChanged: true }, as('ada'));
  // That of the greeting has ended.
  await vi.waitFor(() => expect(server.sessions.size).toBe(1));
  const kept = [...server.sessions.keys()];
  server.down = true;
  const { response } = await callTool(gateway.url, 'change', {}, as('bob'));
  expect(response.error.data.reason).toBe('upstream_busy');
  server.down = false;
  expect([...server.sessions.keys()]).toEqual(kept);
  await callTool(gateway.url, 'change', {}, as('bob'));
  await server.changed('tools');
  await listener.until(2);
  expect(gateway.log.named('upstream.one_session')).toEqual([]);
  await listener.leave();
});

// Rule sessions-22.
test('a listener whose session was ended for a trial gets notifications again if the trial fails', async () => {
  const { server, gateway, listener } = await listenedServer(5);
  const [first] = server.sessions.keys();
  server.isFull = true;
  const { response } = await callTool(gateway.url, 'change', {}, as('bob'));
  expect(response.error.data.reason).toBe('upstream_protocol_error');
  expect(server.sessions.has(String(first))).toBe(false);
  server.isFull = false;
  // What it missed may have changed.
  await listener.until(2);
  await server.changed('tools');
  await listener.until(3);
  await listener.leave();
});

// Rule changes-5.
test('a call waits until the server has ended the session of a listener, however long that takes', async () => {
  const { server, gateway, listener } = await listenedServer(1);
  server.isFull = 'with one';
  server.endsAfterMs = 500;
  const { response } = await callTool(gateway.url, 'change', {}, as('bob'));
  expect(response.result).toBeDefined();
  expect(gateway.log.named('upstream.one_session')).toEqual([{ route: 'mcp', cause: 'refused' }]);
  await listener.leave();
});

// Rules changes-5, changes-6.
test('a listener whose session ended for a call of another caller ends, since there is none for it', async () => {
  const { server, gateway, listener, clock } = await listenedServer(1);
  expect(listener.acknowledged).toEqual({ toolsListChanged: true });
  server.isFull = 'with one';
  const { response } = await callTool(gateway.url, 'change', {}, as('bob'));
  expect(response.result).toBeDefined();
  expect(gateway.log.named('upstream.one_session')).toEqual([{ route: 'mcp', cause: 'refused' }]);
  // It gives up after 30 s. All that is timed before that needs its time on a busy machine.
  clock.hurry(30);
  const ended = await listener.answered;
  clock.hurry(1);
  expect(ended?.response.result.resultType).toBe('complete');
  expect((await callTool(gateway.url, 'change', {}, as('bob'))).response.result).toBeDefined();
});

/**
 * A server in front of which a caller without a home listens, in the only session that is left.
 * @param factor how many times as fast the gateway's clock runs
 */
async function listenedServer(factor: number) {
  const server = await SubscribingServer.start();
  const clock = hurriedClock(factor);
  const { gateway } = await gatewayBefore(server, { clock });
  const nobody = { headers: { 'x-forwarded-for': '203.0.113.1' } };
  const listener = await ListeningClient.open(gateway.url, { toolsListChanged: true }, nobody);
  // That of the greeting has ended.
  await vi.waitFor(() => expect(server.sessions.size).toBe(1));
  return { server, gateway, listener, clock };
}
