/** The client retries: with answers, repeated, too early or too late; and what becomes of its answers. */
import {
  row,
  type Row,
  askClient,
  cancel,
  done,
  batchTimer,
  holdTimer,
  park,
  parkTimer,
  FREE_CLEAN,
  FREE_TAINTED,
  LOST,
  reply,
  replyEnd,
  runningFor,
  runTimer,
  waitTimers,
  windowMs,
} from './steps.ts';
import {
  answeredBy,
  ATTACHED,
  carried,
  consumedBy,
  DETACHED,
  gatheringMs,
  isEndedByDrain,
  isOfRound,
  isSuccessor,
  keysOf,
  LIVE,
  questionRound,
  refusalOfRetry,
  repeats,
  unansweredBy,
} from './selectors.ts';
import type { CallEnd, CallLimits, OpenRequest, RetryEvent, StateNamed, StepTo } from './states.ts';

export const RETRIES: readonly Row[] = [
  row({
    rule: 'retry-joined',
    from: ATTACHED,
    on: 'retry',
    to: ATTACHED,
    why: 'the same retry again, while the first still waits, or its successor: all get the same outcome',
    when: (state, event) => repeats(state, event) || isSuccessor(state, event),
    then: (state, event) => ({
      state: { ...state, waiters: [...state.waiters, event.waiter] },
      effects: [],
    }),
  }),
  row({
    rule: 'retry-awaits-stream',
    from: LIVE,
    on: 'retry',
    to: LIVE,
    why: 'the stream is being resumed: the retry waits, its answers are not risked',
    when: (state) => state.stream === 'broken',
    then: (state, event) => ({
      state: { ...state, waiting: [...state.waiting, event] },
      effects: [],
    }),
  }),
  row({
    rule: 'capability-missing',
    from: ['parked', 'suspended'],
    on: 'retry',
    to: ['parked', 'suspended'],
    why: 'what must be asked again is no longer declared (MRTR, server requirement 7)',
    when: (state, event) =>
      isOfRound(state, event) &&
      !event.declined &&
      unansweredBy(event, state.open).some((request) => event.uncovered.includes(request.key)),
    then: (state, event) => ({
      state,
      effects: reply([event.waiter], {
        type: 'missingCapability',
        keys: keysOf(unansweredBy(event, state.open)).filter((key) =>
          event.uncovered.includes(key),
        ),
      }),
    }),
  }),
  row({
    rule: 'answers-accepted',
    from: ['parked'],
    on: 'retry',
    to: ['answering'],
    why: 'the answers that were given go upstream, once',
    when: (state, event) => isOfRound(state, event) && answeredBy(event, state.open).length > 0,
    then: (state, event, limits) => {
      const posting = answeredBy(event, state.open);
      return {
        state: {
          name: 'answering',
          round: state.round + 1,
          stateOnly: state.stateOnly,
          waiters: [event.waiter],
          consumed: consumedBy(event),
          before: state.consumed,
          stream: 'open',
          waiting: [],
          posting,
          missing: unansweredBy(event, state.open),
          arrived: [],
          arrivedSinceMs: 0,
        },
        effects: [runTimer(limits), { do: 'post', waiter: event.waiter, requests: posting }],
      };
    },
  }),
  row({
    rule: 'asked-again',
    from: ['parked', 'suspended'],
    on: 'retry',
    to: ['parked', 'suspended'],
    why: 'a retry that answers nothing is asked again; the round is not used up (MRTR, Error Handling)',
    when: (state, event) =>
      isOfRound(state, event) && !event.declined && answeredBy(event, state.open).length === 0,
    then: (state, event, limits) => ({
      state,
      effects: askClient([event.waiter], state, state.open, limits),
    }),
  }),
  row({
    rule: 'retry-awaits-outcome',
    from: ['runningDetached'],
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
    rule: 'outcome-delivered',
    from: ['resultReady'],
    on: 'retry',
    to: ['done'],
    why: 'the outcome that waited is handed over; the answers came too late',
    when: isOfRound,
    then: (state, event, limits) => {
      const end: CallEnd = { type: 'outcome', outcome: state.outcome };
      const after = { round: state.round, consumed: consumedBy(event) };
      return done(after, end, limits, replyEnd([event.waiter], end));
    },
  }),
  row({
    rule: 'url-declined',
    from: ['suspended'],
    on: 'retry',
    to: ['done'],
    why: 'the user said no to a URL that the server insists on: the call is not made again',
    when: (state, event) => isOfRound(state, event) && event.declined,
    then: (state, event, limits) => endVisit(state, event, { type: 'declined' }, limits),
  }),
  row({
    rule: 'urls-round-limit-reached',
    from: ['suspended'],
    on: 'retry',
    to: ['done'],
    why: 'some URLs are left to visit, and the rounds are used up',
    when: (state, event, limits) =>
      isOfRound(state, event) &&
      unansweredBy(event, state.open).length > 0 &&
      questionRound(state) >= limits.maxRounds,
    then: (state, event, limits) =>
      endVisit(state, event, { type: 'refused', reason: 'too_many_rounds' }, limits),
  }),
  row({
    rule: 'some-urls-visited',
    from: ['suspended'],
    on: 'retry',
    to: ['suspended'],
    why: 'some URLs were visited; the others are asked for again',
    when: (state, event) => isOfRound(state, event) && unansweredBy(event, state.open).length > 0,
    then: (state, event, limits) => {
      const open = unansweredBy(event, state.open);
      const rounds = { round: state.round + 1, stateOnly: state.stateOnly };
      return {
        state: { name: 'suspended', ...rounds, consumed: consumedBy(event), open },
        effects: askClient([event.waiter], rounds, open, limits),
      };
    },
  }),
  row({
    rule: 'call-made',
    from: ['suspended'],
    on: 'retry',
    to: ['running'],
    why: 'all URLs were visited, or the roots named: the call is made',
    when: isOfRound,
    then: (state, event, limits) => ({
      state: runningFor(event, state),
      effects: [...waitTimers(limits), { do: 'callAgain', waiter: event.waiter }],
    }),
  }),
  row({
    rule: 'round-repeated',
    from: DETACHED,
    on: 'retry',
    to: DETACHED,
    why: 'the retry that led here came twice: its answer was lost on the way, so give it again',
    when: repeats,
    then: (state, event) => ({
      state,
      effects: reply([event.waiter], { type: 'sameInputRequired' }),
    }),
  }),
  row({
    rule: 'end-repeated',
    from: ['cancelling', 'done'],
    on: 'retry',
    to: ['cancelling', 'done'],
    why: 'the last retry came twice: the identical outcome again',
    when: (state, event) => repeats(state, event) && state.end.type !== 'cancelled',
    then: (state, event) => ({ state, effects: replyEnd([event.waiter], state.end) }),
  }),
  row({
    rule: 'end-told',
    from: ['cancelling', 'done'],
    on: 'retry',
    to: ['cancelling', 'done'],
    why: 'the call ended without this retry: say how. One that the stop of the process ended is lost',
    when: (state, event) =>
      isSuccessor(state, event) && !['cancelled', 'expired'].includes(state.end.type),
    then: (state, event) => ({
      state,
      effects: replyEnd([event.waiter], isEndedByDrain(state) ? LOST : state.end),
    }),
  }),
  row({
    rule: 'retry-rejected',
    from: [...ATTACHED, ...DETACHED, 'cancelling', 'done'],
    on: 'retry',
    to: [...ATTACHED, ...DETACHED, 'cancelling', 'done'],
    why: 'another retry on a used pointer, or a pointer of a call that is over',
    then: (state, event) => ({
      state,
      effects: reply([event.waiter], {
        type: 'invalidRequestState',
        reason: refusalOfRetry(state),
      }),
    }),
  }),
  row({
    rule: 'answers-round-limit-reached',
    from: ['answering'],
    on: 'posted',
    to: ['cancelling'],
    why: 'what is missing would have to be asked again, and the rounds are used up',
    when: (state, _event, limits) =>
      state.missing.length > 0 && questionRound(state) > limits.maxRounds,
    then: (state, _event, limits) =>
      cancel(state, { type: 'refused', reason: 'too_many_rounds' }, limits),
  }),
  row({
    rule: 'answers-taken',
    from: ['answering'],
    on: 'posted',
    to: ['parked', 'batching', 'running'],
    why: 'the answers are upstream: what is missing is asked again, or the client waits on',
    then: (state, _event, limits) => {
      const { waiters, missing, arrived } = state;
      const open = [...missing, ...arrived];
      if (open.length === 0) {
        return {
          state: { name: 'running', ...carried(state), waiters },
          effects: holdTimer(state, limits),
        };
      }
      const hasPlace = missing.length > 0;
      if (hasPlace && gatheringMs(state, limits) === 0) return park(state, waiters, open, limits);
      const sinceMs = arrived.length === 0 ? null : state.arrivedSinceMs;
      return {
        state: { name: 'batching', ...carried(state), waiters, open, sinceMs, hasPlace },
        effects: [batchTimer(open.length, windowMs(state, limits), limits)],
      };
    },
  }),
  row({
    rule: 'session-forgotten',
    from: ['answering'],
    on: 'sessionGone',
    to: ['done'],
    why: 'the server has forgotten the session, and the call with it',
    then: (state, _event, limits) =>
      done(state, LOST, limits, [FREE_TAINTED, ...replyEnd(state.waiters, LOST)]),
  }),
  row({
    rule: 'answers-refused',
    from: ['answering'],
    on: 'postRefused',
    to: ['parked', 'runningDetached'],
    why: 'the server did not take the answers: the pointer stays good for another try',
    then: (state, event, limits) => {
      const isOpen = (request: OpenRequest) =>
        request.id === null || !event.accepted.includes(request.id);
      const open = [...state.posting.filter(isOpen), ...state.missing, ...state.arrived];
      const before = { ...carried(state), round: state.round - 1, consumed: state.before };
      return {
        state:
          open.length > 0
            ? { name: 'parked', ...before, open }
            : { name: 'runningDetached', ...before },
        effects: [
          ...reply(state.waiters, { type: 'failed', failure: event.failure }),
          parkTimer(limits),
        ],
      };
    },
  }),
];

/** Ends a call with the retry after which it is not made again. */
function endVisit(
  { round }: StateNamed<'suspended'>,
  event: RetryEvent,
  end: CallEnd,
  limits: CallLimits,
): StepTo<'done'> {
  const after = { round, consumed: consumedBy(event) };
  return done(after, end, limits, [FREE_CLEAN, ...replyEnd([event.waiter], end)]);
}
