/** Streams that break: when, how often and from where on they are taken up again. */
import { recordedLog } from '../../fixtures/recorded-log.ts';
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import type { ServerRequestId } from '../../../src/protocol/ids.ts';
import { ManualClock, turnsUntil } from '../../fixtures/manual-clock.ts';
import { eventStream, json, legacyServer } from '../../fixtures/servers/scripted-server.ts';
import { call, open, reply, upstreamOf } from '../../fixtures/servers/upstream-testbed.ts';

const HTTP = { transport: 'streamable-http' } as const;
const LINE = { level: 'info', data: 'still at work' };
const QUESTION = {
  jsonrpc: '2.0',
  method: 'elicitation/create',
  params: { message: 'Sure?', requestedSchema: { type: 'object', properties: {} } },
};

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

  // Rule resumption-3 (2025-11-25 transports, "Sending Messages to the Server"): There are five attempts: the first
  // after `retry` or 0.5 s, then 1, 2, 4 and 8 s apart, never earlier than `retry`.
  test.each([
    ['as the server wants', 'retry: 7000\n', 7],
    ['as the server wants, however long', 'retry: 600000\n', 600],
    ['of half a second', '', 0.5],
  ])('is taken up after a pause %s', async (_title, retry, seconds) => {
    const { heard, pause, tries } = await breaking(retry, 0);
    expect(tries()).toBe(0);
    expect(await pause()).toBe(seconds);
    await heard.until('replied');
    expect(tries()).toBe(1);
  });

  // Rule resumption-3.
  test('is tried no earlier than the server said', async () => {
    const { heard, pause } = await breaking('retry: 3000\n', 4);
    const pauses = [await pause(), await pause(), await pause(), await pause(), await pause()];
    expect(pauses).toEqual([3, 3, 3, 4, 8]);
    await heard.until('replied');
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

describe('what a resumed stream shows of its server', () => {
  type Stream = ReturnType<typeof eventStream>;
  /** What the server does with a GET that resumes a call, when it has resumed one, and with an answer. */
  interface Behaviour {
    readonly onGet?: (response: ServerResponse) => void;
    readonly onResumed?: () => unknown;
    readonly onAnswer?: () => unknown;
  }

  /** A server whose streams break behind a question, one call after the other, and what is learned of it. */
  async function asking() {
    let behaviour: Behaviour = {};
    let callId: unknown;
    let stream: Stream | undefined;
    const finish = () => stream?.send(reply(callId), 'e2');
    const resumeWith = (response: ServerResponse) => void (stream = eventStream(response));
    const notify = () =>
      stream?.send({ jsonrpc: '2.0', method: 'notifications/message', params: LINE });
    const server = await legacyServer(
      ({ body }, response) => {
        callId = body.id;
        stream = eventStream(response);
        stream.send({ ...QUESTION, id: `question of ${body.id}` }, 'e1');
        stream.end();
      },
      {
        onGet: ({ headers }, response) => {
          if (headers['last-event-id'] === undefined) return void response.writeHead(405).end();
          if (behaviour.onGet !== undefined) return behaviour.onGet(response);
          resumeWith(response);
          behaviour.onResumed?.();
        },
        onResponse: (_received, response) => {
          behaviour.onAnswer?.();
          response.writeHead(202).end();
        },
      },
    );
    const clock = new ManualClock();
    const changes: unknown[] = [];
    const log = recordedLog((event, { delivers, cause }) => {
      if (event === 'upstream.resumption') changes.push([delivers, cause]);
    });
    const upstream = upstreamOf(server, { ...HTTP, log }, clock);
    const session = await open(upstream);
    /** Makes a call, and answers its question once its stream is back. */
    const begin = async (next: Behaviour) => {
      behaviour = next;
      const { heard, exchange } = call(session);
      await heard.until('interrupted');
      clock.advance(500);
      const answer = async () => {
        await heard.until('resumed');
        const [, id] = await heard.until('asked');
        await exchange.respond(id as ServerRequestId, { result: { action: 'cancel' } }, {});
      };
      return { heard, answer };
    };
    const learn = async () => {
      const { heard, answer } = await begin({ onAnswer: finish });
      await answer();
      await heard.until('replied');
      expect(changes.splice(0)).toEqual([[true, 'delivered']]);
    };
    return { clock, upstream, changes, begin, learn, finish, notify, resumeWith };
  }

  test('delivers if the reply to an answer comes on it', async () => {
    const { upstream, learn } = await asking();
    expect(upstream.deliversResumed).toBe(false);
    await learn();
    expect(upstream.deliversResumed).toBe(true);
  });

  test('is late if the reply comes with the next resumption', async () => {
    const { clock, upstream, changes, begin, learn, finish } = await asking();
    await learn();
    let gets = 0;
    const { heard, answer } = await begin({ onResumed: () => (gets += 1) === 2 && finish() });
    await answer();
    clock.advance(5_000);
    await heard.until('replied');
    expect(changes).toEqual([[false, 'late']]);
    expect(upstream.deliversResumed).toBe(false);
  });

  test('is late if the head of the response comes with the reply', async () => {
    const { clock, changes, begin, learn, finish, resumeWith } = await asking();
    await learn();
    const held = Promise.withResolvers<ServerResponse>();
    const onAnswer = async () => (resumeWith(await held.promise), finish());
    const { heard, answer } = await begin({ onGet: held.resolve, onAnswer });
    await held.promise;
    clock.advance(1_000);
    await answer();
    await heard.until('replied');
    expect(changes).toEqual([[false, 'late']]);
  });

  test('delivers if a slow tool replies a while after the last resumption', async () => {
    const { clock, changes, begin, finish, notify } = await asking();
    let gets = 0;
    const { heard, answer } = await begin({ onResumed: () => (gets += 1) === 2 && notify() });
    await answer();
    clock.advance(5_000);
    await heard.until('notified');
    clock.advance(1_001);
    finish();
    await heard.until('replied');
    expect(changes).toEqual([[true, 'delivered']]);
  });

  test('shows nothing if it repeats what was missed', async () => {
    const { changes, begin, finish } = await asking();
    const { heard } = await begin({ onResumed: finish });
    await heard.until('replied');
    expect(changes).toEqual([]);
  });

  test('shows nothing if the answer was that of another call', async () => {
    const { changes, begin, finish } = await asking();
    const other = await begin({});
    const repeated = await begin({ onAnswer: finish });
    await repeated.heard.until('resumed');
    await other.answer();
    await repeated.heard.until('replied');
    expect(changes).toEqual([]);
  });

  test('is refused if the server does not resume it', async () => {
    const { changes, begin, learn } = await asking();
    await learn();
    const { heard } = await begin({ onGet: (response) => json(response, 400, {}) });
    await heard.until('lost');
    expect(changes).toEqual([[false, 'refused']]);
  });
});

// Rule resumption-6 (2025-11-25 transports, "Resumability and Redelivery"): The standalone stream is opened again in
// the same session. Listeners get a hint, and cached lists are requested again.
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

test.each([
  { ids: 'an id', idLine: 'id: e1\n', isNumbered: true },
  { ids: 'no id', idLine: '', isNumbered: false },
])(
  'a call of which an event had $ids: whether the server numbers events is known from then on',
  async ({ idLine, isNumbered }) => {
    let standalone: ReturnType<typeof eventStream> | undefined;
    const server = await legacyServer(
      ({ body }, response) => {
        standalone?.send({ jsonrpc: '2.0', method: 'notifications/tools/list_changed' }, 's1');
        eventStream(response).raw(`${idLine}data: ${JSON.stringify(reply(body.id))}\n\n`);
      },
      { onGet: (_received, response) => void (standalone = eventStream(response)) },
    );
    const session = await open(upstreamOf(server, HTTP));
    expect(session.numbersEvents).toBe(false);
    const { heard } = call(session);
    await heard.until('replied');
    expect(session.numbersEvents).toBe(isNumbered);
  },
);
