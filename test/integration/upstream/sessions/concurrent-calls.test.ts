/** Several calls at once in one session: whose question it is, over real sockets. */
import type { ServerResponse } from 'node:http';
import { describe, expect, test } from 'vitest';
import {
  serverRequestId,
  sessionId,
  upstreamRequestId,
  type UpstreamRequestId,
} from '../../../../src/protocol/ids.ts';
import type { JsonRpcReply } from '../../../../src/protocol/json-rpc.ts';
import { EMPTY_PROFILE } from '../../../../src/protocol/translate/client-profile.ts';
import type { CallExchange } from '../../../../src/upstream/session/call-exchange.ts';
import type { Session } from '../../../../src/upstream/session/session.ts';
import { ManualClock, turnsUntil } from '../../../fixtures/manual-clock.ts';
import {
  eventStream,
  INITIALIZE_RESULT,
  json,
  legacyServer,
  ScriptedServer,
  type Received,
} from '../../../fixtures/servers/scripted-server.ts';
import {
  ASKING,
  call,
  closeAfterTest,
  Heard,
  reply,
  upstreamOf,
} from '../../../fixtures/servers/upstream-testbed.ts';

type Stream = ReturnType<typeof eventStream>;
type Send = (message: object) => void;

/** A client that can be asked everything. */
const CLIENT = { ...EMPTY_PROFILE, elicitationForm: true, sampling: true, roots: true };
const ACCEPTED: JsonRpcReply = { result: { action: 'accept', content: {} } };
const ELICITATION = {
  method: 'elicitation/create',
  params: { message: 'Sure?', requestedSchema: { type: 'object', properties: {} } },
};
const SAMPLING = { method: 'sampling/createMessage', params: { messages: [], maxTokens: 1 } };
const ROOTS = { method: 'roots/list' };

interface RunningCall {
  readonly heard: Heard;
  readonly exchange: CallExchange;
  readonly id: UpstreamRequestId;
  /** Sends a message on the stream of the call. */
  readonly send: Send;
  /** Replies to the call. */
  finish(): void;
}

interface Stage {
  readonly clock: ManualClock;
  readonly server: ScriptedServer;
  readonly session: Session;
  /** Sends a message on the stream that names no call. */
  readonly send: Send;
  start(): Promise<RunningCall>;
  /** The replies to the requests of the server, by their ids. */
  replies(): Record<string, unknown>;
  /** Waits for the reply to a request of the server. */
  replied(id: string): Promise<unknown>;
}

interface StageOptions {
  readonly takesCancellation?: boolean;
}

/** A session of Streamable HTTP whose every call stays open until the test ends it. */
async function stage({ takesCancellation = true }: StageOptions = {}): Promise<Stage> {
  const streams = new Map<unknown, Stream>();
  let standalone: Stream | undefined;
  const server = await legacyServer(
    (received, response) => void streams.set(received.body.id, eventStream(response)),
    {
      onGet: (_received, response) => void (standalone = eventStream(response)),
      onNotification: ({ body }, response) => {
        const isTaken = takesCancellation || body.method !== 'notifications/cancelled';
        response.writeHead(isTaken ? 202 : 500).end();
      },
    },
  );
  const clock = new ManualClock();
  const upstream = upstreamOf(server, { transport: 'streamable-http' }, clock);
  const session = await upstream.openSession({ profile: CLIENT, clientInfo: null, headers: {} });
  closeAfterTest(() => session.close());
  const send = (id: unknown) => (message: object) =>
    streams.get(id)?.send({ jsonrpc: '2.0', ...message });
  return {
    ...asked(server),
    clock,
    server,
    session,
    send: (message) => standalone?.send({ jsonrpc: '2.0', ...message }),
    start: async () => {
      const { heard, exchange } = call(session);
      await exchange.accepted;
      const { id } = exchange;
      const finish = () => {
        streams.get(id)?.send(reply(id));
        streams.get(id)?.end();
      };
      return { heard, exchange, id, send: send(id), finish };
    },
  };
}

/** A session of HTTP+SSE: one stream for everything. */
async function httpSseStage(): Promise<Stage> {
  let stream: Stream | undefined;
  const server = await ScriptedServer.start((received, response: ServerResponse) => {
    if (received.method === 'GET') {
      stream = eventStream(response);
      stream.raw('event: endpoint\ndata: /message?sessionId=abcdefgh\n\n');
      return;
    }
    response.writeHead(202).end('Accepted');
    const { id, method } = received.body;
    if (method === 'initialize') {
      stream?.send(reply(id, INITIALIZE_RESULT));
    }
  });
  const clock = new ManualClock();
  const upstream = upstreamOf(server, { transport: 'http-sse' }, clock);
  const session = await upstream.openSession({ profile: CLIENT, clientInfo: null, headers: {} });
  closeAfterTest(() => session.close());
  const send = (message: object) => stream?.send({ jsonrpc: '2.0', ...message });
  return {
    ...asked(server),
    clock,
    server,
    session,
    send,
    start: async () => {
      const { heard, exchange } = call(session);
      await exchange.accepted;
      const { id } = exchange;
      return { heard, exchange, id, send, finish: () => stream?.send(reply(id)) };
    },
  };
}

function asked(server: ScriptedServer) {
  const isReply = ({ body }: Received) => body?.result !== undefined || body?.error !== undefined;
  return {
    replies: () =>
      Object.fromEntries(
        server.received
          .filter(isReply)
          .map(({ body: { id, result, error } }) => [id, result ?? { code: error.code }]),
      ),
    replied: async (id: string) => {
      const { body } = await server.saw((one) => isReply(one) && one.body.id === id);
      return body.result ?? { code: body.error.code };
    },
  };
}

const questionsOf = ({ heard }: RunningCall) =>
  heard.events.filter(([name]) => name === 'asked').map(([, id]) => id);
const unanswerableOf = ({ heard }: RunningCall) =>
  heard.events.filter(([name]) => name === 'unanswerable').map(([, ...what]) => what);

/** Waits until the session has read what the server sent before. */
async function settled({ server, send }: Pick<Stage, 'server' | 'send'>): Promise<void> {
  const id = `ping-${server.received.length}`;
  send({ id, method: 'ping' });
  await server.saw(({ body }) => body?.id === id && body.result !== undefined);
}

describe('several calls in one session', () => {
  // Rule questions-1.
  test('are each asked what comes on their own streams', async () => {
    const { start, session } = await stage();
    const one = await start();
    const other = await start();
    one.send({ id: 'of-one', ...ELICITATION });
    other.send({ id: 'of-other', ...SAMPLING });
    await one.heard.until('asked');
    await other.heard.until('asked');
    expect(questionsOf(one)).toEqual(['of-one']);
    expect(questionsOf(other)).toEqual(['of-other']);
    expect(session.questions.askingStyle).toBe('on-stream');
    expect(session.questions.mustQueue).toBe(false);
  });

  // Rule concurrent-1.
  test.each([
    ['Streamable HTTP', stage],
    ['HTTP+SSE', httpSseStage],
  ])(
    'are not those of a call that has waited for its client for 250 ms, over %s',
    async (_name, open) => {
      const ground = await open();
      const { clock, start, send } = ground;
      const waiting = await start();
      send({ id: 'first', ...ELICITATION });
      await waiting.heard.until('asked');
      const working = await start();
      clock.advance(249);
      send({ id: 'held', ...ELICITATION });
      await settled(ground);
      expect([questionsOf(waiting), questionsOf(working)]).toEqual([['first'], []]);
      clock.advance(1);
      send({ id: 'certain', ...ELICITATION });
      await settled(ground);
      expect([questionsOf(waiting), questionsOf(working)]).toEqual([['first'], ['certain']]);
    },
  );

  // Rule concurrent-1: Several calls can run in one session. A question on a stream that names no call is held while
  // several of them can have asked it: those that were running when it came. It is a question of the last of them
  // that is left, since a call that waits for an answer does not end before it. A call that has waited for an answer
  // for 250 ms is not one of them: a tool that asks several questions at once sends them in one turn.
  test.each([
    ['Streamable HTTP', stage],
    ['HTTP+SSE', httpSseStage],
  ])('wait until it is certain whose question it is, over %s', async (_name, open) => {
    const ground = await open();
    const { start, session, send, replies } = ground;
    const one = await start();
    const other = await start();
    send({ id: 'q', ...ELICITATION });
    await settled(ground);
    const late = await start();
    expect([one, other, late].map(questionsOf)).toEqual([[], [], []]);
    one.finish();
    await other.heard.until('asked');
    expect([one, other, late].map(questionsOf)).toEqual([[], ['q'], []]);
    expect(session.questions.askingStyle).toBe('unrelated');
    expect(session.questions.mustQueue).toBe(true);
    await other.exchange.respond(serverRequestId('q'), ACCEPTED, {});
    expect(replies()['q']).toEqual({ action: 'accept', content: {} });
  });

  // Rule concurrent-2: A question of which that does not become certain within 30 s is declined at the server:
  // elicitation with `{"action":"cancel"}`, sampling with error -1. A call that can have asked it and fails then says
  // so: `data.reason` `call_not_answerable`, `data.cause` `ambiguous`. So does a held question beyond the 64th of a
  // session, or beyond 1 MiB.
  test('have a question declined that stays ambiguous', async () => {
    const ground = await stage();
    const { clock, start, send, replied } = ground;
    const one = await start();
    const other = await start();
    send({ id: 'form', ...ELICITATION });
    send({ id: 'model', ...SAMPLING });
    await settled(ground);
    const late = await start();
    clock.advance(29_999);
    expect(unanswerableOf(one)).toEqual([]);
    clock.advance(1);
    expect(await replied('form')).toEqual({ action: 'cancel' });
    expect(await replied('model')).toEqual({ code: -1 });
    const told = [
      ['elicitation/create', 'ambiguous'],
      ['sampling/createMessage', 'ambiguous'],
    ];
    expect([one, other, late].map(unanswerableOf)).toEqual([told, told, []]);
    expect([one, other, late].map(questionsOf)).toEqual([[], [], []]);
    expect(clock.pending).toBe(0);
  });

  // Rule concurrent-2.
  test('have no more than 64 questions held', async () => {
    const ground = await stage();
    const { start, send, replied, replies } = ground;
    await start();
    await start();
    for (let index = 0; index <= 64; index += 1) send({ id: `q${index}`, ...ELICITATION });
    expect(await replied('q64')).toEqual({ action: 'cancel' });
    await settled(ground);
    expect(Object.keys(replies()).filter((id) => id.startsWith('q'))).toEqual(['q64']);
  });

  // Rule concurrent-3: A held question that the server takes back gets no reply and is not asked. One whose calls have
  // all ended is declined.
  test('are not asked what the server takes back', async () => {
    const ground = await stage();
    const { start, send, replies, clock } = ground;
    const one = await start();
    const other = await start();
    send({ id: 'q', ...ELICITATION });
    send({ method: 'notifications/cancelled', params: { requestId: 'q' } });
    await settled(ground);
    one.finish();
    await one.heard.until('replied');
    clock.advance(60_000);
    await settled(ground);
    expect(questionsOf(other)).toEqual([]);
    expect(replies()).not.toHaveProperty('q');
  });

  // Rule concurrent-3.
  test('leave no question behind when the last of them ends', async () => {
    const ground = await stage();
    const { start, send, replied } = ground;
    const one = await start();
    const other = await start();
    send({ id: 'q', ...ELICITATION });
    await settled(ground);
    one.exchange.abandon();
    other.finish();
    expect(await replied('q')).toEqual({ action: 'cancel' });
    expect([one, other].map(questionsOf)).toEqual([[], []]);
  });

  test('all end when their session is over', async () => {
    const { start, session, send, server } = await httpSseStage();
    const calls = [await start(), await start(), await start()];
    send({ id: 'q', ...ELICITATION });
    server.cut();
    for (const { heard } of calls) {
      expect(await heard.until('lost')).toEqual(['lost', 'upstream_unavailable']);
    }
    expect(session.dead).toBe(true);
  });
});

describe('a session that the server has forgotten', () => {
  /** Calls stay open; what comes later is refused as `gone` says. */
  async function forgetful(gone: { ping: boolean }) {
    let isForgotten = false;
    let pong = () => {};
    const ponged = new Promise<void>((resolve) => (pong = resolve));
    const server = await legacyServer(({ body }, response) => {
      const isRefused = isForgotten && (body.method !== 'ping' || gone.ping);
      if (isRefused) return json(response, 404, {});
      if (body.method === 'ping') {
        response.once('close', pong);
        return json(response, 200, reply(body.id, {}));
      }
      eventStream(response);
    });
    const upstream = upstreamOf(server, { transport: 'streamable-http' });
    const session = await upstream.openSession({ profile: CLIENT, clientInfo: null, headers: {} });
    closeAfterTest(() => session.close());
    const running = [call(session), call(session)];
    for (const { exchange } of running) await exchange.accepted;
    isForgotten = true;
    await expect(call(session).exchange.accepted).rejects.toMatchObject({ code: 'session_gone' });
    await server.saw(({ body }) => body?.method === 'ping');
    return { session, running, ponged };
  }

  // Rule concurrent-7: When the server is seen to have forgotten a session, a ping asks it once more. If it refuses
  // that as well, all calls of the session are lost. Otherwise those that run go on, and no further call begins there.
  test('is lost for all its calls, although their streams stay open', async () => {
    const { session, running } = await forgetful({ ping: true });
    for (const { heard } of running) {
      expect(await heard.until('lost')).toEqual(['lost', 'session_gone']);
    }
    expect(session.dead).toBe(true);
  });

  // Rule concurrent-7.
  test('leaves a request that is on its way its own refusal, after which it can be sent again', async () => {
    let refuse = () => {};
    let isForgotten = false;
    const server = await legacyServer(({ body }, response) => {
      if (body.params?.name === 'late') refuse = () => json(response, 404, {});
      else if (isForgotten) json(response, 404, {});
      else eventStream(response);
    });
    const upstream = upstreamOf(server, { transport: 'streamable-http' });
    const session = await upstream.openSession({ profile: CLIENT, clientInfo: null, headers: {} });
    closeAfterTest(() => session.close());
    const taken = call(session);
    await taken.exchange.accepted;
    const late = call(session, { name: 'late' });
    await server.saw(({ body }) => body?.params?.name === 'late');
    isForgotten = true;
    await expect(call(session).exchange.accepted).rejects.toMatchObject({ code: 'session_gone' });
    await taken.heard.until('lost');
    refuse();
    await expect(late.exchange.accepted).rejects.toMatchObject({
      code: 'session_gone',
      details: { mayHaveActed: false },
    });
    expect(late.heard.events).toEqual([]);
  });

  // Rule concurrent-7.
  test('is not lost for the others if one process behind a load balancer does not know it', async () => {
    const { session, running, ponged } = await forgetful({ ping: false });
    await ponged;
    await expect(session.request('ping', {}, {})).rejects.toMatchObject({ code: 'session_gone' });
    expect(running.flatMap(({ heard }) => heard.events)).toEqual([]);
  });
});

describe('roots/list on a stream that names no call', () => {
  // Rule concurrent-4: `roots/list` on a stream that names no call is the caller's and not a call's. One running call
  // asks its client, and the answer goes to every such request that is open then. If that call ends, another one asks, and if
  // there is no answer within 2 s while more such requests wait, another one asks as well.
  test('is asked of one client, and every request gets the answer', async () => {
    const ground = await stage();
    const { start, send, replied, session } = ground;
    const one = await start();
    const other = await start();
    for (const id of ['r1', 'r2', 'r3']) send({ id, ...ROOTS });
    await settled(ground);
    expect([...questionsOf(one), ...questionsOf(other)]).toEqual(['r1']);
    const carrier = questionsOf(one).length > 0 ? one : other;
    const roots = { roots: [{ uri: 'file:///home' }] };
    await carrier.exchange.respond(serverRequestId('r1'), { result: roots }, {});
    for (const id of ['r1', 'r2', 'r3']) expect(await replied(id)).toEqual(roots);
    expect(session.questions.askingStyle).toBe('unknown');
    expect(session.questions.mustQueue).toBe(false);
    send({ id: 'r4', ...ROOTS });
    await settled(ground);
    expect([...questionsOf(one), ...questionsOf(other)]).toContain('r4');
  });

  // Rule concurrent-4.
  test.each(['ends', 'is cancelled'])('is asked in another call when the first %s', async (how) => {
    const ground = await stage();
    const { start, send, replies, replied } = ground;
    const [one, other] = [await start(), await start()];
    send({ id: 'r', ...ROOTS });
    await settled(ground);
    const [first, second] = questionsOf(one).length > 0 ? [one, other] : [other, one];
    if (how === 'ends') first.finish();
    else await first.exchange.cancel('the client left', {});
    await second.heard.until('asked');
    expect(first.heard.events.map(([name]) => name)).toContain('withdrawn');
    // What the first call closes out no longer counts.
    await first.exchange.respond(
      serverRequestId('r'),
      { error: { code: -32603, message: '' } },
      {},
    );
    await settled(ground);
    expect(replies()).not.toHaveProperty('r');
    await second.exchange.respond(serverRequestId('r'), { result: { roots: [] } }, {});
    expect(await replied('r')).toEqual({ roots: [] });
  });

  /** Two calls of which one has been asked for 2 s, and the other has just been. */
  async function askedBoth() {
    const ground = await stage();
    const { clock, start, send } = ground;
    const [one, other] = [await start(), await start()];
    send({ id: 'r1', ...ROOTS });
    await settled(ground);
    const [first, second] = questionsOf(one).length > 0 ? [one, other] : [other, one];
    send({ id: 'r2', ...ROOTS });
    clock.advance(1_999);
    await settled(ground);
    expect([questionsOf(first), questionsOf(second)]).toEqual([['r1'], []]);
    clock.advance(1);
    await settled(ground);
    expect([questionsOf(first), questionsOf(second)]).toEqual([['r1'], ['r2']]);
    return { ...ground, first, second };
  }

  const HOME = { roots: [{ uri: 'file:///home' }] };

  // Rule concurrent-4.
  test('is asked of another client as well if the first does not answer', async () => {
    const ground = await askedBoth();
    const { first, second, replied, send } = ground;
    await second.exchange.respond(serverRequestId('r2'), { result: HOME }, {});
    for (const id of ['r1', 'r2']) expect(await replied(id)).toEqual(HOME);
    await settled(ground);
    expect(first.heard.events.map(([name]) => name)).toContain('withdrawn');
    send({ id: 'r3', ...ROOTS });
    await settled(ground);
    expect([...questionsOf(first), ...questionsOf(second)]).toContain('r3');
  });

  // Rule concurrent-4.
  test('gets one answer if both clients give one at once', async () => {
    const ground = await askedBoth();
    const { first, second, server, replied } = ground;
    await Promise.all([
      first.exchange.respond(serverRequestId('r1'), { result: HOME }, {}),
      second.exchange.respond(serverRequestId('r2'), { result: HOME }, {}),
    ]);
    for (const id of ['r1', 'r2']) expect(await replied(id)).toEqual(HOME);
    await settled(ground);
    const ids = server.received.flatMap(({ body }) => (body?.result?.roots ? [body.id] : []));
    expect(ids.toSorted()).toEqual(['r1', 'r2']);
  });

  // Rule concurrent-4.
  test('is still asked of a second client when the first is cancelled', async () => {
    const ground = await askedBoth();
    const { first, second, replied } = ground;
    await first.exchange.cancel('the client left', {});
    await first.exchange.respond(serverRequestId('r1'), { error: { code: -1, message: '' } }, {});
    await second.exchange.respond(serverRequestId('r2'), { result: HOME }, {});
    for (const id of ['r1', 'r2']) expect(await replied(id)).toEqual(HOME);
  });

  test('that is taken back leaves the others that wait for the same answer', async () => {
    const ground = await stage();
    const { start, send, replies, replied } = ground;
    const one = await start();
    send({ id: 'r1', ...ROOTS });
    send({ id: 'r2', ...ROOTS });
    send({ method: 'notifications/cancelled', params: { requestId: 'r1' } });
    await settled(ground);
    expect(one.heard.events.map(([name]) => name)).toEqual(['asked']);
    await one.exchange.respond(serverRequestId('r1'), { result: { roots: [] } }, {});
    expect(await replied('r2')).toEqual({ roots: [] });
    expect(replies()).not.toHaveProperty('r1');
  });
});

describe('a call that ended without a reply', () => {
  // Rule concurrent-5: A call that ended without a reply can still ask: for 5 s after it ended if the server took
  // its cancellation and its open questions were answered, and else for 10 min. What comes meanwhile on a stream
  // that names no call is held, and declined, as if the call ran.
  test('can ask for 5 s if the server took its cancellation', async () => {
    const ground = await stage();
    const { clock, start, session, send, replied } = ground;
    const cancelled = await start();
    await cancelled.exchange.cancel('the client left', {});
    cancelled.exchange.abandon();
    const next = await start();
    clock.advance(4_999);
    send({ id: 'early', ...ELICITATION });
    await settled(ground);
    expect([
      session.questions.isCertain,
      session.questions.certainInMs,
      session.questions.mustQueue,
    ]).toEqual([true, 1, false]);
    clock.advance(1);
    send({ id: 'later', ...ELICITATION });
    await settled(ground);
    // A call that has just asked can ask more.
    expect(session.questions.certainInMs).toBe(250);
    expect(questionsOf(next)).toEqual(['later']);
    clock.advance(29_999);
    expect(await replied('early')).toEqual({ action: 'cancel' });
    expect(questionsOf(next)).toEqual(['later']);
  });

  // Rule concurrent-5.
  test('can ask for long if the server did not take its cancellation', async () => {
    const ground = await stage({ takesCancellation: false });
    const { clock, start, session, send, replied } = ground;
    const first = await start();
    send({ id: 'first', ...ELICITATION });
    await first.heard.until('asked');
    await first.exchange.cancel('the client left', {});
    first.exchange.abandon();
    expect(session.questions.isCertain).toBe(false);
    const next = await start();
    send({ id: 'q', ...ELICITATION });
    await settled(ground);
    clock.advance(30_000);
    expect(await replied('q')).toEqual({ action: 'cancel' });
    expect(questionsOf(next)).toEqual([]);
    expect(unanswerableOf(next)).toEqual([['elicitation/create', 'ambiguous']]);
    clock.advance(570_000);
    expect(session.questions.isCertain).toBe(true);
    send({ id: 'later', ...ELICITATION });
    await next.heard.until('asked');
    expect(questionsOf(next)).toEqual(['later']);
  });

  // Rule concurrent-5.
  test('counts as stopped once its open questions are answered', async () => {
    const ground = await stage();
    const { clock, start, session, send } = ground;
    const first = await start();
    send({ id: 'open', ...ELICITATION });
    await first.heard.until('asked');
    await first.exchange.cancel('the client left', {});
    first.exchange.abandon();
    expect([session.questions.isCertain, session.questions.certainInMs]).toEqual([false, 600_000]);
    await first.exchange.respond(serverRequestId('open'), { result: { action: 'cancel' } }, {});
    expect([session.questions.isCertain, session.questions.certainInMs]).toEqual([true, 5_000]);
    clock.advance(5_000);
    const next = await start();
    send({ id: 'q', ...ELICITATION });
    await settled(ground);
    expect(questionsOf(next)).toEqual(['q']);
  });

  test('cannot have asked anything once its late reply has come', async () => {
    const ground = await httpSseStage();
    const { start, send } = ground;
    const first = await start();
    first.exchange.abandon();
    const next = await start();
    send({ id: 'q', ...ELICITATION });
    await settled(ground);
    expect(questionsOf(next)).toEqual([]);
    first.finish();
    await next.heard.until('asked');
    expect(questionsOf(next)).toEqual(['q']);
  });

  test('has its questions declined while it is being cancelled, and no other call gets them', async () => {
    const ground = await stage();
    const { start, send, replied } = ground;
    const first = await start();
    await first.exchange.cancel('the client left', {});
    send({ id: 'q', ...ELICITATION });
    expect(await replied('q')).toEqual({ action: 'cancel' });
    expect(questionsOf(first)).toEqual([]);
  });
});

describe('a call that is resumed in a session that had others', () => {
  const POINT = { sessionId: sessionId('s'), revision: '2025-11-25', lastEventId: 'e1' } as const;
  const [OURS, OTHER] = [upstreamRequestId(7), upstreamRequestId(8)];

  /** The session of another replica, whose streams a GET resumes. */
  async function adopted() {
    const streams: Record<string, Stream> = {};
    const server = await legacyServer(() => {}, {
      onGet: ({ headers }, response) => {
        streams[String(headers['last-event-id'] ?? 'standalone')] = eventStream(response);
      },
    });
    const clock = new ManualClock();
    const upstream = upstreamOf(server, { transport: 'streamable-http' }, clock);
    await upstream.greet({});
    const owner = { profile: CLIENT, clientInfo: null, headers: {} };
    const session = await upstream.adoptSession(owner, POINT);
    closeAfterTest(() => session.close());
    const resume = async (id: UpstreamRequestId, from: string, beside?: UpstreamRequestId[]) => {
      const heard = new Heard();
      const point = { ...POINT, lastEventId: from, ...(beside === undefined ? {} : { beside }) };
      const exchange = session.resumeCall(id, point, heard, {});
      await heard.until('resumed');
      return { heard, exchange };
    };
    const on = (stream: string) => (message: object) =>
      streams[stream]?.send({ jsonrpc: '2.0', ...message });
    const settledOn = (stream: string) => settled({ server, send: on(stream) });
    return { ...asked(server), clock, session, resume, on, settledOn };
  }

  // Rule concurrent-8: A pointer names the other calls that were in the session. Another replica that takes the
  // session over counts them among those that can ask beside the streams, until they end or 10 min have passed.
  test('is not asked what the others can have asked', async () => {
    const { clock, session, resume, on, settledOn, replied } = await adopted();
    const { heard, exchange } = await resume(OURS, 'e1', [OTHER]);
    await session.openStandaloneStream({});
    on('standalone')({ id: 'q', ...ELICITATION });
    await settledOn('standalone');
    expect(heard.events.map(([name]) => name)).toEqual(['resumed']);
    expect(exchange.resumable()).toMatchObject({ beside: [OTHER] });
    clock.advance(30_000);
    expect(await replied('q')).toEqual({ action: 'cancel' });
  });

  // Rule concurrent-8.
  test('is asked its own when the other one is resumed as well, and has ended', async () => {
    const { session, resume, on, settledOn } = await adopted();
    const ours = await resume(OURS, 'e1', [OTHER]);
    const other = await resume(OTHER, 'e2', [OURS]);
    await session.openStandaloneStream({});
    on('standalone')({ id: 'q', ...ELICITATION });
    await settledOn('standalone');
    expect(ours.heard.events.map(([name]) => name)).toEqual(['resumed']);
    on('e2')(reply(OTHER));
    await other.heard.until('replied');
    expect(await ours.heard.until('asked')).toEqual(['asked', 'q', 'elicitation/create']);
    expect(ours.exchange.resumable()).not.toHaveProperty('beside');
  });

  // Rule concurrent-9 (2025-11-25 transports, "Resumability and Redelivery"): A resumed stream that carries progress
  // or the reply of another call of the session belongs to both. A question on it is as one on a stream that names no
  // call, and one that the other call was asked is not asked again.
  test('shares its stream with another one if that carries messages of both', async () => {
    const { resume, on, settledOn } = await adopted();
    const ours = await resume(OURS, 'e1');
    const other = await resume(OTHER, 'e2');
    on('e2')({ id: 'of-other', ...ELICITATION });
    await other.heard.until('asked');
    on('e1')({ id: 'of-other', ...ELICITATION });
    const progress = { progressToken: OTHER, progress: 1 };
    on('e1')({ method: 'notifications/progress', params: progress });
    await other.heard.until('notified');
    on('e1')({ id: 'of-somebody', ...ELICITATION });
    await settledOn('e1');
    expect(ours.heard.events.map(([name]) => name)).toEqual(['resumed']);
    on('e2')(reply(OTHER));
    expect(await ours.heard.until('asked')).toEqual(['asked', 'of-somebody', 'elicitation/create']);
  });
});

describe('what the calls of a session share', () => {
  // Rule concurrent-6: A session is pinged while one of its calls wants it, and its log level is the most detailed
  // one that a call asked for.
  test('pings go on until no call wants them', async () => {
    const ground = await stage();
    const { clock, session, server } = ground;
    const [one, other] = [{}, {}];
    const pings = () => server.methods().filter((method) => method === 'ping').length;
    session.keepAlive(true, one);
    clock.advance(40_000);
    session.keepAlive(true, other);
    session.keepAlive(false, one);
    clock.advance(20_000);
    await turnsUntil(() => pings() === 1);
    session.keepAlive(false, other);
    clock.advance(600_000);
    await settled(ground);
    expect(pings()).toBe(1);
  });

  // Rule concurrent-6.
  test('the most detailed log level counts, in whatever order calls ask for theirs', async () => {
    const levels: string[] = [];
    const server = await legacyServer(
      ({ body }, response) => {
        levels.push(body.params.level);
        response.writeHead(200, { 'content-type': 'application/json' });
        response.end(JSON.stringify(reply(body.id, {})));
      },
      { onGet: (_received, response) => void eventStream(response) },
    );
    const upstream = upstreamOf(server, { transport: 'streamable-http' });
    const session = await upstream.openSession({ profile: ASKING, clientInfo: null, headers: {} });
    closeAfterTest(() => session.close());
    const wanted = ['error', 'debug', 'info', 'debug', 'warning'];
    await Promise.all(wanted.map((level) => session.ensureLogLevel(level, {})));
    expect(levels).toEqual(['error', 'debug']);
  });
});
