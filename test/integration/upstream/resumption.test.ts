/** Streams that break: when, how often and from where on they are taken up again. */
import { describe, expect, test } from 'vitest';
import { ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';
import { eventStream, json, legacyServer } from '../../fixtures/servers/scripted-server.ts';
import { call, open, reply, upstreamOf } from '../../fixtures/servers/upstream-testbed.ts';

const HTTP = { transport: 'streamable-http' } as const;

describe('a stream that breaks behind an event with an id', () => {
  /** A server that breaks off each call, and refuses to go on with it for as long as the test says. */
  async function breaking(retry: string, refusals: number) {
    let resumed = 0;
    let callId: unknown;
    const server = await legacyServer(
      ({ body }, response) => {
        callId = body.id;
        const stream = eventStream(response);
        stream.raw(`${retry}id: e1\ndata:\n\n`);
        stream.end();
      },
      {
        onGet: ({ headers }, response) => {
          if (headers['last-event-id'] === undefined) return void response.writeHead(405).end();
          resumed += 1;
          if (resumed <= refusals) return json(response, 503, {});
          eventStream(response).send(reply(callId));
        },
      },
    );
    const clock = new ManualClock();
    const session = await open(upstreamOf(server, HTTP, clock));
    const { heard } = call(session);
    await heard.until('interrupted');
    let timers = 0;
    /** The seconds until the next try. */
    const pause = async () => {
      // Each try sets a timer while it is under way, and the pause behind it is the next one.
      await turnsUntil(() => clock.timersSet >= timers || isOver());
      await turnsUntil(() => clock.pending > 0 || isOver());
      timers = clock.timersSet + 2;
      let seconds = 0;
      for (; clock.pending > 0; seconds += 0.5) clock.advance(500);
      return seconds;
    };
    const isOver = () => heard.events.some(([name]) => name === 'lost' || name === 'resumed');
    return { heard, pause, tries: () => resumed };
  }

  // Rule resumption-3 (2025-11-25 transports, "Sending Messages to the Server"): The first try waits as long
  // as the server said in `retry:`, else half a second; there are five, 1, 2, 4 and 8 seconds apart, when the
  // server is away, is busy, or says 409 (it has not noticed yet that the stream before is gone). A server
  // that goes on breaking off is resumed at that pace for as long as the call may take.
  test.each([
    ['as the server wants', 'retry: 7000\n', 7],
    ['of half a second', '', 0.5],
  ])('is taken up after a pause %s', async (_title, retry, seconds) => {
    const { heard, pause, tries } = await breaking(retry, 0);
    expect(tries()).toBe(0);
    expect(await pause()).toBe(seconds);
    await heard.until('replied');
    expect(tries()).toBe(1);
  });

  // Rule resumption-3.
  test('is tried five times, with growing pauses, before the call is lost', async () => {
    const { heard, pause, tries } = await breaking('', Infinity);
    const pauses = [await pause(), await pause(), await pause(), await pause(), await pause()];
    expect(pauses).toEqual([0.5, 1, 2, 4, 8]);
    expect(await heard.until('lost')).toEqual(['lost', 'upstream_busy']);
    expect(tries()).toBe(5);
  });
});

// Rule resumption-6 (2025-11-25 transports, "Resumability and Redelivery"): The standalone stream is got back
// in the same session, behind its last event when that had an id. When changes may have gone unheard
// meanwhile, listeners get a hint to look, and cached lists are requested again.
test('the standalone stream is resumed after its last event, if that has an id', async () => {
  let stream: ReturnType<typeof eventStream> | undefined;
  const server = await legacyServer(() => {}, {
    onGet: (_received, response) => void (stream = eventStream(response)),
  });
  const clock = new ManualClock();
  await open(upstreamOf(server, HTTP, clock));
  stream?.send({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' }, 'e1');
  stream?.end();
  await turnsUntil(() => clock.pending > 0);
  clock.advance(500);
  const again = await server.saw(({ headers }) => 'last-event-id' in headers);
  expect(again.headers['last-event-id']).toBe('e1');
});
