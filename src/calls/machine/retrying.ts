/** The client comes back with the pointer of the round that it is to answer. */
import type { CallEnd } from './states.ts';
import { askClient, reply, replyEnd, runTimer, waitTimers } from './effects.ts';
import { done } from './end-steps.ts';
import { answeredBy, keysOf, unansweredBy } from './open-requests.ts';
import { consumedBy, isOfRound, runningFor } from './retries.ts';
import { row, type Row } from './row.ts';

export const RETRYING: readonly Row[] = [
  row({
    rule: '33',
    from: ['parked', 'suspended'],
    on: 'retry',
    to: ['parked', 'suspended'],
    why: 'what must be asked again is not declared any more (MRTR, server requirement 7)',
    when: (state, event) =>
      isOfRound(state, event) &&
      !event.declined &&
      unansweredBy(event, state.open).some((request) => event.uncovered.includes(request.key)),
    then: (state, event) => ({
      state,
      effects: reply([event.leg], {
        type: 'missingCapability',
        keys: keysOf(unansweredBy(event, state.open)).filter((key) =>
          event.uncovered.includes(key),
        ),
      }),
    }),
  }),
  row({
    rule: '10-11-13',
    from: ['parked'],
    on: 'retry',
    to: ['resuming'],
    why: 'the answers that were given go upstream, once',
    when: (state, event) => isOfRound(state, event) && answeredBy(event, state.open).length > 0,
    then: (state, event, limits) => {
      const posting = answeredBy(event, state.open);
      return {
        state: {
          name: 'resuming',
          round: state.round + 1,
          legs: [event.leg],
          consumed: consumedBy(event),
          before: state.consumed,
          posting,
          missing: unansweredBy(event, state.open),
          arrived: [],
          arrivedSinceMs: 0,
        },
        effects: [runTimer(limits), { do: 'post', leg: event.leg, requests: posting }],
      };
    },
  }),
  row({
    rule: '12',
    from: ['parked', 'suspended'],
    on: 'retry',
    to: ['parked', 'suspended'],
    why: 'a retry that answers nothing is asked again; the round is not used up (MRTR, Error Handling)',
    when: (state, event) =>
      isOfRound(state, event) && !event.declined && answeredBy(event, state.open).length === 0,
    then: (state, event, limits) => ({
      state,
      effects: askClient([event.leg], state.round, state.open, limits),
    }),
  }),
  row({
    rule: '14',
    from: ['idle'],
    on: 'retry',
    to: ['running'],
    why: 'nothing is asked any more: the client waits for the outcome',
    when: isOfRound,
    then: (state, event, limits) => ({
      state: runningFor(event, state),
      effects: waitTimers(limits),
    }),
  }),
  row({
    rule: '15',
    from: ['settled'],
    on: 'retry',
    to: ['done'],
    why: 'the outcome that waited is handed over; the answers came too late',
    when: isOfRound,
    then: (state, event, limits) => {
      const end: CallEnd = { type: 'outcome', outcome: state.outcome };
      const after = { round: state.round, consumed: consumedBy(event) };
      return done(after, end, limits, replyEnd([event.leg], end));
    },
  }),
];
