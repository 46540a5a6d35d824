/** How the cases of the table are written: short names of states, events and effects. */
import type {
  CallEnd,
  CallEvent,
  CallLimits,
  CallState,
  ConsumedRetry,
  Effect,
  WaiterId,
  WaiterReply,
  Live,
  OpenRequest,
  RetryEvent,
  StateName,
  StateNamed,
  TimerName,
} from '../../../../../src/calls/machine/states.ts';
import type { CallOutcome } from '../../../../../src/model/request.ts';
import { answersNotTaken } from '../../../../../src/model/failures.ts';
import { inputKey, serverRequestId } from '../../../../../src/protocol/ids.ts';

export const LIMITS: CallLimits = {
  batchWindowMs: 30,
  batchLimitMs: 150,
  maxDurationMs: 300_000,
  maxHoldMs: null,
  parkTtlMs: 600_000,
  callTtlMs: 3_600_000,
  cancelGraceMs: 2_000,
  redeliverMs: 120_000,
  maxRounds: 10,
  maxStateOnly: 2,
  clientRounds: 9,
  becomesTask: false,
  maxShownQuestions: 4,
  maxOpenQuestions: 4,
};

export interface Case {
  readonly rule: string;
  readonly title: string;
  readonly from: CallState;
  readonly on: CallEvent;
  readonly limits?: Partial<CallLimits>;
  readonly state: CallState;
  readonly effects: readonly Effect[];
}

// Requests of the server, and outcomes.

const question = (name: string): OpenRequest => ({
  key: inputKey(name),
  id: serverRequestId(`${name}-id`),
});
const url = (name: string): OpenRequest => ({ key: inputKey(name), id: null });
export const [env, size, color] = [question('env'), question('size'), question('color')];
export const [login, terms] = [url('login'), url('terms')];
const idOf = (request: OpenRequest) => serverRequestId(`${request.key}-id`);

const outcome: CallOutcome = { kind: 'complete', result: { content: [] } };
export const finished: CallEnd = { type: 'outcome', outcome };
export const lost = { type: 'lost', isElsewhere: false, exceeds: null } as const;
/** Another reader has the stream. */
export const lostElsewhere = { ...lost, isElsewhere: true } as const;
export const cancelled: CallEnd = { type: 'cancelled' };
export const expired: CallEnd = { type: 'expired' };
export const stopped: CallEnd = { type: 'stopped' };
export const declined: CallEnd = { type: 'declined' };
export const refused = (reason: Extract<CallEnd, { type: 'refused' }>['reason']): CallEnd => ({
  type: 'refused',
  reason,
});

// States: a call in its third round, whose second retry (round 2) was the last accepted.

const CONSUMED: ConsumedRetry = { round: 2, answersDigest: 'second' };
export const CONSUMED_NOW: ConsumedRetry = { round: 3, answersDigest: 'third' };

type Given<Name extends StateName> = Partial<StateNamed<Name>>;

export const running = (given: Given<'running'> = {}): StateNamed<'running'> => ({
  name: 'running',
  round: 3,
  stateOnly: 0,
  waiters: [7],
  consumed: CONSUMED,
  stream: 'open',
  waiting: [],
  ...given,
});
export const batching = (given: Given<'batching'> = {}): StateNamed<'batching'> => ({
  ...running(),
  open: [env],
  sinceMs: 1_000,
  hasPlace: false,
  ...given,
  name: 'batching',
});
/** The retry of round 3 was accepted; its answer to `env` is on its way. */
export const answering = (given: Given<'answering'> = {}): StateNamed<'answering'> => ({
  name: 'answering',
  round: 4,
  stateOnly: 0,
  waiters: [9],
  consumed: CONSUMED_NOW,
  before: CONSUMED,
  posting: [env],
  missing: [],
  arrived: [],
  arrivedSinceMs: 0,
  stream: 'open',
  waiting: [],
  ...given,
});
export const parked = (given: Given<'parked'> = {}): StateNamed<'parked'> => ({
  name: 'parked',
  round: 3,
  stateOnly: 0,
  consumed: CONSUMED,
  open: [env],
  stream: 'open',
  waiting: [],
  ...given,
});
export const idle = (given: Given<'runningDetached'> = {}): StateNamed<'runningDetached'> => ({
  name: 'runningDetached',
  round: 3,
  stateOnly: 0,
  consumed: CONSUMED,
  stream: 'open',
  waiting: [],
  ...given,
});
export const settled = (): StateNamed<'resultReady'> => ({
  name: 'resultReady',
  round: 3,
  consumed: CONSUMED,
  outcome,
});
export const suspended = (given: Given<'suspended'> = {}): StateNamed<'suspended'> => ({
  name: 'suspended',
  round: 3,
  stateOnly: 0,
  consumed: CONSUMED,
  open: [login],
  ...given,
});
/** The same, while its stream is being resumed. */
export const broken = <State extends Live>(
  state: State,
  waiting: readonly RetryEvent[] = [],
): State => ({
  ...state,
  stream: 'broken',
  waiting,
});
export const cancelling = (
  end: CallEnd,
  given: Given<'cancelling'> = {},
): StateNamed<'cancelling'> => ({
  name: 'cancelling',
  round: 3,
  consumed: CONSUMED,
  end,
  ...given,
});
export const done = (end: CallEnd, given: Given<'done'> = {}): StateNamed<'done'> => ({
  name: 'done',
  round: 3,
  consumed: CONSUMED,
  end,
  ...given,
});

// Events.

export const asked = (request: OpenRequest, atMs = 1_000): CallEvent => ({
  type: 'asked',
  request,
  atMs,
});
export const withdrawn = (request: OpenRequest): CallEvent => ({
  type: 'withdrawn',
  id: idOf(request),
});
export const ended = { type: 'outcome', outcome, clean: true } as const;
/** The gateway ends the call: the server may still work on it. */
export const failedHere = { ...ended, clean: false } as const;
export const asksFirst = (mayPark = true): CallEvent => ({
  type: 'asksFirst',
  requests: [login, terms],
  mayPark,
});
export const batched = (mayPark = true): CallEvent => ({ type: 'batched', mayPark });
/** A retry of the current round with waiter 9 that answers the given requests. */
export const retry = (answered: readonly OpenRequest[] = [], given: Partial<RetryEvent> = {}) =>
  ({
    type: 'retry',
    waiter: 9,
    round: 3,
    answersDigest: 'third',
    answered: answered.map((request) => request.key),
    uncovered: [],
    declined: false,
    ...given,
  }) as const;
/** The last accepted retry once more, with waiter 8. */
export const repetition = retry([], { waiter: 8, ...CONSUMED });
export const repetitionWhileResuming = retry([env], { waiter: 8 });
/** How the answers were not taken. */
export const UNREACHABLE = answersNotTaken(null);
export const postRefused = (accepted: readonly OpenRequest[] = []): CallEvent => ({
  type: 'postRefused',
  failure: UNREACHABLE,
  accepted: accepted.map(idOf),
});
export const drain = (outlivesProcess = false): CallEvent => ({ type: 'drain', outlivesProcess });
export const waiterClosed = (waiter: WaiterId): CallEvent => ({ type: 'waiterClosed', waiter });
export const timeIsUp = (timer: 'run' | 'park' | 'call'): CallEvent => ({ type: 'expired', timer });

// Effects.

export const tell = (waiters: readonly WaiterId[], reply: WaiterReply): Effect => ({
  do: 'reply',
  waiters,
  reply,
});
export const tellEnd = (waiters: readonly WaiterId[], end: CallEnd) =>
  tell(waiters, { type: 'end', end });
export const ask = (
  waiters: readonly WaiterId[],
  round: number,
  open: readonly OpenRequest[],
  stateOnly = 0,
) =>
  tell(waiters, {
    type: 'inputRequired',
    round,
    stateOnly,
    keys: open.map((request) => request.key),
  });
export const arm = (timer: TimerName, afterMs: number): Effect => ({ do: 'arm', timer, afterMs });
export const armBatch = (afterMs = 30) => arm('batch', afterMs);
export const armRun = arm('run', 300_000);
export const armPark = arm('park', 600_000);
const armGrace = arm('grace', 2_000);
export const armRedeliver = arm('redeliver', 120_000);
export const cancelOpenQuestions = (...requests: OpenRequest[]): Effect => ({
  do: 'cancelOpenQuestions',
  requests,
});
const cancelUpstream = (...open: OpenRequest[]): Effect => ({ do: 'cancelUpstream', open });
export const free = (clean: boolean): Effect => ({ do: 'free', clean });
export const retryWaiting = (...retries: RetryEvent[]): Effect => ({ do: 'retryWaiting', retries });
export const leave: Effect = { do: 'leave' };
export const cancel = (...open: OpenRequest[]): Effect[] => [cancelUpstream(...open), armGrace];

export const LIVE: readonly Live[] = [running(), batching(), answering(), parked(), idle()];
