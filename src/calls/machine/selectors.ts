/** What rows and the runner read from a state: its group, its waiters, its open requests, its retries. */
import type {
  CallEnd,
  CallLimits,
  CallState,
  ConsumedRetry,
  Effect,
  WaiterId,
  Live,
  OpenRequest,
  RetryEvent,
  RoundsSoFar,
  StateNamed,
  TimerName,
} from './states.ts';
import { TIMERS } from './states.ts';

/** A client is connected. */
export const ATTACHED = ['running', 'batching', 'answering'] as const;
/** No client is connected, and the call waits for one. */
export const DETACHED = ['parked', 'runningDetached', 'resultReady', 'suspended'] as const;
/** The exchange with the server goes on. */
export const LIVE = ['running', 'batching', 'answering', 'parked', 'runningDetached'] as const;

/** A client waits. */
export function isAttached(state: CallState): state is StateNamed<(typeof ATTACHED)[number]> {
  return (ATTACHED as readonly string[]).includes(state.name);
}

export function isDetached(state: CallState): state is StateNamed<(typeof DETACHED)[number]> {
  return (DETACHED as readonly string[]).includes(state.name);
}

/**
 * The call has a place among the parked calls. While its answers are on their way it keeps that: what is missing, or refused, is
 * asked again.
 */
export function hasPlace(state: CallState): boolean {
  if (state.name === 'batching') return state.hasPlace;
  return isDetached(state) || state.name === 'answering';
}

/** The exchange goes on, but its stream is lost and being resumed. */
export function isBroken(state: CallState): state is Live {
  return 'stream' in state && state.stream === 'broken';
}

/** A client waits for the reply of the server, which has no question open, and the stream for it is open. */
export function awaitsReply(state: CallState): boolean {
  return state.name === 'running' && state.stream === 'open';
}

/** The call has ended, or is being cancelled. */
export function isOver(state: CallState): state is StateNamed<'cancelling' | 'done'> {
  return state.name === 'cancelling' || state.name === 'done';
}

/** The process stops, and ended the call since nothing can go on with it elsewhere. */
export function isEndedByDrain(state: CallState): boolean {
  return isOver(state) && state.end.type === 'refused' && state.end.reason === 'draining';
}

/** The call is lost here, since another reader has its stream, or another process its session. */
export function isElsewhere(state: CallState): boolean {
  return state.name === 'done' && state.end.type === 'lost' && state.end.isElsewhere;
}

/** The exchange is gone or given up, or failed since the server gave up waiting: a replay could do better. */
export function isWorthReplaying(state: CallState): boolean {
  if (isEndedByDrain(state)) return true;
  if (state.name === 'done') return state.end.type === 'lost' && !state.end.isElsewhere;
  if (state.name !== 'resultReady') return false;
  const { outcome } = state;
  return outcome.kind === 'failed' || outcome.result['isError'] === true;
}

/** What a live state hands on to the live state that follows it. */
export function carried({ round, stateOnly, consumed, stream, waiting }: Live) {
  return { round, stateOnly, consumed, stream, waiting };
}

/** As many rounds before the last that a client stands, a round begins to wait for more questions, and as many before it waits longest. */
const GATHERING_FROM = 5;
const GATHERING_MOST_FROM = 3;

/**
 * How long a round waits for more questions because few rounds are left after it, in ms: the fewer, the longer. 0 while enough are
 * left, and in the first one. A server that asks one thing after the other would else use them up.
 */
export function gatheringMs(rounds: RoundsSoFar, limits: CallLimits): number {
  const left = Math.min(
    limits.maxRounds - questionRound(rounds),
    limits.clientRounds - rounds.round,
  );
  if (rounds.round === 1 || left > GATHERING_FROM) return 0;
  return Math.round(limits.batchLimitMs / 2 ** Math.max(0, left - GATHERING_MOST_FROM));
}

/** How many rounds with questions the call has had, with the next one. */
export function questionRound({ round, stateOnly }: RoundsSoFar): number {
  return round - stateOnly;
}

/** Timers that may run in this state. How long one answer may take does not count without a stream. */
export function timersOf(state: CallState): readonly TimerName[] {
  const timers = TIMERS[state.name];
  return isBroken(state) ? timers.filter((timer) => timer !== 'hold') : timers;
}

// Waiters.

/** The waiters of a state that wait for a reply. */
export function attachedWaiters(state: CallState): readonly WaiterId[] {
  const attached = isAttached(state) ? state.waiters : [];
  return [...attached, ...waitingRetries(state).map((retry) => retry.waiter)];
}

/** Retries that came while the stream was broken. */
export function waitingRetries(state: CallState): readonly RetryEvent[] {
  return 'waiting' in state ? state.waiting : [];
}

export function withoutWaiter<State extends { waiters: readonly WaiterId[] }>(
  state: State,
  waiter: WaiterId,
): State {
  return { ...state, waiters: state.waiters.filter((candidate) => candidate !== waiter) };
}

// Input requests.

const NONE: readonly OpenRequest[] = [];

/** Input requests of a state that the upstream still waits for. */
export function openRequests(state: CallState): readonly OpenRequest[] {
  switch (state.name) {
    case 'batching':
    case 'parked':
    case 'suspended':
      return state.open;
    case 'answering':
      return [...state.missing, ...state.arrived];
    default:
      return NONE;
  }
}

export function keysOf(requests: readonly OpenRequest[]): OpenRequest['key'][] {
  return requests.map((request) => request.key);
}

export function withoutId(requests: readonly OpenRequest[], id: OpenRequest['id']): OpenRequest[] {
  return requests.filter((request) => request.id !== id);
}

/** What a retry of the current round leaves unanswered. */
export function unansweredBy(event: RetryEvent, open: readonly OpenRequest[]): OpenRequest[] {
  return open.filter((request) => !event.answered.includes(request.key));
}

export function answeredBy(event: RetryEvent, open: readonly OpenRequest[]): OpenRequest[] {
  return open.filter((request) => event.answered.includes(request.key));
}

// Retries.

export function consumedBy({ round, answersDigest }: RetryEvent): ConsumedRetry {
  return { round, answersDigest };
}

/** The retry brings the pointer of the round that the client is to answer. */
export function isOfRound(state: { readonly round: number }, event: RetryEvent): boolean {
  return event.round === state.round;
}

/** The retry repeats the one that was accepted last, to the letter. */
export function repeats(
  { consumed }: { readonly consumed: ConsumedRetry | null },
  event: RetryEvent,
): boolean {
  return (
    consumed !== null &&
    consumed.round === event.round &&
    consumed.answersDigest === event.answersDigest
  );
}

/**
 * The retry follows the one that was accepted last. A call that still waits, or has ended, asked nothing since: its client was
 * told before it ended, or by the process that had the call before and stopped, whose last retry came here once more. Where that
 * one got the outcome at once, the call has no further round here.
 */
export function isSuccessor(
  state: { readonly round: number; readonly consumed: ConsumedRetry | null },
  event: RetryEvent,
): boolean {
  const { consumed } = state;
  if (consumed !== null && event.round === consumed.round + 1) return true;
  return isOfRound(state, event) && event.round !== consumed?.round;
}

/**
 * The retry was served by the step to this state: it waits for the server now, or got what the call has for it. One that
 * waits for the stream is looked at again, and one that is refused gets nothing of the call.
 */
export function isServed(
  { waiter }: RetryEvent,
  to: CallState,
  effects: readonly Effect[],
): boolean {
  if (waitingRetries(to).some((retry) => retry.waiter === waiter)) return false;
  for (const effect of effects) {
    if (effect.do !== 'reply' || !effect.waiters.includes(waiter)) continue;
    const { reply } = effect;
    if (reply.type === 'end') return isEndOfItsOwn(reply.end);
    return reply.type === 'inputRequired' || reply.type === 'sameInputRequired';
  }
  return true;
}

/** The call came to this end by itself, or by its client: it was not lost, given up or left to another process. */
function isEndOfItsOwn(end: CallEnd): boolean {
  if (end.type === 'refused') return end.reason !== 'draining';
  return end.type === 'outcome' || end.type === 'declined';
}

/** Now that its exchange is over, the call waits for a retry of this round with these answers, or has had it. */
export function isKnownRetry(state: CallState, round: number, answersDigest: string): boolean {
  if (state.name !== 'done' && state.name !== 'resultReady' && state.name !== 'cancelling') {
    return false;
  }
  const { consumed } = state;
  const isRepeated = consumed?.round === round && consumed.answersDigest === answersDigest;
  return round === state.round || isRepeated;
}

/** Why a retry is refused that no row serves. */
export function refusalOfRetry(state: CallState): 'consumed' | 'ended' | 'expired' {
  if (!isOver(state)) return 'consumed';
  return state.end.type === 'expired' ? 'expired' : 'ended';
}
