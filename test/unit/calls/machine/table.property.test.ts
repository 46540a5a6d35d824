/**
 * The laws of a parked call, checked after every step of random histories. A small world stands for
 * what surrounds the table: a legacy server that asks, clients that retry, timers, and a runner that
 * carries out effects. Some of its events are plausible where they happen, others are not.
 */
import fc from 'fast-check';
import { describe, test } from 'vitest';
import {
  TIMERS,
  type CallEvent,
  type CallLimits,
  type CallState,
  type ConsumedRetry,
  type Effect,
  type WaiterId,
  type WaiterReply,
  type OpenRequest,
  type StateName,
  type TimerName,
} from '../../../../src/calls/machine/states.ts';
import { step, TRANSITIONS } from '../../../../src/calls/machine/table.ts';
import {
  attachedWaiters,
  hasPlace,
  isBroken,
  openRequests,
  timersOf,
} from '../../../../src/calls/machine/selectors.ts';
import { begin } from '../../../../src/calls/machine/steps.ts';
import { inputKey, serverRequestId, type ServerRequestId } from '../../../../src/protocol/ids.ts';
import { answersNotTaken } from '../../../../src/model/failures.ts';
import { expect } from '../../../fixtures/quick-expect.ts';

const LIMITS: CallLimits = {
  batchWindowMs: 30,
  batchLimitMs: 150,
  maxDurationMs: 300_000,
  maxHoldMs: 60_000,
  parkTtlMs: 600_000,
  callTtlMs: 3_600_000,
  cancelGraceMs: 2_000,
  redeliverMs: 120_000,
  maxRounds: 2,
  maxStateOnly: 1,
  clientRounds: 4,
  becomesTask: false,
  maxShownQuestions: 3,
  maxOpenQuestions: 3,
};

/** What became of a request of the server, as the server sees it. */
type Fate = 'open' | 'answered' | 'withdrawn' | 'dead';

type Told =
  | { readonly type: 'waiting' }
  | { readonly type: 'closed' }
  | Exclude<WaiterReply, { type: 'sameInputRequired' }>;

/** A retry that was accepted, and what it was told; its repetition is owed the same. */
interface Accepted extends ConsumedRetry {
  readonly waiters: WaiterId[];
  told: Told;
}

class World {
  state: CallState;
  readonly rules = new Set<string>();
  readonly visited = new Set<StateName>();
  readonly armed = new Set<TimerName>();
  readonly waiters = new Map<WaiterId, Told>();
  readonly requests = new Map<ServerRequestId, Fate>();
  readonly used = new Set<number>();
  forgotten = false;
  #nextWaiter = 2;
  #nextId = 0;
  #nowMs = 1_700_000_000_000;
  #holds = true;
  #cancelled = false;
  /** Waiters of retries that waited for the stream and are yet to be looked at. */
  readonly #pending = new Set<WaiterId>();
  /** The rounds in which clients were asked nothing. */
  readonly #stateOnly = new Set<number>();
  #lastRound: Extract<Told, { type: 'inputRequired' }> | null = null;
  #posting: readonly OpenRequest[] | null = null;
  /** What was open before the event that is being looked at. */
  #leaving: readonly OpenRequest[] = [];
  #accepted: Accepted | null = null;
  /** Who was the last accepted retry before, should the server refuse the answers of this one. */
  #acceptedBefore: Accepted | null = null;

  constructor() {
    this.waiters.set(1, { type: 'waiting' });
    const first = begin(1, LIMITS);
    this.state = first.state;
    this.#carryOut(first.effects, null);
    this.#check();
  }

  get lastAccepted(): Accepted | null {
    return this.#accepted;
  }

  get posting(): readonly OpenRequest[] | null {
    return this.#posting;
  }

  sleep(ms: number): void {
    this.#nowMs += ms;
  }

  newWaiter(): WaiterId {
    const waiter = this.#nextWaiter;
    this.#nextWaiter += 1;
    this.waiters.set(waiter, { type: 'waiting' });
    return waiter;
  }

  newRequest(): OpenRequest {
    const id = serverRequestId(this.#nextId);
    this.#nextId += 1;
    return { key: inputKey(`elicit-${id}`), id };
  }

  newUrl(): OpenRequest {
    this.#nextId += 1;
    return { key: inputKey(`url-${this.#nextId}`), id: null };
  }

  asks(): void {
    this.dispatch({ type: 'asked', request: this.newRequest(), atMs: this.#nowMs });
  }

  /** A timer goes off, as the runner translates it. */
  fire(timer: TimerName, mayPark: boolean): void {
    this.armed.delete(timer);
    switch (timer) {
      case 'batch':
        return this.dispatch({ type: 'batched', mayPark });
      case 'grace':
        return this.dispatch({ type: 'ended' });
      case 'redeliver':
        this.forgotten = true;
        return;
      case 'hold':
        return this.dispatch({ type: 'holdOver', mayPark });
      default:
        return this.dispatch({ type: 'expired', timer });
    }
  }

  dispatch(event: CallEvent): void {
    const from = this.state;
    if (event.type === 'waiterClosed') this.#close(event.waiter);
    const { state, effects, row } = step(from, event, LIMITS);
    if (row === null) {
      expect(state, 'an event without a row changes nothing').toBe(from);
      expect(effects).toEqual([]);
      expect(event.type, 'no retry is left without a row').not.toBe('retry');
      return this.#check();
    }
    expect(row.to, `rule ${row.rule} leads where it says`).toContain(state.name);
    this.rules.add(row.rule);
    const isAdmitted = ('mayPark' in event && event.mayPark) || event.type === 'requesterStops';
    if (hasPlace(state) && !isAdmitted)
      expect(hasPlace(from), `rule ${row.rule} takes no place`).toBe(true);
    this.state = state;
    for (const timer of [...this.armed]) {
      if (!timersOf(state).includes(timer)) this.armed.delete(timer);
    }
    const repeated = this.#repeated(from, event);
    this.#leaving = openRequests(from);
    this.#server(event);
    this.#acceptance(from, event);
    // A retry of the next round waits with the last one, too: a process that had the call before gave its pointer.
    if (event.type === 'retry' && row.rule === 'retry-joined') {
      this.#accepted?.waiters.push(event.waiter);
    }
    this.#carryOut(effects, event);
    if (event.type === 'retry' && repeated !== null) this.#isRepeated(event.waiter, repeated);
    this.#check();
  }

  // What the server knows.

  #server(event: CallEvent): void {
    switch (event.type) {
      case 'asked':
        if (event.request.id !== null) this.requests.set(event.request.id, 'open');
        break;
      case 'withdrawn':
        if (this.requests.has(event.id)) this.requests.set(event.id, 'withdrawn');
        break;
      case 'postRefused':
        this.#giveBack(event.accepted);
        break;
      case 'sessionGone':
        this.#giveBack([]);
        this.#allDead();
        break;
      case 'posted':
        this.#posting = null;
        break;
      case 'lost':
        this.#allDead();
        break;
      default:
    }
  }

  #allDead(): void {
    for (const [id, fate] of this.requests) if (fate === 'open') this.requests.set(id, 'dead');
  }

  #giveBack(accepted: readonly ServerRequestId[]): void {
    for (const { id } of this.#posting ?? []) {
      if (id === null || accepted.includes(id)) continue;
      if (this.requests.get(id) === 'answered') this.requests.set(id, 'open');
    }
    this.#posting = null;
  }

  #answer(requests: readonly OpenRequest[]): void {
    for (const { id } of requests) {
      if (id === null) continue;
      expect(this.requests.get(id), `request ${id} is answered once, while it is open`).toBe(
        'open',
      );
      this.requests.set(id, 'answered');
    }
  }

  // What clients are told.

  #close(waiter: WaiterId): void {
    if (this.waiters.get(waiter)?.type === 'waiting') this.waiters.set(waiter, { type: 'closed' });
  }

  #tell(waiter: WaiterId, reply: WaiterReply): void {
    expect(this.waiters.get(waiter), `waiter ${waiter} is told once, and while it waits`).toEqual({
      type: 'waiting',
    });
    if (reply.type === 'inputRequired') {
      // Handing a call over may take one round more: the server has asked for nothing in it.
      const limit = LIMITS.maxRounds + (this.#isLeft() ? 1 : 0);
      if (reply.keys.length === 0) this.#stateOnly.add(reply.round);
      else {
        const asking = reply.round - reply.stateOnly;
        expect(asking, 'rounds stay within their limit').toBeLessThanOrEqual(limit);
      }
      expect(reply.stateOnly, 'rounds without questions are counted').toBe(this.#stateOnly.size);
      expect(reply.stateOnly, 'and stay within theirs').toBeLessThanOrEqual(LIMITS.maxStateOnly);
      expect(reply.round).toBe(this.state.round);
      const open = this.#isLeft() ? this.#leaving : openRequests(this.state);
      expect(reply.keys, 'what is asked is all that is open').toEqual(
        open.map((request) => request.key),
      );
      if (reply.keys.length === 0) expect(['runningDetached', 'done']).toContain(this.state.name);
      this.#lastRound = reply;
    }
    if (reply.type === 'missingCapability') expect(reply.keys).not.toEqual([]);
    if (reply.type === 'sameInputRequired') expect(this.#lastRound).not.toBeNull();
    const told = reply.type === 'sameInputRequired' ? (this.#lastRound as Told) : reply;
    this.waiters.set(waiter, told);
    const accepted = this.#accepted;
    if (accepted?.waiters.includes(waiter)) {
      if (accepted.told.type !== 'waiting' && accepted.told.type !== 'closed') {
        expect(told, 'repetitions that wait together are told the same').toEqual(accepted.told);
      }
      accepted.told = told;
    }
  }

  #repeated(from: CallState, event: CallEvent): Accepted | null {
    const accepted = this.#accepted;
    if (event.type !== 'retry' || accepted === null) return null;
    // What comes while a parked call's stream is broken is looked at when the stream is back.
    if (isBroken(from) && !('waiters' in from)) return null;
    return accepted.round === event.round && accepted.answersDigest === event.answersDigest
      ? { ...accepted }
      : null;
  }

  /** The law of repetition: a lost answer is given again, and nothing else happens. */
  #isRepeated(waiter: WaiterId, accepted: Accepted): void {
    const told = this.waiters.get(waiter);
    const { state } = this;
    if (state.name !== 'cancelling' && state.name !== 'done') {
      if (accepted.told.type === 'waiting') {
        expect(told, 'the repetition waits with the first').toEqual({ type: 'waiting' });
      } else if (this.#lastRound?.round === this.state.round) {
        expect(told, 'the repetition is given the same round').toEqual(this.#lastRound);
      }
    } else if (state.end.type === 'cancelled') {
      expect(told).toEqual({ type: 'invalidRequestState', reason: 'ended' });
    } else {
      expect(told, 'the repetition is told the same end').toEqual({ type: 'end', end: state.end });
      if (accepted.told.type === 'end') expect(told).toEqual(accepted.told);
    }
  }

  #acceptance(from: CallState, event: CallEvent): void {
    const [was, is] = [from.consumed, this.state.consumed];
    if (event.type === 'postRefused') {
      expect(was, 'only a retry that was accepted is refused').not.toBeNull();
      this.used.delete(was?.round ?? 0);
      this.#accepted = this.#acceptedBefore;
      expect(is, 'the retry accepted before is the last again').toEqual(asConsumed(this.#accepted));
      return;
    }
    if (is === null || same(was, is)) {
      if (this.state.name !== 'done') expect(is, 'what is consumed stays so').toEqual(was);
      return;
    }
    expect(event, 'only a retry uses up a round').toMatchObject({ type: 'retry', ...is });
    expect([...this.used], `round ${is.round} is used up once`).not.toContain(is.round);
    if (this.state.name !== 'done') expect(this.#lastRound?.round).toBe(is.round);
    if (event.type !== 'retry') return;
    this.used.add(is.round);
    this.#acceptedBefore = this.#accepted;
    this.#accepted = { ...is, waiters: [event.waiter], told: { type: 'waiting' } };
  }

  #isLeft(): boolean {
    return this.state.name === 'done' && this.state.end.type === 'left';
  }

  // What the runner does.

  #carryOut(effects: readonly Effect[], event: CallEvent | null): void {
    const isElsewhere = event?.type === 'lost' && event.isElsewhere;
    for (const effect of effects) {
      switch (effect.do) {
        case 'reply':
          expect(effect.waiters).not.toEqual([]);
          for (const waiter of effect.waiters) this.#tell(waiter, effect.reply);
          break;
        case 'post':
          expect(this.waiters.get(effect.waiter)).toEqual({ type: 'waiting' });
          expect(effect.requests).not.toEqual([]);
          expect(this.#posting, 'answers go upstream one retry at a time').toBeNull();
          this.#answer(effect.requests);
          this.#posting = effect.requests;
          break;
        case 'callAgain':
          expect(this.#holds, 'the session is still held').toBe(true);
          this.#posting = null;
          break;
        case 'cancelOpenQuestions':
          expect(effect.requests).not.toEqual([]);
          this.#answer(effect.requests);
          break;
        case 'cancelUpstream':
          expect(this.#holds && !this.#cancelled, 'the server is told to stop once').toBe(true);
          this.#cancelled = true;
          // Nothing is answered before the server has taken the cancellation.
          this.#answer(effect.open);
          break;
        case 'free':
          expect(this.#holds, 'what the call holds is freed once').toBe(true);
          this.#holds = false;
          this.#posting = null;
          break;
        case 'leave':
          expect(this.#holds, 'what the call holds is freed once').toBe(true);
          // Only another reader takes a call that the server was told to stop.
          expect(this.#cancelled && !isElsewhere, 'the server is told nothing').toBe(false);
          this.#holds = false;
          this.#allDead();
          this.forgotten = this.#isLeft();
          break;
        case 'retryWaiting':
          for (const { waiter } of effect.retries) this.#pending.add(waiter);
          for (const retry of effect.retries) {
            this.#pending.delete(retry.waiter);
            if (this.waiters.get(retry.waiter)?.type === 'waiting') this.dispatch(retry);
          }
          break;
        case 'arm':
          expect(timersOf(this.state)).toContain(effect.timer);
          expect(effect.afterMs).toBeGreaterThanOrEqual(0);
          expect(effect.afterMs).toBeLessThanOrEqual(LIMITS.callTtlMs);
          this.armed.add(effect.timer);
          break;
      }
    }
  }

  /** What holds between any two events. */
  #check(): void {
    const { state } = this;
    this.visited.add(state.name);
    // How long one answer may take does not count while the stream is broken, or when the client stands no further round.
    const holds =
      state.name === 'running' &&
      state.stateOnly < LIMITS.maxStateOnly &&
      state.round < LIMITS.clientRounds &&
      !isBroken(state);
    const deadlines = TIMERS[state.name].filter((timer) => timer !== 'hold' || holds);
    for (const deadline of deadlines) {
      expect([...this.armed], `the deadlines of ${state.name} are set`).toContain(deadline);
    }
    const waiting = [...this.waiters]
      .filter(([waiter, told]) => told.type === 'waiting' && !this.#pending.has(waiter))
      .map(([waiter]) => waiter);
    expect([...attachedWaiters(state)].sort(), 'every waiting waiter is known').toEqual(
      waiting.sort(),
    );
    const open = [...this.requests].filter(([, fate]) => fate === 'open').map(([id]) => id);
    const known = openRequests(state).flatMap(({ id }) => (id === null ? [] : [id]));
    expect(known.sort(), 'every open request is known, and nothing is open at the end').toEqual(
      open.sort(),
    );
    const over = state.name === 'done' || state.name === 'resultReady';
    expect(this.#holds, 'what the call holds is freed when it is over').toBe(!over);
    expect(state.round).toBeLessThanOrEqual(LIMITS.maxRounds + LIMITS.maxStateOnly + 1);
    if (state.name === 'parked') expect(state.open).not.toEqual([]);
    if (state.name === 'batching') expect(state.open).not.toEqual([]);
  }
}

function same(one: ConsumedRetry | null, other: ConsumedRetry | null): boolean {
  return one?.round === other?.round && one?.answersDigest === other?.answersDigest;
}

function asConsumed(accepted: Accepted | null): ConsumedRetry | null {
  if (accepted === null) return null;
  return { round: accepted.round, answersDigest: accepted.answersDigest };
}

// Random histories.

type Happening = (world: World) => void;

/** Chooses among what there is when the time comes. */
const pick = <Item>(items: readonly Item[], choice: number): Item | undefined =>
  items.length === 0 ? undefined : items[choice % items.length];

const choice = fc.nat({ max: 7 });

/** There is room to park, mostly. */
const room = fc.integer({ min: 0, max: 9 }).map((n) => n > 0);

const asked = fc.nat({ max: 60 }).map((ms): Happening => (world) => {
  world.sleep(ms);
  world.asks();
});

const withdrawn = choice.map((which): Happening => (world) => {
  const id = pick([...world.requests.keys(), serverRequestId('never asked')], which);
  if (id !== undefined) world.dispatch({ type: 'withdrawn', id });
});

const outcome = fc.tuple(choice, fc.boolean()).map(([n, clean]): Happening => (world) => {
  world.dispatch({ type: 'outcome', outcome: { kind: 'complete', result: { n } }, clean });
});

const asksFirst = fc
  .tuple(fc.integer({ min: 1, max: 3 }), room)
  .map(([count, mayPark]): Happening => (world) => {
    const requests = Array.from({ length: count }, () => world.newUrl());
    world.dispatch({ type: 'asksFirst', requests, mayPark });
  });

const timer = fc.tuple(choice, room).map(([which, mayPark]): Happening => (world) => {
  const fired = pick([...world.armed], which);
  if (fired !== undefined) world.fire(fired, mayPark);
});

const batchTimer = room.map((mayPark): Happening => (world) => {
  if (world.armed.has('batch')) world.fire('batch', mayPark);
});

interface RetryShape {
  readonly round: 'current' | 'last' | number;
  readonly digest: string;
  readonly answers: number;
  readonly undeclared: number;
  readonly declined: boolean;
}

/** A retry, read as the runner reads it: answers count for the current round only. */
function retries({ round, digest, answers, undeclared, declined }: RetryShape): Happening {
  return (world) => {
    const { state, lastAccepted } = world;
    const named = round === 'current' ? state.round : round === 'last' ? state.round - 1 : round;
    const answerable = state.name === 'parked' || state.name === 'suspended';
    const keys =
      answerable && named === state.round ? state.open.map((request) => request.key) : [];
    const answered = keys.filter((_, n) => (answers >> n) % 2 === 1);
    world.dispatch({
      type: 'retry',
      waiter: world.newWaiter(),
      round: named,
      answersDigest:
        round === 'last' && digest === 'same' ? (lastAccepted?.answersDigest ?? digest) : digest,
      answered,
      uncovered: keys.filter((_, n) => (undeclared >> n) % 2 === 1),
      declined: declined && state.name === 'suspended' && answered.length > 0,
    });
  };
}

const answeringRetry = fc
  .constantFrom('a', 'b')
  .map((digest) =>
    retries({ round: 'current', digest, answers: 255, undeclared: 0, declined: false }),
  );

const anyRetry = fc
  .record<RetryShape>({
    round: fc.oneof(
      { weight: 4, arbitrary: fc.constantFrom('current', 'last') },
      { weight: 1, arbitrary: fc.integer({ min: 0, max: 6 }) },
    ),
    digest: fc.constantFrom('a', 'b', 'same'),
    answers: fc.nat({ max: 255 }),
    undeclared: fc.oneof(fc.constant(0), fc.nat({ max: 255 })),
    declined: fc.integer({ min: 0, max: 3 }).map((n) => n === 0),
  })
  .map(retries);

const posted = fc.constant<Happening>((world) => {
  if (world.posting !== null || world.state.name !== 'answering')
    world.dispatch({ type: 'posted' });
});

const postRefused = fc
  .tuple(fc.constantFrom('postRefused', 'sessionGone'), fc.nat({ max: 2 }))
  .map(([type, taken]): Happening => (world) => {
    if (world.posting === null) return;
    if (type === 'sessionGone') return world.dispatch({ type });
    const ids = world.posting.flatMap(({ id }) => (id === null ? [] : [id]));
    world.dispatch({
      type,
      failure: FAILURE,
      accepted: ids.slice(0, Math.min(taken, ids.length - 1)),
    });
  });

const waiterClosed = choice.map((which): Happening => (world) => {
  const waiter = pick([...world.waiters.keys(), 1_000], which);
  if (waiter !== undefined) world.dispatch({ type: 'waiterClosed', waiter });
});

const streamBreaks = fc.constantFrom('interrupted', 'resumed').map(
  (type): Happening =>
    (world) =>
      world.dispatch({ type }),
);

const callEnds = fc
  .tuple(
    fc.constantFrom(
      ...(['lost', 'drain', 'evict', 'ended', 'shutOut'] as const),
      ...(['takenOver', 'ownerReads', 'released', 'requesterStops'] as const),
    ),
    fc.boolean(),
  )
  .map(([type, isSo]): Happening => (world) => {
    // The grace of a call can only end when there is one.
    if (type === 'ended' && world.state.name !== 'cancelling') return;
    if (type === 'drain') return world.dispatch({ type, outlivesProcess: isSo });
    if (type === 'lost') return world.dispatch({ type, isElsewhere: isSo, exceeds: null });
    world.dispatch(type === 'shutOut' ? { type, failure: FAILURE } : { type });
  });

const FAILURE = answersNotTaken(null);

const operatorStops = fc.constant<Happening>((world) => world.dispatch({ type: 'operatorStops' }));

const holdTimer = fc.constant<Happening>((world) => {
  if (world.armed.has('hold')) world.fire('hold', true);
});

const givenToTask = fc.constantFrom(1_000, 3_600_000).map(
  (leftMs): Happening =>
    (world) =>
      world.dispatch({ type: 'givenToTask', leftMs }),
);

/** What ends a call is rare, so that histories are long. */
const happening = fc.oneof(
  { weight: 12, arbitrary: asked },
  { weight: 12, arbitrary: batchTimer },
  { weight: 2, arbitrary: holdTimer },
  { weight: 8, arbitrary: answeringRetry },
  { weight: 16, arbitrary: anyRetry },
  { weight: 8, arbitrary: posted },
  { weight: 4, arbitrary: postRefused },
  { weight: 5, arbitrary: withdrawn },
  { weight: 2, arbitrary: waiterClosed },
  { weight: 1, arbitrary: givenToTask },
  { weight: 5, arbitrary: streamBreaks },
  { weight: 2, arbitrary: callEnds },
  { weight: 1, arbitrary: operatorStops },
  { weight: 1, arbitrary: outcome },
  { weight: 3, arbitrary: asksFirst },
  { weight: 1, arbitrary: timer },
);

const history = fc.array(happening, { maxLength: 40, size: 'max' });

function live(happenings: readonly Happening[]): World {
  const world = new World();
  for (const happens of happenings) {
    if (world.forgotten) break;
    happens(world);
  }
  return world;
}

// Thousands of histories take as long as the machine needs: a busy one must not fail them.
describe('whatever happens, in whatever order', { timeout: 180_000 }, () => {
  // Rule laws-1 (MRTR, "Server Requirements" 5): A question is answered upstream at most once, every request gets
  // exactly one response, and every state has a deadline.
  // Rule closing-1.
  test('the laws of a parked call hold after every event', () => {
    fc.assert(
      fc.property(history, (happenings) => {
        live(happenings);
      }),
      { numRuns: 2_000 },
    );
  });

  // Rule laws-1.
  test('a call left alone is over after a few deadlines, with every waiter told', () => {
    fc.assert(
      fc.property(
        history,
        fc.array(choice, { minLength: 6, maxLength: 6 }),
        (happenings, order) => {
          const world = live(happenings);
          for (const which of order) {
            if (world.state.name === 'done') break;
            const fired = pick([...world.armed], which);
            if (fired !== undefined) world.fire(fired, true);
          }
          expect(world.state.name).toBe('done');
          expect([...world.waiters.values()].map((told) => told.type)).not.toContain('waiting');
          if (!world.forgotten) world.fire('redeliver', true);
          expect(world.forgotten, 'and then nothing is kept of it').toBe(true);
        },
      ),
      { numRuns: 1_000 },
    );
  });

  test('the histories reach every rule of the table', () => {
    const reached = new Set<string>();
    fc.assert(
      fc.property(history, (happenings) => {
        for (const rule of live(happenings).rules) reached.add(rule);
      }),
      { numRuns: 10_000, seed: 20_260_728 },
    );
    expect([...reached].sort()).toEqual([...new Set(TRANSITIONS.map((row) => row.rule))].sort());
  });
});
