/** A client that waits closes its connection. */
import { attachedLegs, withoutLeg } from './attached-legs.ts';
import { cancel, cancelBroken } from './end-steps.ts';
import { row, type Row } from './row.ts';
import { ATTACHED, isAttached } from './state-groups.ts';

export const CLOSING: readonly Row[] = [
  row({
    rule: '22',
    from: [...ATTACHED],
    on: 'legClosed',
    to: [...ATTACHED],
    why: 'one of several legs that wait for the same outcome goes away',
    when: (state, event) => state.legs.length > 1 && state.legs.includes(event.leg),
    then: (state, event) => ({ state: withoutLeg(state, event.leg), effects: [] }),
  }),
  row({
    rule: '21',
    from: [...ATTACHED],
    on: 'legClosed',
    to: ['cancelling'],
    why: 'closing the stream is cancelling (streamable-http, Cancellation)',
    when: (state, event) => state.legs.includes(event.leg),
    then: (state, event, limits) =>
      cancel(withoutLeg(state, event.leg), { type: 'cancelled' }, limits),
  }),
  row({
    rule: '21b',
    from: ['broken'],
    on: 'legClosed',
    to: ['broken', 'cancelling'],
    why: 'the same, while the stream is being resumed',
    when: (state, event) => attachedLegs(state).includes(event.leg),
    then: (state, event, limits) => {
      const waiting = state.waiting.filter((retry) => retry.leg !== event.leg);
      const interrupted = isAttached(state.interrupted)
        ? withoutLeg(state.interrupted, event.leg)
        : state.interrupted;
      const left = { ...state, interrupted, waiting };
      return isAttached(interrupted) && interrupted.legs.length === 0
        ? cancelBroken(left, { type: 'cancelled' }, limits)
        : { state: left, effects: [] };
    },
  }),
];
