/** How a row of the parked-call table is written, what rows have in common, and the first states of a call. */
import {
  attachedWaiters,
  carried,
  consumedBy,
  gatheringMs,
  keysOf,
  openRequests,
  waitingRetries,
} from './selectors.ts';
import type {
  CallEnd,
  CallLimits,
  ConsumedRetry,
  Effect,
  WaiterId,
  WaiterReply,
  Live,
  OpenRequest,
  RetryEvent,
  RoundsSoFar,
  StateNamed,
  StepTo,
  CallEvent,
  CallState,
  EventName,
  EventNamed,
  StateName,
  Step,
} from './states.ts';

// The beginning.

/**
 * The first state of a call: its first waiter waits and the request is on its way upstream.
 * @param consumed the retry for which the call is made again, if there is one
 * @param stateOnly how many rounds without a question it had by then
 */
export function begin(
  waiter: WaiterId,
  limits: CallLimits,
  consumed: ConsumedRetry | null = null,
  stateOnly = 0,
): StepTo<'running'> {
  const round = (consumed?.round ?? 0) + 1;
  const waiting = { waiters: [waiter], consumed, stream: 'open', waiting: [] } as const;
  return {
    state: { name: 'running', round, stateOnly, ...waiting },
    effects: [...waitTimers(limits), callTimer(limits)],
  };
}

/**
 * The first state of a call that another replica had: its questions are with the client, and its
 * stream is yet to be resumed. The retry that brought it here waits as for any broken stream.
 */
export function adopt(
  { round, stateOnly }: RoundsSoFar,
  open: readonly OpenRequest[],
  limits: CallLimits,
): StepTo<'parked' | 'runningDetached'> {
  const live = { round, stateOnly, consumed: null, stream: 'broken', waiting: [] } as const;
  return {
    state:
      open.length > 0 ? { name: 'parked', ...live, open } : { name: 'runningDetached', ...live },
    effects: [parkTimer(limits), callTimer(limits)],
  };
}

// What a client waits for.

/** Uses up the round of a state: the waiter of the retry waits for the server. */
export function runningFor(
  event: RetryEvent,
  { round, stateOnly }: RoundsSoFar,
): StateNamed<'running'> {
  const consumed = consumedBy(event);
  return {
    name: 'running',
    round: round + 1,
    stateOnly,
    waiters: [event.waiter],
    consumed,
    stream: 'open',
    waiting: [],
  };
}

/** Parks a call: its questions go to the client, and it waits. */
export function park(
  state: Live,
  waiters: readonly WaiterId[],
  open: readonly OpenRequest[],
  limits: CallLimits,
): StepTo<'parked'> {
  return {
    state: { name: 'parked', ...carried(state), open },
    effects: askClient(waiters, state, open, limits),
  };
}

// The end.

/** Ends a call whose exchange is over already. A client that was not told is told when it retries, however late. */
export function done(
  { round, consumed }: { readonly round: number; readonly consumed: ConsumedRetry | null },
  end: CallEnd,
  limits: CallLimits,
  effects: readonly Effect[],
): StepTo<'done'> {
  return {
    state: { name: 'done', round, consumed, end },
    effects: [
      ...effects,
      {
        do: 'arm',
        timer: 'redeliver',
        afterMs: end.type === 'stopped' ? limits.parkTtlMs : limits.redeliverMs,
      },
    ],
  };
}

/**
 * Ends a call whose exchange still runs: tells the server, answers what is open, waits a moment.
 * Answers that are on their way go on: closing their requests out too would answer them twice.
 */
export function cancel(state: Live, end: CallEnd, limits: CallLimits): StepTo<'cancelling'> {
  const { round, consumed } = state;
  const waiters = 'waiters' in state ? state.waiters : [];
  return {
    state: { name: 'cancelling', round, consumed, end },
    effects: [
      ...replyEnd(waiters, end),
      { do: 'cancelUpstream', open: openRequests(state) },
      { do: 'arm', timer: 'grace', afterMs: limits.cancelGraceMs },
    ],
  };
}

/** The same for an end that is that of the retries, too, which wait for the stream. */
export function cancelForAll(state: Live, end: CallEnd, limits: CallLimits): StepTo<'cancelling'> {
  const cancelled = cancel(state, end, limits);
  const waiters = waitingRetries(state).map((retry) => retry.waiter);
  return { state: cancelled.state, effects: [...replyEnd(waiters, end), ...cancelled.effects] };
}

/** Ends a call whose client did not retry. The exchange of a settled call is freed already. */
export function abandon(
  state: StateNamed<'resultReady' | 'suspended'>,
  end: CallEnd,
  limits: CallLimits,
): StepTo<'done'> {
  return done(state, end, limits, state.name === 'suspended' ? [FREE_CLEAN] : []);
}

/** The end of a call that goes on elsewhere. */
export const LEFT: CallEnd = { type: 'left' };
/** The end of a call that may have acted, and of which nothing more is heard. It is an event as well. */
export const LOST = { type: 'lost', isElsewhere: false, exceeds: null } as const;

/** Leaves the exchange, which goes on at the server, and tells the waiting waiters. */
export function leave(state: Live, told: WaiterReply, limits: CallLimits): StepTo<'done'> {
  return done(state, LEFT, limits, [...reply(attachedWaiters(state), told), { do: 'leave' }]);
}

// Effects.

export function reply(waiters: readonly WaiterId[], what: WaiterReply): readonly Effect[] {
  return waiters.length === 0 ? [] : [{ do: 'reply', waiters, reply: what }];
}

export function replyEnd(waiters: readonly WaiterId[], end: CallEnd): readonly Effect[] {
  return reply(waiters, { type: 'end', end });
}

/** Gives the waiters a pointer to this round, with what is open in it, and waits for their client. */
export function askClient(
  waiters: readonly WaiterId[],
  rounds: RoundsSoFar,
  open: readonly OpenRequest[],
  limits: CallLimits,
): readonly Effect[] {
  return [...replyRound(waiters, rounds, open), parkTimer(limits)];
}

/** Counts a round without a question, which the client is given now. */
export function withStateOnly<State extends RoundsSoFar>(state: State): State {
  return { ...state, stateOnly: state.stateOnly + 1 };
}

/** Gives the waiters a pointer to this round, with what is open in it. */
export function replyRound(
  waiters: readonly WaiterId[],
  { round, stateOnly }: RoundsSoFar,
  open: readonly OpenRequest[],
): readonly Effect[] {
  return reply(waiters, { type: 'inputRequired', round, stateOnly, keys: keysOf(open) });
}

export function closeOutEffects(requests: readonly OpenRequest[]): readonly Effect[] {
  return requests.length === 0 ? [] : [{ do: 'cancelOpenQuestions', requests }];
}

/** Frees the exchange, which the server has finished. */
export const FREE_CLEAN: Effect = { do: 'free', clean: true };
/** Frees the exchange. The server may still work on it, so the session is not reused. */
export const FREE_TAINTED: Effect = { do: 'free', clean: false };
/** Frees what is here of an exchange that is lost. Another reader needs its session. */
export function freeLost({ isElsewhere }: EventNamed<'lost'>): Effect {
  return isElsewhere ? { do: 'leave' } : FREE_TAINTED;
}

/** How long a client may stay away. */
export function parkTimer(limits: CallLimits): Effect {
  return { do: 'arm', timer: 'park', afterMs: limits.parkTtlMs };
}

/** How long the server may work on. */
export function runTimer(limits: CallLimits): Effect {
  return { do: 'arm', timer: 'run', afterMs: limits.maxDurationMs };
}

/** How long a call may take over all its rounds. */
function callTimer(limits: CallLimits): Effect {
  return { do: 'arm', timer: 'call', afterMs: limits.callTtlMs };
}

/** How long one response may keep a client waiting, where that is bounded and there is a stream. */
export function holdTimer({ stream }: Pick<Live, 'stream'>, limits: CallLimits): readonly Effect[] {
  if (limits.maxHoldMs === null || stream === 'broken') return [];
  return [{ do: 'arm', timer: 'hold', afterMs: limits.maxHoldMs }];
}

/** The timers of a client that begins to wait for the server. */
export function waitTimers(limits: CallLimits): readonly Effect[] {
  return [runTimer(limits), ...holdTimer({ stream: 'open' }, limits)];
}

/** How long a round waits for the next question, by what was seen of the tool and how many rounds are left. */
export function windowMs(rounds: RoundsSoFar, limits: CallLimits): number {
  return Math.max(limits.batchWindowMs, gatheringMs(rounds, limits));
}

/** How long to look for more input requests; a round that is full looks no longer. */
export function batchTimer(count: number, windowMs: number, limits: CallLimits): Effect {
  const full = count >= limits.maxShownQuestions;
  return { do: 'arm', timer: 'batch', afterMs: full ? 0 : windowMs };
}

export interface Row {
  /** Its name in the trace log and in docs/parked-call.md. */
  readonly rule: string;
  readonly from: readonly StateName[];
  readonly on: EventName;
  /** The states this row can lead to, for the diagram; if they are those of `from`, each one stays. */
  readonly to: readonly StateName[];
  readonly why: string;
  /** `null` if the row applies whenever state and event fit. */
  readonly when: ((state: CallState, event: CallEvent, limits: CallLimits) => boolean) | null;
  readonly then: (state: CallState, event: CallEvent, limits: CallLimits) => Step;
}

export interface TypedRow<From extends StateName, On extends EventName, To extends StateName> {
  readonly rule: string;
  readonly from: readonly From[];
  readonly on: On;
  readonly to: readonly To[];
  readonly why: string;
  readonly when?: (state: StateNamed<From>, event: EventNamed<On>, limits: CallLimits) => boolean;
  readonly then: (
    state: StateNamed<From>,
    event: EventNamed<On>,
    limits: CallLimits,
  ) => StepTo<NoInfer<To>>;
}

/** Checks a row's types where it is written; the table itself is read without them. */
export function row<From extends StateName, On extends EventName, To extends StateName>(
  typed: TypedRow<From, On, To>,
): Row {
  return {
    ...typed,
    when: (typed.when ?? null) as Row['when'],
    // What `to` allows is a state: the compiler cannot see that for a name that it does not know.
    then: typed.then as unknown as Row['then'],
  };
}
