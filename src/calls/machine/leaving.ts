/** The call is no longer for this process: it stops, or another replica has taken the call up. */
import type { CallEnd, CallLimits, LegReply, Live, StateNamed, Step } from './states.ts';
import { attachedLegs } from './attached-legs.ts';
import { reply } from './effects.ts';
import { abandon, cancel, cancelBroken, done } from './end-steps.ts';
import { keysOf, openRequests } from './open-requests.ts';
import { row, type Row } from './row.ts';
import { LIVE, unbroken } from './state-groups.ts';

const LEFT: CallEnd = { type: 'left' };

/** Lets go of the exchange, which goes on at the server, and tells this to whoever waits. */
function leave(state: Live | StateNamed<'broken'>, told: LegReply, limits: CallLimits): Step {
  return done(unbroken(state), LEFT, limits, [
    ...reply(attachedLegs(state), told),
    { do: 'leave' },
  ]);
}

export const LEAVING: readonly Row[] = [
  row({
    rule: '38-leave',
    from: ['parked', 'idle', 'running', 'gathering'],
    on: 'drain',
    to: ['done'],
    why: 'the process stops; the server keeps the call for the replica that the client comes to next',
    when: (_state, event) => event.resumable,
    then: (state, _event, limits) => {
      const keys = keysOf(openRequests(state));
      return leave(state, { type: 'inputRequired', round: state.round, keys }, limits);
    },
  }),
  row({
    rule: 'shut-out',
    from: [...LIVE, 'broken'],
    on: 'shutOut',
    to: ['done'],
    why: 'the server keeps the call, and gives it to nobody with the credentials that are here: a retry may bring others',
    then: (state, _event, limits) => leave(state, { type: 'unauthorized' }, limits),
  }),
  row({
    rule: 'taken',
    from: [...LIVE, 'broken'],
    on: 'takenOver',
    to: ['done'],
    why: 'this process was silent for so long that another replica took the call up: it is not ours to end',
    then: (state, _event, limits) => leave(state, { type: 'end', end: LEFT }, limits),
  }),
  row({
    rule: '38',
    from: [...LIVE],
    on: 'drain',
    to: ['cancelling'],
    why: 'the process stops and cannot take the call with it',
    then: (state, _event, limits) => cancel(state, { type: 'refused', reason: 'draining' }, limits),
  }),
  row({
    rule: '38b',
    from: ['broken'],
    on: 'drain',
    to: ['cancelling'],
    why: 'the process stops while the stream is being resumed',
    then: (state, _event, limits) =>
      cancelBroken(state, { type: 'refused', reason: 'draining' }, limits),
  }),
  row({
    rule: '38d',
    from: ['settled', 'suspended'],
    on: 'drain',
    to: ['done'],
    why: 'the process stops; the store has the outcome, or the pointer the URLs, for the replica that is next',
    when: (_state, event) => event.resumable,
    then: (state, _event, limits) => abandon(state, LEFT, limits),
  }),
  row({
    rule: '38c',
    from: ['settled', 'suspended'],
    on: 'drain',
    to: ['done'],
    why: 'the process stops; what waits for a retry is lost with it',
    then: (state, _event, limits) => abandon(state, { type: 'lost' }, limits),
  }),
];
