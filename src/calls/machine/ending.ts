/** The server finishes, whoever waits for that; and a call that was cancelled comes to its end. */
import type { CallEnd } from './states.ts';
import { closeOut, RELEASE_CLEAN, RELEASE_TAINTED, replyEnd } from './effects.ts';
import { done } from './end-steps.ts';
import { openRequests } from './open-requests.ts';
import { row, type Row } from './row.ts';
import { ATTACHED } from './state-groups.ts';

export const ENDING: readonly Row[] = [
  row({
    rule: '5',
    from: [...ATTACHED],
    on: 'outcome',
    to: ['done'],
    why: 'the server finished while a client waits',
    then: (state, event, limits) => {
      const end: CallEnd = { type: 'outcome', outcome: event.outcome };
      return done(state, end, limits, [
        ...closeOut(openRequests(state)),
        RELEASE_CLEAN,
        ...replyEnd(state.legs, end),
      ]);
    },
  }),
  row({
    rule: '9',
    from: ['parked', 'idle'],
    on: 'outcome',
    to: ['settled'],
    why: 'the server lost patience or moved on; what it settled waits for the retry',
    then: ({ round, consumed }, { outcome }) => ({
      state: { name: 'settled', round, consumed, outcome },
      effects: [RELEASE_CLEAN],
    }),
  }),
  row({
    rule: '39',
    from: ['cancelling'],
    on: 'ended',
    to: ['done'],
    why: 'the grace is over: close the stream ourselves, since some servers never do',
    then: (state, _event, limits) => done(state, state.end, limits, [RELEASE_TAINTED]),
  }),
  row({
    rule: '39b',
    from: ['cancelling'],
    on: 'outcome',
    to: ['done'],
    why: 'the server ended the cancelled call by itself; a late outcome is ignored',
    then: (state, _event, limits) => done(state, state.end, limits, [RELEASE_CLEAN]),
  }),
  row({
    rule: '39c',
    from: ['cancelling'],
    on: 'lost',
    to: ['done'],
    why: 'the stream of the cancelled call is gone',
    then: (state, _event, limits) => done(state, state.end, limits, [RELEASE_TAINTED]),
  }),
];
