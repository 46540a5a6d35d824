/** Retries that are not of the open round: repeated ones, early ones, and those that nothing waits for. */
import { reply, replyEnd } from './effects.ts';
import { consumedBy, isOfRound, repeats } from './retries.ts';
import { row, type Row } from './row.ts';
import { ATTACHED, DETACHED, isAttached, isEndedByDrain } from './state-groups.ts';

export const REPEATING: readonly Row[] = [
  row({
    rule: '16',
    from: [...ATTACHED],
    on: 'retry',
    to: [...ATTACHED],
    why: 'the same retry again, while the first still waits: both get the same outcome',
    when: repeats,
    then: (state, event) => ({
      state: { ...state, legs: [...state.legs, event.leg] },
      effects: [],
    }),
  }),
  row({
    rule: '18',
    from: [...DETACHED],
    on: 'retry',
    to: [...DETACHED],
    why: 'the retry that led here came twice: its answer was lost on the way, so give it again',
    when: repeats,
    then: (state, event) => ({
      state,
      effects: reply([event.leg], { type: 'sameInputRequired' }),
    }),
  }),
  row({
    rule: '19',
    from: ['cancelling', 'done'],
    on: 'retry',
    to: ['cancelling', 'done'],
    why: 'the last retry came twice: the identical outcome again',
    when: (state, event) => repeats(state, event) && state.end.type !== 'cancelled',
    then: (state, event) => ({ state, effects: replyEnd([event.leg], state.end) }),
  }),
  row({
    rule: '29b',
    from: ['done'],
    on: 'retry',
    to: ['done'],
    why: 'the call was lost while the client was away: say so',
    when: (state, event) =>
      state.end.type === 'lost' && isOfRound(state, event) && event.round !== state.consumed?.round,
    then: (state, event) => ({
      state: { ...state, consumed: consumedBy(event) },
      effects: replyEnd([event.leg], state.end),
    }),
  }),
  row({
    rule: '29c',
    from: ['cancelling', 'done'],
    on: 'retry',
    to: ['cancelling', 'done'],
    why: 'the process stops and has ended the call while the client was away: say that it is lost',
    when: (state, event) =>
      isEndedByDrain(state) && isOfRound(state, event) && event.round !== state.consumed?.round,
    then: (state, event) => ({ state, effects: replyEnd([event.leg], { type: 'lost' }) }),
  }),
  row({
    rule: '16b',
    from: ['broken'],
    on: 'retry',
    to: ['broken'],
    why: 'the same retry again, while the stream that the first waits for is being resumed',
    when: ({ interrupted }, event) => isAttached(interrupted) && repeats(interrupted, event),
    then: (state, event) => {
      const { interrupted } = state;
      if (!isAttached(interrupted)) return { state, effects: [] };
      const legs = [...interrupted.legs, event.leg];
      return { state: { ...state, interrupted: { ...interrupted, legs } }, effects: [] };
    },
  }),
  row({
    rule: '43',
    from: ['broken'],
    on: 'retry',
    to: ['broken'],
    why: 'the stream is being resumed: the retry waits, its answers are not risked',
    then: (state, event) => ({
      state: { ...state, waiting: [...state.waiting, event] },
      effects: [],
    }),
  }),
  row({
    rule: '17-20-44',
    from: [...ATTACHED, ...DETACHED, 'cancelling', 'done'],
    on: 'retry',
    to: [...ATTACHED, ...DETACHED, 'cancelling', 'done'],
    why: 'another retry on a used pointer, or a pointer of a call that is over',
    then: (state, event) => ({
      state,
      effects: reply([event.leg], {
        type: 'invalidRequestState',
        reason: state.name === 'cancelling' || state.name === 'done' ? 'ended' : 'consumed',
      }),
    }),
  }),
];
