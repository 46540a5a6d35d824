/** Calls that are continued at the same time in a session that the process before had opened for their caller. */
import { describe, expect, test, vi } from 'vitest';
import { sessionId, upstreamRequestId } from '../../../../src/protocol/ids.ts';
import type { CallExchange } from '../../../../src/upstream/session/call-exchange.ts';
import type { Lease } from '../../../../src/sessions/lease.ts';
import { Sharing } from '../../../../src/sessions/session-owner.ts';
import { SessionPool } from '../../../../src/sessions/session-pool.ts';
import type { HomePlacement, PlacedHome } from '../../../../src/sessions/placement.ts';
import { UpstreamFailure } from '../../../../src/model/upstream-failure.ts';
import type { SessionPoint } from '../../../../src/upstream/transport/transport.ts';
import { ManualClock, turnsUntil } from '../../../fixtures/manual-clock.ts';
import {
  ADA,
  ANY,
  IDLE_MS,
  poolStage,
  POOL_OPTIONS,
} from '../../../fixtures/servers/pool-testbed.ts';
import {
  eventStream,
  json,
  legacyServer,
  type ScriptedServer,
} from '../../../fixtures/servers/scripted-server.ts';
import {
  asked,
  ELICITATION,
  settled,
  type Stream,
} from '../../../fixtures/servers/session-stage.ts';
import {
  call,
  closeAfterTest,
  Heard,
  upstreamOf,
  reply,
} from '../../../fixtures/servers/upstream-testbed.ts';

interface StartedCall {
  readonly lease: Lease;
  readonly heard: Heard;
  readonly exchange: CallExchange;
  /** Sends a message on the stream of the call. */
  readonly send: (message: object) => void;
}

/** The key of the home of Ada. */
const HOME = new Sharing({ ...POOL_OPTIONS, concurrency: 'auto' }).homeFor(ADA)?.key ?? '';
const POINT = {
  sessionId: sessionId('session-before'),
  revision: '2025-11-25',
  home: HOME,
} as const;

/** The homes of a process that gets each one that it claims, with the session of the process before. */
function placementOf(some: Partial<HomePlacement>): HomePlacement {
  const placement: Partial<HomePlacement> = {
    ...{
      isHere: () => false,
      isConfirmed: () => true,
      stillHere: () => null,
      askStore: () => null,
    },
    claim: async () => ({ type: 'here', session: POINT }),
    ...{ giveUp: () => {}, keep: () => {}, listen: () => {}, close: () => {} },
    ...some,
  };
  return placement as HomePlacement;
}

/** A pool of the sessions with a server, in which callers have homes. */
function poolTo(server: ScriptedServer, placement?: HomePlacement) {
  const clock = new ManualClock();
  const upstream = upstreamOf(server, { transport: 'streamable-http' }, clock);
  const options = {
    ...POOL_OPTIONS,
    concurrency: 'auto',
    ...(placement && { placement }),
  } as const;
  const pool = new SessionPool(upstream, options, clock);
  closeAfterTest(() => pool.close());
  return { pool, clock };
}

/** The pool of a process that has just started: it has yet to find out what the server speaks. */
async function freshPool() {
  const { server, clock, ended } = await poolStage();
  const upstream = upstreamOf(server, {}, clock);
  const pool = new SessionPool(upstream, { ...POOL_OPTIONS, concurrency: 'auto' }, clock);
  closeAfterTest(() => pool.close());
  return { pool, upstream, ended, adopt: () => pool.adopt(ADA, POINT, ANY) };
}

// Rule sessions-2.
test('they share it, and the first one that ends does not end it for the others', async () => {
  const { pool, ended, adopt } = await freshPool();
  const [first, second] = await Promise.all([adopt(), adopt()]);
  second.giveBack(true);
  expect(pool.size).toBe(1);
  first.giveBack(true);
  const next = await pool.lease(ADA, ANY);
  expect(next.session.id).toBe(POINT.sessionId);
  next.giveBack(true);
  await pool.close();
  await turnsUntil(() => ended().includes(POINT.sessionId));
});

test('one whose credentials are good gets it, although those of another one were refused', async () => {
  const { upstream, adopt } = await freshPool();
  const refused = new UpstreamFailure('unauthorized', 'expired', { mayHaveActed: false });
  vi.spyOn(upstream, 'resumeSession').mockRejectedValueOnce(refused);
  const [first, second] = await Promise.allSettled([adopt(), adopt()]);
  expect(first).toMatchObject({ status: 'rejected', reason: refused });
  expect(second).toMatchObject({ status: 'fulfilled' });
});

// Rule sessions-8.
test.each([
  ['it comes', true],
  ['it does not come in 2 s', false],
])(
  'the next call waits for the stream that the process before had not given up yet: %s',
  async (_how, isGivenUp) => {
    let gets = 0;
    const { pool, clock } = await poolStage(
      {
        get: (_received, response) => {
          gets += 1;
          if (isGivenUp && gets > 1) eventStream(response);
          else json(response, 409, {});
        },
      },
      { concurrency: 'auto' },
    );
    const resumed = await pool.adopt(ADA, POINT, ANY);
    resumed.moved('parked');
    // As a call does once its own stream is back.
    await resumed.session.openStandaloneStream({});
    const next = Promise.resolve(pool.lease(ADA, ANY));
    const order: string[] = [];
    const leased = next.then(() => order.push('leased'));
    // The queue lets it start, but the pause before the next GET is not over.
    await turnsUntil(() => clock.pending >= 2);
    clock.advance(500);
    let turns = 0;
    await turnsUntil(() => (turns += 1) > 100);
    clock.advance(250);
    await turnsUntil(() => gets === 2);
    order.push('tried again');
    if (!isGivenUp) clock.advance(1_250);
    await leased;
    expect(order).toEqual(['tried again', 'leased']);
    expect((await next).session.standaloneStreamOpen).toBe(isGivenUp);
    for (const lease of [resumed, await next]) lease.giveBack(true);
  },
);

// Rule sessions-15.
test('the state of a session is still known when a call that was left in it has been cancelled', async () => {
  const replaced: string[] = [];
  const { pool } = await poolStage(
    {},
    { concurrency: 'auto', max: 1, onReplaced: (reason) => replaced.push(reason) },
  );
  const served = await pool.lease(ADA, ANY);
  served.giveBack(true);
  const left = await pool.lease(ADA, ANY);
  const id = left.session.id ?? sessionId('');
  const point = { sessionId: id, revision: '2025-11-25', home: HOME } as const;
  left.leave();
  const resumed = await pool.adopt(ADA, point, ANY);
  resumed.giveBack(false);
  const other = await pool.lease({ ...ADA, principalKey: 'bob' }, ANY);
  expect(replaced).toEqual(['needed']);
  other.giveBack(true);
});

// Rule sessions-29.
test('what its server says of itself is asked with the credentials of the caller that needs it', async () => {
  const { pool, server } = await poolStage({}, { concurrency: 'auto' });
  (await pool.adopt(ADA, POINT, ANY)).giveBack(true);
  const renewed = { authorization: 'Bearer renewed' };
  const { session, giveBack } = await pool.borrow({ ...ADA, headers: renewed });
  expect(session.isDescribed).toBe(true);
  giveBack();
  const asked = server.received.filter(({ body }) => body?.method === 'initialize').at(-1);
  expect(asked?.headers.authorization).toBe('Bearer renewed');
});

// Rule sessions-16.
test('a session that is ended is not left to the next process', async () => {
  const { server, clock, ended } = await poolStage();
  const left: boolean[] = [];
  const placement = placementOf({ giveUp: (_key, isSessionLeft) => void left.push(isSessionLeft) });
  const options = { concurrency: 'auto', placement } as const;
  const pool = new SessionPool(
    upstreamOf(server, {}, clock),
    { ...POOL_OPTIONS, ...options },
    clock,
  );
  closeAfterTest(() => pool.close());
  await pool.holderOf(ADA);
  const resumed = await pool.adopt(ADA, POINT, ANY);
  resumed.giveBack(true);
  clock.advance(IDLE_MS);
  await turnsUntil(() => left.length > 0);
  await turnsUntil(() => ended().includes(POINT.sessionId));
  expect(left).toEqual([false]);
});

// Rule changes-9.
test('a listener leaves it to the process that takes the home over, and listens in one of its own', async () => {
  const { server, clock, ended } = await poolStage();
  let isHere = false;
  let lose = (_key: string) => {};
  const holder = { id: 'other', instance: 'other' };
  let claim = async (): Promise<PlacedHome> => {
    isHere = true;
    return { type: 'here', session: POINT };
  };
  const placement = placementOf({
    claim: () => claim(),
    isHere: () => isHere,
    listen: ({ lost }) => void (lose = lost),
  });
  const options = { ...POOL_OPTIONS, concurrency: 'auto', placement } as const;
  const pool = new SessionPool(upstreamOf(server, {}, clock), options, clock);
  closeAfterTest(() => pool.close());
  const lease = await pool.leaseToListen(ADA, () => lease.giveBack());
  expect(lease.session.id).toBe(POINT.sessionId);
  isHere = false;
  claim = async () => ({ type: 'elsewhere', holder });
  lose(HOME);
  expect(lease.session.dead).toBe(true);
  const next = await pool.leaseToListen(ADA, () => {});
  expect(next.session.id).not.toBe(POINT.sessionId);
  next.giveBack();
  await turnsUntil(() => ended().includes(next.session.id ?? ''));
  expect(ended()).not.toContain(POINT.sessionId);
});

test('what fails for another reason fails for all who wait for it', async () => {
  const { upstream, adopt } = await freshPool();
  const failed = new UpstreamFailure('upstream_timeout', 'late', { mayHaveActed: false });
  const adoption = vi.spyOn(upstream, 'resumeSession').mockRejectedValue(failed);
  const adopted = await Promise.allSettled([adopt(), adopt(), adopt()]);
  expect(adopted.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected']);
  expect(adoption).toHaveBeenCalledTimes(1);
});

// Rule questions-10.
test('a session of one call that another replica may still use is not used for other calls', async () => {
  const { server, clock, ended } = await poolStage();
  const upstream = upstreamOf(server, { hasSiblings: true }, clock);
  const pool = new SessionPool(upstream, POOL_OPTIONS, clock);
  closeAfterTest(() => pool.close());
  const { sessionId: id, revision } = POINT;
  const resumed = await pool.adopt(ADA, { sessionId: id, revision }, ANY);
  expect(resumed.session.questions.knowsAllCalls()).toBe(false);
  resumed.giveBack(true);
  await turnsUntil(() => ended().includes(id));
  const next = await pool.lease(ADA, ANY);
  expect(next.session.id).not.toBe(id);
  expect(next.session.questions.knowsAllCalls()).toBe(true);
  next.giveBack(true);
});

describe('a call that is resumed by the process that has claimed its home', () => {
  /**
   * @param kept the session of the home, which the process before has kept
   * @param had the calls that this one had, and how long they waited for an answer
   */
  async function resumed(kept: string, had: readonly (readonly [number, number | null])[] = []) {
    const streams: Record<string, Stream> = {};
    const server = await legacyServer(() => {}, {
      onGet: ({ headers }, response) => {
        streams[String(headers['last-event-id'] ?? 'standalone')] = eventStream(response);
      },
    });
    const session = { ...POINT, sessionId: sessionId(kept) };
    const claim = async () => ({ type: 'here' as const, session: { ...session, calls: calls() } });
    const { pool, clock } = poolTo(server, placementOf({ claim }));
    const calls = () =>
      had.map(([id, waitedMs]) => ({
        id: upstreamRequestId(id),
        waitsSinceMs: waitedMs === null ? null : clock.elapsed() - waitedMs,
      }));
    await pool.holderOf(ADA);
    const { session: adopted } = await pool.adopt(ADA, POINT, ANY);
    const heard = new Heard();
    adopted.resumeCall(upstreamRequestId(7), { ...POINT, lastEventId: 'e1' }, heard, {});
    await heard.until('resumed');
    await adopted.openStandaloneStream({});
    const send = (message: object) => streams['standalone']?.send({ jsonrpc: '2.0', ...message });
    const questions = () => heard.events.flatMap(([name, id]) => (name === 'asked' ? [id] : []));
    return { ...asked(server), clock, send, questions, settled: () => settled({ server, send }) };
  }

  // Rule concurrent-5.
  test('is asked what comes beside the streams of the session of the home', async () => {
    const { send, questions, settled: settle } = await resumed(POINT.sessionId);
    send({ id: 'own', ...ELICITATION });
    await settle();
    expect(questions()).toEqual(['own']);
  });

  // Rule questions-10.
  test('is asked what comes beside the streams if it is the only call that the process before had', async () => {
    const { send, questions, settled: settle } = await resumed(POINT.sessionId, [[7, null]]);
    send({ id: 'own', ...ELICITATION });
    await settle();
    expect(questions()).toEqual(['own']);
  });

  // Rule questions-10.
  test('is not asked for 75 s what another call can have asked that the process before had', async () => {
    const {
      clock,
      send,
      questions,
      settled: settle,
    } = await resumed(POINT.sessionId, [
      [7, 5_000],
      [8, null],
    ]);
    clock.advance(74_999);
    send({ id: 'of-somebody', ...ELICITATION });
    await settle();
    expect(questions()).toEqual([]);
    clock.advance(1);
    send({ id: 'own', ...ELICITATION });
    await settle();
    expect(questions()).toEqual(['own']);
  });

  // Rule questions-10.
  test('is not asked what another call can have asked that the process before had, once that has waited for long enough', async () => {
    const {
      clock,
      send,
      questions,
      settled: settle,
    } = await resumed(POINT.sessionId, [
      [7, 5_000],
      [8, 15_000],
    ]);
    clock.advance(39_999);
    send({ id: 'own', ...ELICITATION });
    await settle();
    expect(questions()).toEqual(['own']);
    clock.advance(1);
    send({ id: 'of-somebody', ...ELICITATION });
    await settle();
    clock.advance(20_000);
    send({ id: 'another', ...ELICITATION });
    await settle();
    expect(questions()).toEqual(['own', 'another']);
  });

  // Rule concurrent-5.
  test('is not asked what comes beside the streams of another session', async () => {
    const { clock, send, questions, settled: settle, replied } = await resumed('another');
    send({ id: 'of-somebody', ...ELICITATION });
    await settle();
    clock.advance(30_000);
    expect(await replied('of-somebody')).toEqual({ action: 'cancel' });
    clock.advance(570_000);
    send({ id: 'own', ...ELICITATION });
    await settle();
    expect(questions()).toEqual(['own']);
  });
});

// Rule questions-10.
test('a home that comes back has nothing of what ran before another process had it', async () => {
  const streams: Stream[] = [];
  const ended: string[] = [];
  const server = await legacyServer(
    ({ body }, response) => {
      const stream = eventStream(response);
      if (body.method !== 'tools/call') return void response.end();
      streams.push(stream);
    },
    {
      onGet: (_received, response) => {
        response.on('close', () => ended.push('standalone'));
        eventStream(response);
      },
    },
  );
  let lose = (_key: string) => {};
  const isHere = { now: false };
  const left: { session: SessionPoint | null } = { session: null };
  const placement = placementOf({
    isHere: () => isHere.now,
    claim: async () => {
      isHere.now = true;
      return { type: 'here', ...left };
    },
    keep: (_key, session) => void (left.session = session),
    listen: ({ lost }) => void (lose = lost),
  });
  const { pool } = poolTo(server, placement);
  await pool.holderOf(ADA);
  const former = await pool.lease(ADA, ANY);
  expect(former.session.questions.knowsAllCalls()).toBe(true);
  let replaced = 0;
  const listening = await pool.leaseToListen(ADA, () => (replaced += 1));
  isHere.now = false;
  lose(HOME);
  expect([former.session.questions.knowsAllCalls(), replaced]).toEqual([false, 1]);
  await turnsUntil(() => ended.length === 1);
  listening.giveBack();
  await pool.holderOf(ADA);
  const next = await pool.lease(ADA, ANY);
  expect(next.session).not.toBe(former.session);
  expect([former, next].map(({ session }) => session.questions.knowsAllCalls())).toEqual([
    false,
    true,
  ]);
  // It went on in the session of the former one, whose call it does not know.
  expect(next.session.id).toBe(former.session.id);
  expect(next.session.questions.hasUnfinished).toBe(true);
  former.giveBack(true);
  next.giveBack(true);
  expect(pool.hasHome(HOME)).toBe(true);
});

// Rule sessions-2.
test('a home that was claimed for a request which does not come is given up when it was idle', async () => {
  const { server } = await poolStage();
  const givenUp: [string, boolean][] = [];
  const placement = placementOf({ giveUp: (...given) => void givenUp.push(given) });
  const { pool, clock } = poolTo(server, placement);
  await pool.holderOf(ADA);
  clock.advance(IDLE_MS - 1);
  expect(givenUp).toEqual([]);
  clock.advance(1);
  // The session of the process before is left to the next one.
  expect(givenUp).toEqual([[HOME, true]]);
  expect(clock.pending).toBe(0);
});

// Rule sessions-2.
test('a home that was claimed stays with the request that comes late', async () => {
  const { server } = await poolStage();
  const givenUp: string[] = [];
  const placement = placementOf({
    claim: async () => ({ type: 'here', session: null }),
    giveUp: (key) => void givenUp.push(key),
  });
  const { pool, clock } = poolTo(server, placement);
  await pool.holderOf(ADA);
  clock.advance(IDLE_MS - 1);
  const lease = await pool.lease(ADA, ANY);
  clock.advance(IDLE_MS);
  lease.giveBack(true);
  expect(givenUp).toEqual([]);
});

// Rule changes-9.
test('a listener whose home is lost while its session is opened is told, and listens elsewhere', async () => {
  const greeted = Promise.withResolvers<void>();
  const asks = Promise.withResolvers<void>();
  const server = await legacyServer(() => {}, {
    onGet: (_received, response) => {
      asks.resolve();
      void greeted.promise.then(() => eventStream(response));
    },
  });
  let lose = (_key: string) => {};
  const placement = placementOf({
    isHere: () => true,
    listen: ({ lost }) => void (lose = lost),
  });
  const { pool } = poolTo(server, placement);
  const listening = pool.leaseToListen(ADA, () => {});
  await asks.promise;
  lose(HOME);
  greeted.resolve();
  await expect(listening).rejects.toMatchObject({ code: 'session_gone' });
});

// Rule sessions-12.
test('a call that waited for a home which another process has by now is not made in its session', async () => {
  const { server } = await poolStage();
  const isStillHere = vi.fn(() => Promise.resolve(false));
  const { pool } = poolTo(server, placementOf({ isHere: () => true, stillHere: isStillHere }));
  await pool.holderOf(ADA);
  await expect(pool.lease(ADA, ANY)).rejects.toMatchObject({
    code: 'upstream_busy',
    details: { mayHaveActed: false },
  });
  expect(isStillHere).toHaveBeenCalled();
});

describe('a call in a session that was let go of here and is taken up again', () => {
  /** A call that is left, so that nothing here is connected to the session; and what is done before, and just before it is left. */
  async function takenUp({
    before = async () => {},
    beforeItIsLeft = async () => {},
  }: {
    before?: (first: StartedCall) => Promise<void>;
    beforeItIsLeft?: (left: StartedCall) => Promise<void>;
  }) {
    const streams = new Map<unknown, Stream>();
    const standalones: Stream[] = [];
    const server = await legacyServer(
      ({ body }, response) => void streams.set(body.id, eventStream(response)),
      { onGet: (_received, response) => void standalones.push(eventStream(response)) },
    );
    const { pool } = poolTo(server);
    const start = async (): Promise<StartedCall> => {
      const lease = await pool.lease(ADA, ANY);
      const { heard, exchange } = call(lease.session);
      await exchange.accepted;
      const send = (message: object) =>
        streams.get(exchange.id)?.send({ jsonrpc: '2.0', ...message });
      return { lease, heard, exchange, send };
    };
    const first = await start();
    await before(first);
    first.exchange.abandon();
    first.lease.giveBack(false);
    const left = await start();
    await beforeItIsLeft(left);
    left.exchange.abandon();
    left.lease.leave();
    const next = await start();
    expect(next.lease.session.id).toBe(left.lease.session.id);
    const send = (message: object) => standalones.at(-1)?.send({ jsonrpc: '2.0', ...message });
    send({ id: 'beside', ...ELICITATION });
    await settled({ server, send });
    next.lease.giveBack(false);
    return next.heard.events.flatMap(([name, id]) => (name === 'asked' ? [id] : []));
  }

  const ends = async ({ heard, send, exchange }: StartedCall) => {
    send(reply(exchange.id));
    await heard.until('replied');
  };
  const waits = async ({ heard, send }: StartedCall) => {
    send({ id: 'first', ...ELICITATION });
    await heard.until('asked');
  };

  test('is not asked what one can have asked that was cancelled before', async () => {
    const asked = await takenUp({
      before: async ({ exchange }) => {
        await exchange.cancel('the client left', {});
      },
      beforeItIsLeft: waits,
    });
    expect(asked).toEqual([]);
  });

  test('is not asked what one can have asked that was left while it worked', async () => {
    expect(await takenUp({ before: ends })).toEqual([]);
  });

  test('is asked its own while one that was left waits for an answer', async () => {
    const asked = await takenUp({ before: ends, beforeItIsLeft: waits });
    expect(asked).toEqual(['beside']);
  });
});

// Rule questions-10.
test.each([
  ['is asked it if the home is still here', true, ['own']],
  ['is not asked it if another process has the home', false, []],
])(
  'the only call of a home waits until the store was asked about a question that names no call: it %s',
  async (_how, isStillHere, shown) => {
    let standalone: Stream | undefined;
    const server = await legacyServer((_received, response) => void eventStream(response), {
      onGet: (_received, response) => {
        standalone = eventStream(response);
      },
    });
    const store = Promise.withResolvers<boolean>();
    let isConfirmed = true;
    const placement = placementOf({
      isConfirmed: () => isConfirmed,
      claim: async () => ({ type: 'here', session: null }),
      askStore: () => store.promise,
    });
    const { pool } = poolTo(server, placement);
    await pool.holderOf(ADA);
    const lease = await pool.lease(ADA, ANY);
    const { heard, exchange } = call(lease.session);
    await exchange.accepted;
    const send = (message: object) => standalone?.send({ jsonrpc: '2.0', ...message });
    const questions = () => heard.events.flatMap(([name, id]) => (name === 'asked' ? [id] : []));
    send({ id: 'own', ...ELICITATION });
    await settled({ server, send });
    expect(questions()).toEqual([]);
    isConfirmed = isStillHere;
    store.resolve(isStillHere);
    await settled({ server, send });
    expect(questions()).toEqual(shown);
    lease.giveBack(false);
  },
);
