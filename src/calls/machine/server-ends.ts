/** The server ends the call: with an outcome, with URLs to visit, or because it was told to stop. */
import { row, type Row } from './row.ts';
import { ATTACHED, openRequests } from './selectors.ts';
import type { CallEnd } from './states.ts';
import { askClient, closeOut, done, RELEASE_CLEAN, RELEASE_TAINTED, replyEnd } from './steps.ts';

export const SERVER_ENDS: readonly Row[] = [
  row({
    rule: 'finished',
    from: ATTACHED,
    on: 'outcome',
    to: ['done'],
    why: 'the server ends the call while a client waits',
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
    rule: 'finished-while-parked',
    from: ['parked', 'idle'],
    on: 'outcome',
    to: ['settled'],
    why: 'the server ends the call while the client is away; the outcome waits for the retry',
    then: ({ round, consumed }, { outcome }) => ({
      state: { name: 'settled', round, consumed, outcome },
      effects: [RELEASE_CLEAN],
    }),
  }),
  row({
    rule: 'urls-required',
    from: ATTACHED,
    on: 'urlsRequired',
    to: ['suspended', 'done'],
    why: 'the server ended the call and names URLs to visit first (-32042)',
    then: (state, event, limits) => {
      const { round, consumed, legs } = state;
      const refused =
        round > limits.maxRounds ? 'too_many_rounds' : event.mayPark ? null : 'lot_full';
      if (refused !== null) {
        const end: CallEnd = { type: 'refused', reason: refused };
        return done(state, end, limits, [
          ...closeOut(openRequests(state)),
          RELEASE_CLEAN,
          ...replyEnd(legs, end),
        ]);
      }
      return {
        state: { name: 'suspended', round, consumed, open: event.requests },
        effects: [
          ...closeOut(openRequests(state)),
          ...askClient(legs, round, event.requests, limits),
        ],
      };
    },
  }),
  row({
    rule: 'urls-required-while-parked',
    from: ['parked', 'idle'],
    on: 'urlsRequired',
    to: ['suspended'],
    why: 'the same, while the client is away: the next retry is told',
    then: ({ round, consumed }, { requests: open }) => ({
      state: { name: 'suspended', round, consumed, open },
      effects: [],
    }),
  }),
  row({
    rule: 'grace-over',
    from: ['cancelling'],
    on: 'ended',
    to: ['done'],
    why: 'the grace is over: the gateway closes the stream, since some servers never do',
    then: (state, _event, limits) => done(state, state.end, limits, [RELEASE_TAINTED]),
  }),
  row({
    rule: 'finished-after-cancel',
    from: ['cancelling'],
    on: 'outcome',
    to: ['done'],
    why: 'the server ends the cancelled call by itself; a late outcome is ignored',
    then: (state, _event, limits) => done(state, state.end, limits, [RELEASE_CLEAN]),
  }),
];
