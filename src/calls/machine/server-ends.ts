/** The server ends the call: with an outcome, with URLs to visit, or because it was told to stop. Or its stream ends without a response, and is resumed or lost. */
import {
  row,
  type Row,
  askClient,
  closeOutEffects,
  done,
  freeLost,
  FREE_TAINTED,
  replyEnd,
  holdTimer,
  leave,
} from './steps.ts';
import { ATTACHED, openRequests, attachedWaiters, LIVE, questionRound } from './selectors.ts';
import type { CallEnd, CallLimits, StateNamed, StepTo } from './states.ts';

export const SERVER_ENDS: readonly Row[] = [
  row({
    rule: 'finished',
    from: ATTACHED,
    on: 'outcome',
    to: ['done'],
    why: 'the server ends the call while a client waits',
    then: (state, { outcome, clean }, limits) =>
      finish(state, { type: 'outcome', outcome }, clean, limits),
  }),
  row({
    rule: 'finished-while-parked',
    from: ['parked', 'runningDetached'],
    on: 'outcome',
    to: ['resultReady'],
    why: 'the server ends the call while the client is disconnected; the outcome waits for the retry',
    then: (state, { outcome, clean }) => ({
      state: { name: 'resultReady', round: state.round, consumed: state.consumed, outcome },
      effects: [...closeOutEffects(openRequests(state)), { do: 'free', clean }],
    }),
  }),
  row({
    rule: 'asks-first',
    from: ATTACHED,
    on: 'asksFirst',
    to: ['suspended', 'done'],
    why: 'the server ended the call and names URLs to visit first (-32042), or has yet to learn the roots',
    then: (state, event, limits) => {
      const { round, stateOnly, consumed, waiters } = state;
      const isLast = questionRound(state) > limits.maxRounds;
      if (isLast || !event.mayPark) {
        const reason = isLast ? 'too_many_rounds' : 'too_many_parked_calls';
        return finish(state, { type: 'refused', reason }, true, limits);
      }
      return {
        state: { name: 'suspended', round, stateOnly, consumed, open: event.requests },
        effects: [
          ...closeOutEffects(openRequests(state)),
          ...askClient(waiters, state, event.requests, limits),
        ],
      };
    },
  }),
  row({
    rule: 'asks-first-while-parked',
    from: ['parked', 'runningDetached'],
    on: 'asksFirst',
    to: ['suspended'],
    why: 'the same, while the client is disconnected: the next retry is told',
    then: (state, { requests: open }) => {
      const { round, stateOnly, consumed } = state;
      return {
        state: { name: 'suspended', round, stateOnly, consumed, open },
        effects: closeOutEffects(openRequests(state)),
      };
    },
  }),
  row({
    rule: 'grace-over',
    from: ['cancelling'],
    on: 'ended',
    to: ['done'],
    why: 'the grace is over: the gateway closes the stream, since some servers never do',
    then: (state, _event, limits) => done(state, state.end, limits, [FREE_TAINTED]),
  }),
  row({
    rule: 'finished-after-cancel',
    from: ['cancelling'],
    on: 'outcome',
    to: ['done'],
    why: 'the server ends the cancelled call by itself; a late outcome is ignored',
    then: (state, { clean }, limits) => done(state, state.end, limits, [{ do: 'free', clean }]),
  }),
];

/** Ends a call for which a client waits, and whose exchange the server has ended. */
function finish(
  state: StateNamed<(typeof ATTACHED)[number]>,
  end: CallEnd,
  clean: boolean,
  limits: CallLimits,
): StepTo<'done'> {
  return done(state, end, limits, [
    ...closeOutEffects(openRequests(state)),
    { do: 'free', clean },
    ...replyEnd(state.waiters, end),
  ]);
}

export const STREAM: readonly Row[] = [
  row({
    rule: 'stream-broken',
    from: LIVE,
    on: 'interrupted',
    to: LIVE,
    why: 'the stream ended without a response and can be resumed: retries wait for it meanwhile',
    when: (state) => state.stream === 'open',
    then: (state) => ({ state: { ...state, stream: 'broken' }, effects: [] }),
  }),
  row({
    rule: 'stream-resumed',
    from: LIVE,
    on: 'resumed',
    to: LIVE,
    why: 'the stream is back: the call goes on, and the retries that waited are looked at',
    when: (state) => state.stream === 'broken',
    then: (state, _event, limits) => ({
      state: { ...state, stream: 'open', waiting: [] },
      effects: state.name === 'running' ? holdTimer({ stream: 'open' }, limits) : [],
    }),
  }),
  row({
    rule: 'stream-lost',
    from: LIVE,
    on: 'lost',
    to: ['done'],
    why: 'the stream cannot be resumed, so the call is lost',
    then: (state, event, limits) =>
      done(state, event, limits, [freeLost(event), ...replyEnd(attachedWaiters(state), event)]),
  }),
  row({
    rule: 'stream-lost-after-cancel',
    from: ['cancelling'],
    on: 'lost',
    to: ['done'],
    why: 'the stream of the cancelled call cannot be resumed',
    then: (state, event, limits) => done(state, state.end, limits, [freeLost(event)]),
  }),
  row({
    rule: 'credentials-refused',
    from: LIVE,
    on: 'shutOut',
    to: ['done'],
    why: 'the server keeps the call but refuses the credentials that are here; a retry can bring others',
    then: (state, { failure }, limits) => leave(state, { type: 'failed', failure }, limits),
  }),
];
