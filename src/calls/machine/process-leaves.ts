/** The call is no longer for this process: it stops, another replica has the call, or a replay takes its place. */
import {
  row,
  type Row,
  abandon,
  cancelForAll,
  done,
  LEFT,
  leave,
  LOST,
  replyEnd,
  replyRound,
  withStateOnly,
} from './steps.ts';
import { LIVE, openRequests, waitingRetries } from './selectors.ts';
import type { CallEvent, CallLimits, Live, StepTo } from './states.ts';

export const PROCESS_LEAVES: readonly Row[] = [
  row({
    rule: 'left-on-drain',
    from: ['parked', 'runningDetached', 'running', 'batching'],
    on: 'drain',
    to: ['done'],
    why: 'the process stops; the server keeps the call for the replica that the client comes to next',
    when: (state, event, limits) =>
      event.outlivesProcess && (state.name !== 'running' || state.stateOnly < limits.maxStateOnly),
    then: (state, _event, limits) => {
      const waiters = 'waiters' in state ? state.waiters : [];
      const rounds = state.name === 'running' ? withStateOnly(state) : state;
      return done(state, LEFT, limits, [
        ...replyRound(waiters, rounds, openRequests(state)),
        // Their answers were not looked at: they are good elsewhere.
        ...replyEnd(
          waitingRetries(state).map((retry) => retry.waiter),
          LEFT,
        ),
        { do: 'leave' },
      ]);
    },
  }),
  row({
    rule: 'released',
    from: ['parked'],
    on: 'released',
    to: ['done'],
    why: 'the server keeps the parked call, and any replica resumes it: nothing of it stays here',
    then: leaveForOthers,
  }),
  // While answers are on their way nobody knows whether the server has them. With the pointer of their round the client could
  // give others in their place; with that of the next round the next process could wait for a server that has none.
  row({
    rule: 'cancelled-on-drain',
    from: LIVE,
    on: 'drain',
    to: ['cancelling'],
    why: 'the process stops: no other can go on with it, its client would not retry, or answers are on their way',
    then: (state, _event, limits) =>
      cancelForAll(state, { type: 'refused', reason: 'draining' }, limits),
  }),
  row({
    rule: 'end-kept-on-drain',
    from: ['resultReady', 'suspended'],
    on: 'drain',
    to: ['done'],
    why: 'the process stops; the next replica finds the outcome in the store, or what was asked first in the pointer',
    when: (_state, event) => event.outlivesProcess,
    then: (state, _event, limits) => abandon(state, LEFT, limits),
  }),
  row({
    rule: 'end-lost-on-drain',
    from: ['resultReady', 'suspended'],
    on: 'drain',
    to: ['done'],
    why: 'the process stops, and what waits for a retry is lost',
    then: (state, _event, limits) => abandon(state, LOST, limits),
  }),
  row({
    rule: 'taken-over',
    from: LIVE,
    on: 'takenOver',
    to: ['done'],
    why: 'another replica took the call up while this process was silent: this process does not end it',
    then: leaveForOthers,
  }),
  row({
    rule: 'left-to-owner',
    from: LIVE,
    on: 'ownerReads',
    to: ['done'],
    why: 'the server refuses the stream, which the owner may still read: the call is left to it',
    then: leaveForOthers,
  }),
  row({
    rule: 'end-evicted',
    from: ['resultReady'],
    on: 'evict',
    to: ['done'],
    why: 'a replay takes its place, or its owner may still live',
    then: (state, _event, limits) => abandon(state, LOST, limits),
  }),
];

function leaveForOthers(state: Live, _event: CallEvent, limits: CallLimits): StepTo<'done'> {
  return leave(state, { type: 'end', end: LEFT }, limits);
}
