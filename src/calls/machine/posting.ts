/** The answers of a retry have gone upstream, or were not taken there. */
import type { OpenRequest } from './states.ts';
import { gatherTimer, holdTimer, parkTimer, RELEASE_TAINTED, reply, replyEnd } from './effects.ts';
import { cancel, done } from './end-steps.ts';
import { park } from './park.ts';
import { row, type Row } from './row.ts';

export const POSTING: readonly Row[] = [
  row({
    rule: '41b',
    from: ['resuming'],
    on: 'posted',
    to: ['cancelling'],
    why: 'what is missing would have to be asked again, and the rounds are used up',
    when: (state, _event, limits) => state.missing.length > 0 && state.round > limits.maxRounds,
    then: (state, _event, limits) =>
      cancel(state, { type: 'refused', reason: 'too_many_rounds' }, limits),
  }),
  row({
    rule: '10b',
    from: ['resuming'],
    on: 'posted',
    to: ['parked', 'gathering', 'running'],
    why: 'the answers are upstream: what is missing is asked again, or the client waits on',
    then: (state, _event, limits) => {
      const { round, legs, consumed, missing, arrived, arrivedSinceMs: sinceMs } = state;
      if (missing.length > 0) return park(state, legs, [...missing, ...arrived], limits);
      if (arrived.length === 0) {
        return { state: { name: 'running', round, legs, consumed }, effects: holdTimer(limits) };
      }
      return {
        state: { name: 'gathering', round, legs, consumed, open: arrived, sinceMs },
        effects: [gatherTimer(arrived.length, limits.gatherWindowMs, limits)],
      };
    },
  }),
  row({
    rule: '30',
    from: ['resuming'],
    on: 'postRefused',
    to: ['done'],
    why: 'the server has forgotten the session, and the call with it',
    when: (_state, event) => event.cause === 'sessionGone',
    then: (state, _event, limits) =>
      done(state, { type: 'lost' }, limits, [
        RELEASE_TAINTED,
        ...replyEnd(state.legs, { type: 'lost' }),
      ]),
  }),
  row({
    rule: '31-32',
    from: ['resuming'],
    on: 'postRefused',
    to: ['parked', 'idle'],
    why: 'the server did not take the answers: the pointer stays good for another try',
    then: (state, event, limits) => {
      const isOpen = (request: OpenRequest) =>
        request.id === null || !event.accepted.includes(request.id);
      const open = [...state.posting.filter(isOpen), ...state.missing, ...state.arrived];
      const before = { round: state.round - 1, consumed: state.before };
      return {
        state: open.length > 0 ? { name: 'parked', ...before, open } : { name: 'idle', ...before },
        effects: [
          ...reply(state.legs, {
            type: event.cause === 'unauthorized' ? 'unauthorized' : 'unreachable',
          }),
          parkTimer(limits),
        ],
      };
    },
  }),
];
