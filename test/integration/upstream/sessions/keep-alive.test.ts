/** The credentials that the gateway's own messages carry while a call waits. */
import { expect, test } from 'vitest';
import { serverRequestId } from '../../../../src/protocol/ids.ts';
import { ManualClock, turnsUntil } from '../../../fixtures/manual-clock.ts';
import { eventStream, json, legacyServer } from '../../../fixtures/servers/scripted-server.ts';
import {
  ASKING,
  call,
  closeAfterTest,
  open,
  reply,
  upstreamOf,
} from '../../../fixtures/servers/upstream-testbed.ts';

// Rules pointer-4, wire-9, keep-alive-3.
test('a parked call outlives credentials that expire, and the next waiter brings the ones to ping with', async () => {
  const good = 'Bearer new';
  const server = await legacyServer(({ body, headers }, response) => {
    if (body.method !== 'ping') {
      eventStream(response).send({ jsonrpc: '2.0', id: 'q', method: 'roots/list' });
    } else if (headers.authorization === good) {
      json(response, 200, reply(body.id, {}));
    } else {
      json(response, 401, {});
    }
  });
  const clock = new ManualClock();
  const upstream = upstreamOf(server, { transport: 'streamable-http' }, clock);
  const session = await upstream.openSession({ profile: ASKING, clientInfo: null, headers: {} });
  closeAfterTest(() => session.close());
  const { heard, exchange } = call(session);
  await heard.until('asked');
  session.keepAlive(true);
  clock.advance(60_000);
  await server.saw(({ body }) => body?.method === 'ping');
  await exchange.respond(serverRequestId('q'), { result: { roots: [] } }, { authorization: good });
  clock.advance(60_000);
  await server.saw(
    ({ body, headers }) => body?.method === 'ping' && headers.authorization === good,
  );
  expect(heard.events.map(([name]) => name)).toEqual(['asked']);
  expect(session.dead).toBe(false);
});

// Rule keep-alive-2.
test.each([
  [200, false],
  [429, false],
  [503, false],
  [500, true],
  [502, true],
  [504, true],
])(
  'a server whose pings get HTTP %i, with JSON that is no reply, counts as gone: %s',
  async (status, gone) => {
    const server = await legacyServer(({ body }, response) => {
      if (body.method === 'ping') {
        response.writeHead(status, { 'content-type': 'application/json' });
        response.end('{"status":"starting"}');
      } else {
        eventStream(response).send({ jsonrpc: '2.0', id: 'q', method: 'roots/list' });
      }
    });
    const clock = new ManualClock();
    const options = { transport: 'streamable-http', headersTimeoutMs: 600_000 } as const;
    const upstream = upstreamOf(server, options, clock);
    const session = await upstream.openSession({ profile: ASKING, clientInfo: null, headers: {} });
    closeAfterTest(() => session.close());
    const { heard } = call(session);
    await heard.until('asked');
    session.keepAlive(true);
    const pings = () => server.received.filter(({ body }) => body?.method === 'ping').length;
    await turnsUntil(() => {
      clock.advance(1_000);
      return session.dead || pings() === 4;
    });
    expect([session.dead, pings()]).toEqual(gone ? [true, 2] : [false, 4]);
  },
);

// Rule keep-alive-1.
test('pings of many sessions that are due at once are sent one after the other', async () => {
  const held: (() => void)[] = [];
  const server = await legacyServer(({ body }, response) => {
    const respond = () => json(response, 200, reply(body.id, {}));
    if (body.method === 'ping') held.push(respond);
    else respond();
  });
  const clock = new ManualClock();
  const options = { transport: 'streamable-http', headersTimeoutMs: 600_000 } as const;
  const upstream = upstreamOf(server, options, clock);
  const sessions = await Promise.all(Array.from({ length: 40 }, () => open(upstream)));
  for (const session of sessions) session.keepAlive(true);
  clock.advance(60_000);
  await turnsUntil(() => held.length >= 32);
  // A ping that was sent with these would be here.
  await sessions[0]?.request('resources/list', {}, {});
  const pings = () => server.received.filter(({ body }) => body?.method === 'ping').length;
  expect(pings()).toBe(32);
  for (const respond of held.splice(0)) respond();
  await turnsUntil(() => pings() === 40);
  for (const respond of held.splice(0)) respond();
});

// Rule wire-9: Pings, resumptions and DELETE carry the credentials of the latest waiter.
// Rule pointer-4.
test('a stream that breaks is resumed with the credentials of the newest waiter', async () => {
  let finish = () => {};
  const server = await legacyServer(
    (_received, response) => {
      const stream = eventStream(response);
      stream.raw('retry: 100\n\n');
      stream.send({ jsonrpc: '2.0', id: 'q', method: 'roots/list' }, 'e1');
      finish = () => stream.end();
    },
    { onGet: (_received, response) => void eventStream(response) },
  );
  const session = await open(upstreamOf(server, { transport: 'streamable-http' }));
  const { heard, exchange } = call(session);
  await heard.until('asked');
  const renewed = { authorization: 'Bearer new' };
  await exchange.respond(serverRequestId('q'), { result: { roots: [] } }, renewed);
  finish();
  await heard.until('resumed');
  const resumption = await server.saw(({ headers }) => headers['last-event-id'] === 'e1');
  expect(resumption.headers.authorization).toBe('Bearer new');
});
