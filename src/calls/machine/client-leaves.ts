/** A client closes its connection, is told to retry later, leaves the call to a task, or does not retry in time. Or the operator cancels the call. */
import {
  row,
  type Row,
  type TypedRow,
  abandon,
  askClient,
  cancelForAll,
  withStateOnly,
} from './steps.ts';
import { ATTACHED, DETACHED, LIVE, waitingRetries, withoutWaiter } from './selectors.ts';
import type { CallEnd, CallLimits, EventName, StateNamed } from './states.ts';

const TIMEOUT: CallEnd = { type: 'refused', reason: 'timeout' };
const EXPIRED: CallEnd = { type: 'expired' };
const STOPPED: CallEnd = { type: 'stopped' };
/** How long a client waits before the gateway checks again whether its call can be parked. */
const PARKING_CHECK_MS = 1_000;

/** Has the clients of a running call retry later, if they stand one more round without a question. */
const TOLD_TO_RETRY = {
  from: ['running'],
  to: ['runningDetached'],
  when: (state, _event, limits) => state.stream === 'open' && state.stateOnly < limits.maxStateOnly,
  then: ({ waiters, ...state }, _event, limits) => {
    const told = withStateOnly(state);
    return {
      state: { ...told, name: 'runningDetached' },
      effects: askClient(waiters, told, [], limits),
    };
  },
} satisfies Partial<TypedRow<'running', EventName, 'runningDetached'>>;

/**
 * The time of a response is over, and its client can be told. The last round that clients stand is kept for a question: one that is held
 * waits on instead. A call that becomes a task takes its first round from no client.
 */
function isHoldOver(state: StateNamed<'running'>, limits: CallLimits): boolean {
  const maxStateOnly = Math.max(limits.maxStateOnly, limits.becomesTask ? 1 : 0);
  return (
    state.stream === 'open' && state.stateOnly < maxStateOnly && state.round < limits.clientRounds
  );
}

export const CLIENT_LEAVES: readonly Row[] = [
  row({
    rule: 'waiting-retry-left',
    from: LIVE,
    on: 'waiterClosed',
    to: LIVE,
    why: 'a retry that waits for the stream goes away; the call is as it was',
    when: (state, event) => state.waiting.some((retry) => retry.waiter === event.waiter),
    then: (state, event) => ({
      state: { ...state, waiting: state.waiting.filter((retry) => retry.waiter !== event.waiter) },
      effects: [],
    }),
  }),
  row({
    rule: 'one-waiter-left',
    from: ATTACHED,
    on: 'waiterClosed',
    to: ATTACHED,
    why: 'one of several waiters that wait for the same outcome goes away',
    when: (state, event) => state.waiters.length > 1 && state.waiters.includes(event.waiter),
    then: (state, event) => ({ state: withoutWaiter(state, event.waiter), effects: [] }),
  }),
  row({
    rule: 'client-left',
    from: ATTACHED,
    on: 'waiterClosed',
    to: ['cancelling'],
    why: 'closing the stream is cancelling (streamable-http, Cancellation)',
    when: (state, event) => state.waiters.includes(event.waiter),
    then: (state, event, limits) =>
      cancelForAll(withoutWaiter(state, event.waiter), { type: 'cancelled' }, limits),
  }),
  row({
    ...TOLD_TO_RETRY,
    rule: 'client-held',
    on: 'holdOver',
    when: (state, event, limits) => event.mayPark && isHoldOver(state, limits),
    why: 'no connection waits longer than the operator allows: the client retries (MRTR, state without requests)',
  }),
  row({
    rule: 'client-held-on',
    from: ['running'],
    on: 'holdOver',
    to: ['running'],
    why: 'there is no place for one more parked call, or nothing new for the task that waits: this one stays with it',
    when: (state, event, limits) => !event.mayPark && isHoldOver(state, limits),
    then: (state, _event, { maxHoldMs }) => {
      const afterMs = Math.max(maxHoldMs ?? 0, PARKING_CHECK_MS);
      return { state, effects: [{ do: 'arm', timer: 'hold', afterMs }] };
    },
  }),
  row({
    ...TOLD_TO_RETRY,
    rule: 'requester-stopped',
    on: 'requesterStops',
    why: 'the replica over which the client waits stops: the client retries elsewhere (MRTR, state without requests)',
  }),
  row({
    rule: 'requester-stopped-for-good',
    from: ['running'],
    on: 'requesterStops',
    to: ['cancelling'],
    why: 'the same, and the client would not retry: it is told that the call has ended',
    when: ({ stream, waiters }) => stream === 'open' && waiters.length === 1,
    then: (state, _event, limits) =>
      cancelForAll(state, { type: 'refused', reason: 'draining' }, limits),
  }),
  row({
    rule: 'given-to-task',
    from: [...ATTACHED, ...DETACHED],
    on: 'givenToTask',
    to: [...ATTACHED, ...DETACHED],
    why: 'the call lives as long as its task',
    then: (state, { leftMs }) => ({
      state,
      effects: [{ do: 'arm', timer: 'call', afterMs: leftMs }],
    }),
  }),
  row({
    rule: 'client-disconnected-too-long',
    from: ['parked', 'runningDetached'],
    on: 'expired',
    to: ['cancelling'],
    why: 'the client did not retry in time, or the time ran out while its retry waited for the stream',
    when: (_state, event) => event.timer !== 'run',
    then: (state, _event, limits) => {
      const isAwaited = waitingRetries(state).length > 0;
      return cancelForAll(state, isAwaited ? TIMEOUT : EXPIRED, limits);
    },
  }),
  row({
    rule: 'outcome-uncollected',
    from: ['resultReady', 'suspended'],
    on: 'expired',
    to: ['done'],
    why: 'no client came for the outcome, or for what was asked first',
    then: (state, _event, limits) => abandon(state, EXPIRED, limits),
  }),
  row({
    rule: 'stopped-by-operator',
    from: ['parked', 'runningDetached'],
    on: 'operatorStops',
    to: ['cancelling'],
    why: 'the operator cancels a call that waits for its client; without a stream nobody could tell the server',
    when: ({ stream }) => stream === 'open',
    then: (state, _event, limits) => cancelForAll(state, STOPPED, limits),
  }),
  row({
    rule: 'outcome-discarded-by-operator',
    from: ['resultReady', 'suspended'],
    on: 'operatorStops',
    to: ['done'],
    why: 'the same, after the server ended the call',
    then: (state, _event, limits) => abandon(state, STOPPED, limits),
  }),
  row({
    rule: 'server-took-too-long',
    from: ATTACHED,
    on: 'expired',
    to: ['cancelling'],
    why: 'the server works for longer than a call is allowed to take',
    then: (state, _event, limits) => cancelForAll(state, TIMEOUT, limits),
  }),
];
