/**
 * The server ends the call with URLs to visit (error -32042), and the call is made anew when the
 * client has visited them.
 */
import type { CallEnd, CallLimits, RetryEvent, StateNamed, Step } from './states.ts';
import { askClient, closeOut, RELEASE_CLEAN, replyEnd, waitTimers } from './effects.ts';
import { done } from './end-steps.ts';
import { openRequests, unansweredBy } from './open-requests.ts';
import { consumedBy, isOfRound, runningFor } from './retries.ts';
import { row, type Row } from './row.ts';
import { ATTACHED } from './state-groups.ts';

export const SUSPENDING: readonly Row[] = [
  row({
    rule: 'url-1',
    from: [...ATTACHED],
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
    rule: 'url-1b',
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
    rule: 'url-2',
    from: ['suspended'],
    on: 'retry',
    to: ['done'],
    why: 'the user said no to a URL that the server insists on: the call is not made again',
    when: (state, event) => isOfRound(state, event) && event.declined,
    then: (state, event, limits) => endVisit(state, event, { type: 'declined' }, limits),
  }),
  row({
    rule: '41c',
    from: ['suspended'],
    on: 'retry',
    to: ['done'],
    why: 'some URLs are left to visit, and the rounds are used up',
    when: (state, event, limits) =>
      isOfRound(state, event) &&
      unansweredBy(event, state.open).length > 0 &&
      state.round >= limits.maxRounds,
    then: (state, event, limits) =>
      endVisit(state, event, { type: 'refused', reason: 'too_many_rounds' }, limits),
  }),
  row({
    rule: 'url-3',
    from: ['suspended'],
    on: 'retry',
    to: ['suspended'],
    why: 'some URLs were visited; the others are asked for again',
    when: (state, event) => isOfRound(state, event) && unansweredBy(event, state.open).length > 0,
    then: (state, event, limits) => {
      const open = unansweredBy(event, state.open);
      const round = state.round + 1;
      return {
        state: { name: 'suspended', round, consumed: consumedBy(event), open },
        effects: askClient([event.leg], round, open, limits),
      };
    },
  }),
  row({
    rule: 'url-4',
    from: ['suspended'],
    on: 'retry',
    to: ['running'],
    why: 'all URLs were visited: the call is made anew, as the server asked for',
    when: isOfRound,
    then: (state, event, limits) => ({
      state: runningFor(event, state),
      effects: [...waitTimers(limits), { do: 'callAgain', leg: event.leg }],
    }),
  }),
];

/** Ends a call with the retry after which it is not made again. */
function endVisit(
  { round }: StateNamed<'suspended'>,
  event: RetryEvent,
  end: CallEnd,
  limits: CallLimits,
): Step {
  const after = { round, consumed: consumedBy(event) };
  return done(after, end, limits, [RELEASE_CLEAN, ...replyEnd([event.leg], end)]);
}
