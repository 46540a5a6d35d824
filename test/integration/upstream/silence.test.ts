/** A stream that was taken up, and on which the server then says nothing: it is taken up again, unnoticed. */
import type { ServerResponse } from 'node:http';
import { expect, test } from 'vitest';
import { serverRequestId, sessionId, upstreamRequestId } from '../../../src/protocol/ids.ts';
import {
  eventStream,
  json,
  legacyServer,
  type Received,
  type ScriptedServer,
} from '../../fixtures/servers/scripted-server.ts';
import { ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';
import {
  ASKING,
  closeAfterTest,
  Heard,
  reply,
  upstreamOf,
} from '../../fixtures/servers/upstream-testbed.ts';

const CALL = upstreamRequestId(7);
const POINT = {
  sessionId: sessionId('session-1'),
  revision: '2025-11-25',
  lastEventId: 'e1',
} as const;

const resumptions = (server: ScriptedServer) =>
  server.received.flatMap(({ method, headers }) =>
    method === 'GET' && headers['last-event-id'] !== undefined ? [headers['last-event-id']] : [],
  );

/** The `times`-th resumption that was or will be received. */
async function resumption(server: ScriptedServer, times: number): Promise<void> {
  let seen = 0;
  const counted = new Set<Received>();
  await server.saw((received) => {
    if (received.headers['last-event-id'] === undefined || counted.has(received)) return false;
    counted.add(received);
    seen += 1;
    return seen === times;
  });
}

/** A call that this gateway took up from another one; `onResume` is the server's part. */
async function takenUp(onResume: (response: ServerResponse, times: number) => void) {
  let times = 0;
  const server = await legacyServer(() => {}, {
    onGet: (received, response) => {
      if (received.headers['last-event-id'] === undefined) return void eventStream(response);
      times += 1;
      onResume(response, times);
    },
  });
  const clock = new ManualClock();
  const upstream = upstreamOf(server, { transport: 'streamable-http' }, clock);
  const owner = { profile: ASKING, clientInfo: null, headers: {} };
  const session = await upstream.resumeSession(owner, POINT);
  closeAfterTest(() => session.close());
  const heard = new Heard();
  const exchange = session.resumeCall(CALL, POINT, heard, {});
  await heard.until('resumed');
  return { server, clock, exchange, session, heard };
}

// Rule resumption-5.
test('what the server held back comes with the next resumption, and no break is reported', async () => {
  const { clock, heard, server } = await takenUp((response, times) => {
    const stream = eventStream(response);
    if (times === 2) stream.send(reply(7), 'e2');
  });
  clock.advance(5_000);
  await heard.until('replied');
  expect(heard.events.map(([name]) => name)).toEqual(['resumed', 'replied']);
  expect(resumptions(server)).toEqual(['e1', 'e1']);
});

// Rule resumption-5: A resumed stream that is silent is resumed again after 5, 10, 20, 40 and 60 s.
test('comments break no silence', async () => {
  const { clock, heard } = await takenUp((response, times) => {
    const stream = eventStream(response);
    stream.raw(': still here\n\n');
    if (times === 2) stream.send(reply(7), 'e2');
  });
  clock.advance(5_000);
  await heard.until('replied');
});

test('it goes on after the last event that arrived', async () => {
  const question = { jsonrpc: '2.0', id: 'q', method: 'roots/list' };
  const { clock, heard, server } = await takenUp((response, times) => {
    const stream = eventStream(response);
    if (times === 1) stream.send(question, 'e2');
    else stream.send(reply(7), 'e3');
  });
  await heard.until('asked');
  clock.advance(5_000);
  await heard.until('replied');
  expect(resumptions(server)).toEqual(['e1', 'e2']);
});

// Rule resumption-5.
test('the longer it lasts, the rarer the checks, and an answer to the server resets them', async () => {
  const question = { jsonrpc: '2.0', id: 'q', method: 'roots/list' };
  const { clock, exchange, heard, server } = await takenUp((response, times) => {
    const stream = eventStream(response);
    if (times === 1) stream.send(question, 'e2');
  });
  await heard.until('asked');
  const pauses: number[] = [];
  for (let times = 2; times <= 7; times += 1) {
    pauses.push(await pauseBefore(times));
  }
  expect(pauses).toEqual([5, 10, 20, 40, 60, 60]);
  await exchange.respond(serverRequestId('q'), { result: { roots: [] } }, {});
  expect(await pauseBefore(8)).toBe(5);

  /** The seconds until the next resumption is sent. */
  async function pauseBefore(times: number): Promise<number> {
    await turnsUntil(() => clock.pending > 0);
    let seconds = 0;
    while (clock.pending > 0) {
      clock.advance(1_000);
      seconds += 1;
    }
    await resumption(server, times);
    return seconds;
  }
});

// Rule resumption-3.
test('a server that has not noticed yet that we left is asked again', async () => {
  const { clock, heard } = await takenUp((response, times) => {
    if (times === 2) return json(response, 409, {});
    const stream = eventStream(response);
    if (times === 3) stream.send(reply(7), 'e2');
  });
  clock.advance(5_000);
  await turnsUntil(() => clock.pending > 0);
  clock.advance(1_000);
  await heard.until('replied');
  expect(heard.events.map(([name]) => name)).toEqual(['resumed', 'replied']);
});

test('a server that has lost the call meanwhile has lost it', async () => {
  const { clock, heard } = await takenUp((response, times) => {
    if (times === 1) eventStream(response);
    else json(response, 404, { error: { code: -32001, message: 'Session not found' } });
  });
  clock.advance(5_000);
  expect(await heard.until('lost')).toEqual(['lost', 'session_gone']);
  expect(heard.events.map(([name]) => name)).toEqual(['resumed', 'interrupted', 'lost']);
});

// Rules limits-6, resumption-5.
test('a stream that was never resumed may be silent for as long as a human thinks', async () => {
  const server = await legacyServer(
    (_received, response) =>
      eventStream(response).send({ jsonrpc: '2.0', id: 'q', method: 'roots/list' }, 'e1'),
    { onGet: (_received, response) => void eventStream(response) },
  );
  const clock = new ManualClock();
  const upstream = upstreamOf(server, { transport: 'streamable-http' }, clock);
  const session = await upstream.openSession({ profile: ASKING, clientInfo: null, headers: {} });
  closeAfterTest(() => session.close());
  const heard = new Heard();
  const exchange = session.call('tools/call', () => ({ name: 't' }), heard, {});
  await heard.until('asked');
  clock.advance(3_600_000);
  await exchange.respond(serverRequestId('q'), { result: { roots: [] } }, {});
  expect(resumptions(server)).toEqual([]);
});
