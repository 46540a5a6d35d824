/**
 * A machine that has vanished takes no connection, and refuses none. Its silence is not that of a server that has taken a
 * request, and lets its response wait.
 */
import { expect, test } from 'vitest';
import { sessionId, upstreamRequestId } from '../../../src/protocol/ids.ts';
import { BroadcastDetector } from '../../../src/upstream/discovery/broadcast-detector.ts';
import { DeferredHeaders } from '../../../src/upstream/quirks/deferred-headers.ts';
import { HttpClient } from '../../../src/upstream/http/client.ts';
import { TaskCall } from '../../../src/upstream/session/tasks/task-call.ts';
import { StreamableHttpTransport } from '../../../src/upstream/transport/streamable-http.ts';
import type { TransportListener } from '../../../src/upstream/transport/transport.ts';
import { settled } from '../../fixtures/calls-testbed.ts';
import { ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';
import { blackHole } from '../../fixtures/network/black-hole.ts';
import { playedSession } from '../../fixtures/played-session.ts';
import { eventStream, legacyServer } from '../../fixtures/servers/scripted-server.ts';
import { Heard } from '../../fixtures/servers/upstream-testbed.ts';
import { stopAfterTest } from '../../fixtures/stop-after-test.ts';

const ID = upstreamRequestId(7);
const SESSION = { sessionId: sessionId('session'), revision: '2025-11-25' } as const;

/** Transports of one server, first at an address where nobody is, then at another one. */
async function vanished() {
  const clock = new ManualClock();
  const deferredHeaders = new DeferredHeaders();
  const told: string[] = [];
  const note: Pick<TransportListener, 'resumed' | 'standaloneOpened' | 'standaloneResumed'> = {
    resumed: () => void told.push('resumed'),
    standaloneOpened: () => void told.push('standaloneOpened'),
    standaloneResumed: () => void told.push('standaloneResumed'),
  };
  const transportTo = (url: string, listener = note as TransportListener) => {
    const options = {
      ...{ url: new URL(url), headers: {}, connectTimeoutMs: 60_000, headersTimeoutMs: 60_000 },
      ...{ maxBodyBytes: 1_000, maxEventBytes: 1_000 },
    };
    const http = new HttpClient(options, clock);
    stopAfterTest(() => http.close());
    const transport = new StreamableHttpTransport(http, listener, clock, {
      deferredHeaders,
      random: () => 0,
    });
    transport.adopt(SESSION.sessionId, SESSION.revision);
    return transport;
  };
  const hole = await blackHole();
  return { clock, told, hole, transportTo };
}

test('a stream is not resumed while there is no connection for it', async () => {
  const { clock, told, hole, transportTo } = await vanished();
  transportTo(hole).resume(ID, 'e1', {});
  clock.advance(30_000);
  await settled();
  expect(told).toEqual([]);
});

test('sessions wait for their standalone stream once the machine is back', async () => {
  const { clock, told, hole, transportTo } = await vanished();
  const gone = transportTo(hole);
  const opening = gone.openStandaloneStream({});
  clock.advance(2_000);
  expect([await opening, gone.standaloneHeld, told]).toEqual([false, false, []]);
  const gets: Parameters<typeof eventStream>[0][] = [];
  const onGet = (_received: unknown, response: (typeof gets)[0]) => void gets.push(response);
  const server = await legacyServer(() => {}, { onGet });
  stopAfterTest(() => server.stop());
  const isOpen = transportTo(server.url).openStandaloneStream({});
  await turnsUntil(() => gets.length === 1);
  clock.advance(1_900);
  eventStream(gets[0]!);
  expect(await isOpen).toBe(true);
});

test('a task whose result is asked for again does not go on while there is no connection', async () => {
  const { clock, hole, transportTo } = await vanished();
  const session = playedSession(
    (listener) => transportTo(hole, listener),
    new BroadcastDetector({ now: () => 0, hasSiblings: false }),
    clock,
  );
  stopAfterTest(async () => session.leave());
  const heard = new Heard();
  const task = { taskId: 'task-1', progressToken: ID };
  const point = { ...SESSION, lastEventId: null, upstreamId: ID, task };
  TaskCall.resume({ session, clock, listener: heard }, point, {}, []);
  clock.advance(10_000);
  await settled();
  expect(heard.events).toEqual([]);
});
