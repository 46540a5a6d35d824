/**
 * The life of a parked call as a table: from which state, on which event, under which condition, to
 * which state, with which effects. Pure: no I/O, no clock, no randomness. Everything that changes a
 * call's state stands here; the bridge only feeds events and carries out effects.
 *
 * Laws (each has a property test): an input request is answered upstream at most once; every leg gets
 * exactly one reply; a pointer's round is consumed at most once, and its exact repetition gives the
 * identical reply; no state is without a deadline; whatever ends a call releases what it holds once.
 *
 * The first row that matches counts. An event that no row mentions for a state changes nothing.
 * The diagram in docs/parked-call.md is drawn from these rows.
 */
import {
  TIMERS,
  type CallEnd,
  type CallEvent,
  type CallLimits,
  type CallState,
  type ConsumedRetry,
  type Effect,
  type EventName,
  type EventNamed,
  type LegId,
  type Live,
  type OpenRequest,
  type RetryEvent,
  type StateName,
  type StateNamed,
  type Step,
} from './call-state.ts';

export interface Row {
  readonly rule: string;
  readonly from: readonly StateName[];
  readonly on: EventName;
  /** The states this row can lead to, for the diagram; if they are those of `from`, each one stays. */
  readonly to: readonly StateName[];
  readonly why: string;
  readonly when: (state: CallState, event: CallEvent, limits: CallLimits) => boolean;
  readonly then: (state: CallState, event: CallEvent, limits: CallLimits) => Step;
}

interface TypedRow<From extends StateName, On extends EventName> {
  readonly rule: string;
  readonly from: readonly From[];
  readonly on: On;
  readonly to: readonly StateName[];
  readonly why: string;
  readonly when?: (state: StateNamed<From>, event: EventNamed<On>, limits: CallLimits) => boolean;
  readonly then: (state: StateNamed<From>, event: EventNamed<On>, limits: CallLimits) => Step;
}

/** Checks a row's types where it is written; the table itself is read without them. */
function row<From extends StateName, On extends EventName>(typed: TypedRow<From, On>): Row {
  return {
    ...typed,
    when: (typed.when ?? (() => true)) as Row['when'],
    then: typed.then as Row['then'],
  };
}

/**
 * The first state of a call: its first leg waits and the request is on its way upstream.
 * @param consumed the retry for which the call is made anew, if it was there before
 */
export function begin(leg: LegId, limits: CallLimits, consumed: ConsumedRetry | null = null): Step {
  const round = (consumed?.round ?? 0) + 1;
  return {
    state: { name: 'running', round, legs: [leg], consumed },
    effects: [...waiting(limits), { do: 'arm', timer: 'call', afterMs: limits.callTtlMs }],
  };
}

/**
 * The first state of a call that another replica had: its questions are with the client, and its
 * stream is yet to be taken up. The retry that brought it here waits as for any broken stream.
 */
export function adopt(round: number, open: readonly OpenRequest[], limits: CallLimits): Step {
  const interrupted: Live =
    open.length > 0
      ? { name: 'parked', round, consumed: null, open }
      : { name: 'idle', round, consumed: null };
  return {
    state: { name: 'broken', interrupted, waiting: [] },
    effects: [
      { do: 'arm', timer: 'park', afterMs: limits.parkTtlMs },
      { do: 'arm', timer: 'call', afterMs: limits.callTtlMs },
    ],
  };
}

/** The timers of a client that waits for the server. */
function waiting(limits: CallLimits): readonly Effect[] {
  return [{ do: 'arm', timer: 'run', afterMs: limits.maxDurationMs }, ...hold(limits)];
}

function hold(limits: CallLimits): readonly Effect[] {
  return limits.maxHoldMs === null ? [] : [{ do: 'arm', timer: 'hold', afterMs: limits.maxHoldMs }];
}

/** Moves a call: the row that matched (or none) and what follows from it. */
export function step(
  state: CallState,
  event: CallEvent,
  limits: CallLimits,
): Step & { readonly row: Row | null } {
  const match = TRANSITIONS.find(
    (candidate) =>
      candidate.on === event.type &&
      candidate.from.includes(state.name) &&
      candidate.when(state, event, limits),
  );
  if (match === undefined) return { state, effects: [], row: null };
  return { ...match.then(state, event, limits), row: match };
}

const ATTACHED = ['running', 'gathering', 'resuming'] as const;
const DETACHED = ['parked', 'idle', 'settled', 'suspended'] as const;
const LIVE = ['running', 'gathering', 'resuming', 'parked', 'idle'] as const;

function isAttached(state: CallState): state is StateNamed<(typeof ATTACHED)[number]> {
  return state.name === 'running' || state.name === 'gathering' || state.name === 'resuming';
}

/** Input requests of a state that the upstream still waits for. */
export function openRequests(state: CallState): readonly OpenRequest[] {
  switch (state.name) {
    case 'gathering':
    case 'parked':
    case 'suspended':
      return state.open;
    case 'resuming':
      return [...state.missing, ...state.arrived];
    case 'broken':
      return openRequests(state.interrupted);
    default:
      return [];
  }
}

/** Legs of a state that wait for a reply. */
export function attachedLegs(state: CallState): readonly LegId[] {
  switch (state.name) {
    case 'running':
    case 'gathering':
    case 'resuming':
      return state.legs;
    case 'broken':
      return [...attachedLegs(state.interrupted), ...state.waiting.map((retry) => retry.leg)];
    default:
      return [];
  }
}

function reply(
  legs: readonly LegId[],
  what: Extract<Effect, { do: 'reply' }>['reply'],
): readonly Effect[] {
  return legs.length === 0 ? [] : [{ do: 'reply', legs, reply: what }];
}

function closeOut(requests: readonly OpenRequest[]): readonly Effect[] {
  return requests.length === 0 ? [] : [{ do: 'closeOut', requests }];
}

function keysOf(requests: readonly OpenRequest[]): OpenRequest['key'][] {
  return requests.map((request) => request.key);
}

function withoutId(requests: readonly OpenRequest[], id: OpenRequest['id']): OpenRequest[] {
  return requests.filter((request) => request.id !== id);
}

function consumedBy(event: RetryEvent) {
  return { round: event.round, answersDigest: event.answersDigest };
}

/** The retry repeats the one that was accepted last, to the letter. */
function repeats(
  state: { consumed: { round: number; answersDigest: string } | null },
  event: RetryEvent,
): boolean {
  return (
    state.consumed !== null &&
    state.consumed.round === event.round &&
    state.consumed.answersDigest === event.answersDigest
  );
}

/** Ends a call whose exchange is over already. */
function done(
  state: { round: number; consumed?: { round: number; answersDigest: string } | null },
  end: CallEnd,
  limits: CallLimits,
  effects: readonly Effect[],
): Step {
  return {
    state: { name: 'done', round: state.round, consumed: state.consumed ?? null, end },
    effects: [...effects, { do: 'arm', timer: 'redeliver', afterMs: limits.redeliverMs }],
  };
}

/**
 * Ends a call whose exchange still runs: answers what is open, tells the server, waits a moment.
 * Answers that are on their way go on: closing their requests out too would answer them twice.
 */
function cancel(state: Live, end: CallEnd, limits: CallLimits): Step {
  const open = openRequests(state);
  return {
    state: { name: 'cancelling', round: state.round, consumed: state.consumed, end },
    effects: [
      ...reply(attachedLegs(state), { type: 'end', end }),
      ...closeOut(open),
      { do: 'cancelUpstream' },
      { do: 'arm', timer: 'grace', afterMs: limits.cancelGraceMs },
    ],
  };
}

function park(
  state: { round: number; consumed: { round: number; answersDigest: string } | null },
  legs: readonly LegId[],
  open: readonly OpenRequest[],
  limits: CallLimits,
): Step {
  return {
    state: { name: 'parked', round: state.round, consumed: state.consumed, open },
    effects: [
      ...reply(legs, { type: 'inputRequired', round: state.round, keys: keysOf(open) }),
      { do: 'arm', timer: 'park', afterMs: limits.parkTtlMs },
    ],
  };
}

function withoutLeg<State extends { legs: readonly LegId[] }>(state: State, leg: LegId): State {
  return { ...state, legs: state.legs.filter((candidate) => candidate !== leg) };
}

/** What a retry of the current round leaves unanswered. */
function unanswered(open: readonly OpenRequest[], event: RetryEvent): OpenRequest[] {
  return open.filter((request) => !event.answered.includes(request.key));
}

function answeredOf(open: readonly OpenRequest[], event: RetryEvent): OpenRequest[] {
  return open.filter((request) => event.answered.includes(request.key));
}

export const TRANSITIONS: readonly Row[] = [
  row({
    rule: '2',
    from: ['running'],
    on: 'asked',
    to: ['gathering'],
    why: 'the first input request opens the window for those that come together',
    then: (state, event, limits) => ({
      state: {
        name: 'gathering',
        round: state.round,
        legs: state.legs,
        consumed: state.consumed,
        open: [event.request],
        sinceMs: event.atMs,
      },
      effects: [
        {
          do: 'arm',
          timer: 'gather',
          afterMs: limits.maxInputRequestsPerRound <= 1 ? 0 : limits.gatherWindowMs,
        },
      ],
    }),
  }),
  row({
    rule: '3',
    from: ['gathering'],
    on: 'asked',
    to: ['gathering'],
    why: 'a further one restarts the window, up to its limit',
    then: (state, event, limits) => {
      const open = [...state.open, event.request];
      const leftMs = limits.gatherLimitMs - (event.atMs - state.sinceMs);
      const full = open.length >= limits.maxInputRequestsPerRound;
      const afterMs = full ? 0 : Math.max(0, Math.min(limits.gatherWindowMs, leftMs));
      return { state: { ...state, open }, effects: [{ do: 'arm', timer: 'gather', afterMs }] };
    },
  }),
  row({
    rule: '3b',
    from: ['resuming'],
    on: 'asked',
    to: ['resuming'],
    why: 'the server asks on while answers are still being handed over',
    then: (state, event) => ({
      state: {
        ...state,
        arrived: [...state.arrived, event.request],
        arrivedSinceMs: state.arrived.length === 0 ? event.atMs : state.arrivedSinceMs,
      },
      effects: [],
    }),
  }),
  row({
    rule: '41',
    from: ['gathering'],
    on: 'gathered',
    to: ['cancelling'],
    why: 'a server that asks for ever is stopped',
    when: (state, _event, limits) => state.round > limits.maxRounds,
    then: (state, _event, limits) =>
      cancel(state, { type: 'refused', reason: 'too_many_rounds' }, limits),
  }),
  row({
    rule: '40b',
    from: ['gathering'],
    on: 'gathered',
    to: ['cancelling'],
    why: 'no room to park one more call',
    when: (_state, event) => !event.mayPark,
    then: (state, _event, limits) => cancel(state, { type: 'refused', reason: 'lot_full' }, limits),
  }),
  row({
    rule: '4',
    from: ['gathering'],
    on: 'gathered',
    to: ['parked'],
    why: 'the questions go to the client, and the call waits',
    then: (state, _event, limits) => park(state, state.legs, state.open, limits),
  }),
  row({
    rule: '5',
    from: ['running', 'gathering', 'resuming'],
    on: 'outcome',
    to: ['done'],
    why: 'the server finished while a client waits',
    then: (state, event, limits) => {
      const end: CallEnd = { type: 'outcome', outcome: event.outcome };
      return done(state, end, limits, [
        ...closeOut(openRequests(state)),
        { do: 'release', clean: true },
        ...reply(state.legs, { type: 'end', end }),
      ]);
    },
  }),
  row({
    rule: '6',
    from: ['gathering'],
    on: 'withdrawn',
    to: ['running', 'gathering'],
    why: 'the server takes a question back before it was shown',
    then: (state, event, limits) => {
      const open = withoutId(state.open, event.id);
      if (open.length > 0) return { state: { ...state, open }, effects: [] };
      const { round, legs, consumed } = state;
      return { state: { name: 'running', round, legs, consumed }, effects: hold(limits) };
    },
  }),
  row({
    rule: '6b',
    from: ['resuming'],
    on: 'withdrawn',
    to: ['resuming'],
    why: 'the server takes a question back while answers are handed over',
    then: (state, event) => ({
      state: {
        ...state,
        // Should the server refuse the answer that is on its way, it must not be asked for again.
        posting: withoutId(state.posting, event.id),
        missing: withoutId(state.missing, event.id),
        arrived: withoutId(state.arrived, event.id),
      },
      effects: [],
    }),
  }),
  row({
    rule: '7',
    from: ['parked', 'idle'],
    on: 'asked',
    to: ['parked'],
    why: 'a question that comes while the client is away is shown in the next round',
    then: (state, event) => {
      const open = [...(state.name === 'parked' ? state.open : []), event.request];
      return {
        state: { name: 'parked', round: state.round, consumed: state.consumed, open },
        effects: [],
      };
    },
  }),
  row({
    rule: '8',
    from: ['parked'],
    on: 'withdrawn',
    to: ['parked', 'idle'],
    why: 'the server takes a question back that the client is thinking about',
    then: (state, event) => {
      const open = withoutId(state.open, event.id);
      if (open.length > 0) return { state: { ...state, open }, effects: [] };
      const { round, consumed } = state;
      return { state: { name: 'idle', round, consumed }, effects: [] };
    },
  }),
  row({
    rule: '9',
    from: ['parked', 'idle'],
    on: 'outcome',
    to: ['settled'],
    why: 'the server lost patience or moved on; what it settled waits for the retry',
    then: (state, event) => ({
      state: {
        name: 'settled',
        round: state.round,
        consumed: state.consumed,
        outcome: event.outcome,
      },
      effects: [{ do: 'release', clean: true }],
    }),
  }),
  row({
    rule: '33',
    from: ['parked', 'suspended'],
    on: 'retry',
    to: ['parked', 'suspended'],
    why: 'what must be asked again is not declared any more (MRTR, server requirement 7)',
    when: (state, event) =>
      event.round === state.round &&
      !event.declined &&
      unanswered(state.open, event).some((request) => event.uncovered.includes(request.key)),
    then: (state, event) => ({
      state,
      effects: reply([event.leg], {
        type: 'missingCapability',
        keys: keysOf(unanswered(state.open, event)).filter((key) => event.uncovered.includes(key)),
      }),
    }),
  }),
  row({
    rule: '10-11-13',
    from: ['parked'],
    on: 'retry',
    to: ['resuming'],
    why: 'the answers that were given go upstream, once',
    when: (state, event) => event.round === state.round && answeredOf(state.open, event).length > 0,
    then: (state, event, limits) => {
      const posting = answeredOf(state.open, event);
      return {
        state: {
          name: 'resuming',
          round: state.round + 1,
          legs: [event.leg],
          consumed: consumedBy(event),
          before: state.consumed,
          posting,
          missing: unanswered(state.open, event),
          arrived: [],
          arrivedSinceMs: 0,
        },
        effects: [
          { do: 'arm', timer: 'run', afterMs: limits.maxDurationMs },
          { do: 'post', leg: event.leg, requests: posting },
        ],
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
      event.round === state.round && !event.declined && answeredOf(state.open, event).length === 0,
    then: (state, event, limits) => ({
      state,
      effects: [
        ...reply([event.leg], {
          type: 'inputRequired',
          round: state.round,
          keys: keysOf(state.open),
        }),
        { do: 'arm', timer: 'park', afterMs: limits.parkTtlMs },
      ],
    }),
  }),
  row({
    rule: '14',
    from: ['idle'],
    on: 'retry',
    to: ['running'],
    why: 'nothing is asked any more: the client waits for the outcome',
    when: (state, event) => event.round === state.round,
    then: (state, event, limits) => ({
      state: {
        name: 'running',
        round: state.round + 1,
        legs: [event.leg],
        consumed: consumedBy(event),
      },
      effects: waiting(limits),
    }),
  }),
  row({
    rule: '15',
    from: ['settled'],
    on: 'retry',
    to: ['done'],
    why: 'the outcome that waited is handed over; the answers came too late',
    when: (state, event) => event.round === state.round,
    then: (state, event, limits) => {
      const end: CallEnd = { type: 'outcome', outcome: state.outcome };
      const after = { round: state.round, consumed: consumedBy(event) };
      return done(after, end, limits, reply([event.leg], { type: 'end', end }));
    },
  }),
  row({
    rule: 'url-2',
    from: ['suspended'],
    on: 'retry',
    to: ['done'],
    why: 'the user said no to a URL that the server insists on: the call is not made again',
    when: (state, event) => event.round === state.round && event.declined,
    then: (state, event, limits) => {
      const end: CallEnd = { type: 'declined' };
      const after = { round: state.round, consumed: consumedBy(event) };
      return done(after, end, limits, [
        { do: 'release', clean: true },
        ...reply([event.leg], { type: 'end', end }),
      ]);
    },
  }),
  row({
    rule: '41c',
    from: ['suspended'],
    on: 'retry',
    to: ['done'],
    why: 'some URLs are left to visit, and the rounds are used up',
    when: (state, event, limits) =>
      event.round === state.round &&
      unanswered(state.open, event).length > 0 &&
      state.round >= limits.maxRounds,
    then: (state, event, limits) => {
      const end: CallEnd = { type: 'refused', reason: 'too_many_rounds' };
      const after = { round: state.round, consumed: consumedBy(event) };
      return done(after, end, limits, [
        { do: 'release', clean: true },
        ...reply([event.leg], { type: 'end', end }),
      ]);
    },
  }),
  row({
    rule: 'url-3',
    from: ['suspended'],
    on: 'retry',
    to: ['suspended'],
    why: 'some URLs were visited; the others are asked for again',
    when: (state, event) => event.round === state.round && unanswered(state.open, event).length > 0,
    then: (state, event, limits) => {
      const open = unanswered(state.open, event);
      const round = state.round + 1;
      return {
        state: { name: 'suspended', round, consumed: consumedBy(event), open },
        effects: [
          ...reply([event.leg], { type: 'inputRequired', round, keys: keysOf(open) }),
          { do: 'arm', timer: 'park', afterMs: limits.parkTtlMs },
        ],
      };
    },
  }),
  row({
    rule: 'url-4',
    from: ['suspended'],
    on: 'retry',
    to: ['running'],
    why: 'all URLs were visited: the call is made anew, as the server asked for',
    when: (state, event) => event.round === state.round,
    then: (state, event, limits) => ({
      state: {
        name: 'running',
        round: state.round + 1,
        legs: [event.leg],
        consumed: consumedBy(event),
      },
      effects: [...waiting(limits), { do: 'callAgain', leg: event.leg }],
    }),
  }),
  row({
    rule: '16',
    from: ['running', 'gathering', 'resuming'],
    on: 'retry',
    to: ['running', 'gathering', 'resuming'],
    why: 'the same retry again, while the first still waits: both get the same outcome',
    when: (state, event) => repeats(state, event),
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
    when: (state, event) => repeats(state, event),
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
    then: (state, event) => ({
      state,
      effects: reply([event.leg], { type: 'end', end: state.end }),
    }),
  }),
  row({
    rule: '29b',
    from: ['done'],
    on: 'retry',
    to: ['done'],
    why: 'the call was lost while the client was away: say so',
    when: (state, event) =>
      state.end.type === 'lost' &&
      event.round === state.round &&
      event.round !== state.consumed?.round,
    then: (state, event) => ({
      state: { ...state, consumed: consumedBy(event) },
      effects: reply([event.leg], { type: 'end', end: state.end }),
    }),
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
    from: ['running', 'gathering', 'resuming', ...DETACHED, 'cancelling', 'done'],
    on: 'retry',
    to: ['running', 'gathering', 'resuming', ...DETACHED, 'cancelling', 'done'],
    why: 'another retry on a used pointer, or a pointer of a call that is over',
    then: (state, event) => ({
      state,
      effects: reply([event.leg], {
        type: 'invalidRequestState',
        reason: state.name === 'cancelling' || state.name === 'done' ? 'ended' : 'consumed',
      }),
    }),
  }),
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
      const { round, legs, consumed, missing, arrived } = state;
      if (missing.length > 0) return park(state, legs, [...missing, ...arrived], limits);
      if (arrived.length === 0) {
        return { state: { name: 'running', round, legs, consumed }, effects: hold(limits) };
      }
      const full = arrived.length >= limits.maxInputRequestsPerRound;
      return {
        state: {
          name: 'gathering',
          round,
          legs,
          consumed,
          open: arrived,
          sinceMs: state.arrivedSinceMs,
        },
        effects: [{ do: 'arm', timer: 'gather', afterMs: full ? 0 : limits.gatherWindowMs }],
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
        { do: 'release', clean: false },
        ...reply(state.legs, { type: 'end', end: { type: 'lost' } }),
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
          { do: 'arm', timer: 'park', afterMs: limits.parkTtlMs },
        ],
      };
    },
  }),
  row({
    rule: 'url-1',
    from: ['running', 'gathering', 'resuming'],
    on: 'urlsRequired',
    to: ['suspended', 'done'],
    why: 'the server ended the call and names URLs to visit first (-32042)',
    then: (state, event, limits) => {
      const refused =
        state.round > limits.maxRounds ? 'too_many_rounds' : event.mayPark ? null : 'lot_full';
      if (refused !== null) {
        const end: CallEnd = { type: 'refused', reason: refused };
        return done(state, end, limits, [
          ...closeOut(openRequests(state)),
          { do: 'release', clean: true },
          ...reply(state.legs, { type: 'end', end }),
        ]);
      }
      const { round, consumed, legs } = state;
      return {
        state: { name: 'suspended', round, consumed, open: event.requests },
        effects: [
          ...closeOut(openRequests(state)),
          ...reply(legs, { type: 'inputRequired', round, keys: keysOf(event.requests) }),
          { do: 'arm', timer: 'park', afterMs: limits.parkTtlMs },
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
    then: (state, event) => ({
      state: {
        name: 'suspended',
        round: state.round,
        consumed: state.consumed,
        open: event.requests,
      },
      effects: [],
    }),
  }),
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
      const { interrupted } = state;
      if (!isAttached(interrupted)) {
        return { state: { ...state, waiting }, effects: [] };
      }
      const remaining = withoutLeg(interrupted, event.leg);
      if (remaining.legs.length > 0) {
        return { state: { ...state, interrupted: remaining, waiting }, effects: [] };
      }
      const ended = cancel(remaining, { type: 'cancelled' }, limits);
      const legs = waiting.map((retry) => retry.leg);
      return {
        state: ended.state,
        effects: [...reply(legs, { type: 'end', end: { type: 'cancelled' } }), ...ended.effects],
      };
    },
  }),
  row({
    rule: '24',
    from: ['parked', 'idle'],
    on: 'expired',
    to: ['cancelling'],
    why: 'nobody came back in time',
    then: (state, _event, limits) => cancel(state, { type: 'expired' }, limits),
  }),
  row({
    rule: '25',
    from: ['settled', 'suspended'],
    on: 'expired',
    to: ['done'],
    why: 'nobody came for the outcome, or for the URLs',
    then: (state, _event, limits) =>
      done(state, { type: 'expired' }, limits, [
        ...(state.name === 'suspended' ? [{ do: 'release', clean: true } as const] : []),
      ]),
  }),
  row({
    rule: '24b',
    from: [...ATTACHED],
    on: 'expired',
    to: ['cancelling'],
    why: 'the server works for longer than a call may take',
    then: (state, _event, limits) => cancel(state, { type: 'refused', reason: 'timeout' }, limits),
  }),
  row({
    rule: '24c',
    from: ['broken'],
    on: 'expired',
    to: ['cancelling'],
    why: 'the time is up while the stream is being resumed',
    // The time for work runs on while gathered questions are parked here; it bounds nothing then.
    when: (state, event) => TIMERS[state.interrupted.name].includes(event.timer),
    then: (state, event, limits) =>
      cancelBroken(
        state,
        event.timer === 'run' ? { type: 'refused', reason: 'timeout' } : { type: 'expired' },
        limits,
      ),
  }),
  row({
    rule: '26-27',
    from: [...LIVE],
    on: 'interrupted',
    to: ['broken'],
    why: 'the stream ended without a response and can be resumed',
    then: (state) => ({ state: { name: 'broken', interrupted: state, waiting: [] }, effects: [] }),
  }),
  row({
    rule: '28',
    from: ['broken'],
    on: 'resumed',
    to: [...LIVE],
    why: 'the stream is back: go on where it broke',
    then: (state, _event, limits) => ({
      state: state.interrupted,
      effects: [
        ...(state.interrupted.name === 'running' ? hold(limits) : []),
        ...(state.waiting.length > 0
          ? [{ do: 'retryWaiting', retries: state.waiting } as const]
          : []),
      ],
    }),
  }),
  row({
    rule: '29-42',
    from: [...LIVE, 'broken'],
    on: 'lost',
    to: ['done'],
    why: 'the stream is gone for good, and the call with it',
    then: (state, _event, limits) => {
      const live = state.name === 'broken' ? state.interrupted : state;
      return done(live, { type: 'lost' }, limits, [
        { do: 'release', clean: false },
        ...reply(attachedLegs(state), { type: 'end', end: { type: 'lost' } }),
      ]);
    },
  }),
  row({
    rule: '28b',
    from: ['broken'],
    on: 'outcome',
    to: ['done', 'settled'],
    why: 'the outcome came another way before the stream was resumed',
    then: (state, event, limits) => throughBroken(state, event, limits),
  }),
  row({
    rule: '28c',
    from: ['broken'],
    on: 'asked',
    to: ['broken'],
    why: 'a question came another way before the stream was resumed',
    then: (state, event, limits) => throughBroken(state, event, limits),
  }),
  row({
    rule: '28d',
    from: ['broken'],
    on: 'withdrawn',
    to: ['broken'],
    why: 'a withdrawal came another way before the stream was resumed',
    then: (state, event, limits) => throughBroken(state, event, limits),
  }),
  row({
    rule: '28e',
    from: ['broken'],
    on: 'posted',
    to: ['broken', 'cancelling'],
    why: 'the answers were taken while the stream broke',
    then: (state, event, limits) => throughBroken(state, event, limits),
  }),
  row({
    rule: '28f',
    from: ['broken'],
    on: 'postRefused',
    to: ['broken', 'done'],
    why: 'the answers were not taken while the stream broke',
    then: (state, event, limits) => throughBroken(state, event, limits),
  }),
  row({
    rule: '28g',
    from: ['broken'],
    on: 'gathered',
    to: ['broken', 'cancelling'],
    why: 'questions that were gathered go to the client all the same',
    then: (state, event, limits) => throughBroken(state, event, limits),
  }),
  row({
    rule: '28h',
    from: ['broken'],
    on: 'urlsRequired',
    to: ['suspended', 'done'],
    why: 'the call ended with URLs to visit, which came another way before the stream was resumed',
    then: (state, event, limits) => throughBroken(state, event, limits),
  }),
  row({
    rule: 'hold',
    from: ['running'],
    on: 'held',
    to: ['idle'],
    why: 'no connection waits longer than the operator allows: the client comes again (MRTR, state without requests)',
    when: (state, _event, limits) => state.round <= limits.maxRounds,
    then: (state, _event, limits) => ({
      state: { name: 'idle', round: state.round, consumed: state.consumed },
      effects: [
        ...reply(state.legs, { type: 'inputRequired', round: state.round, keys: [] }),
        { do: 'arm', timer: 'park', afterMs: limits.parkTtlMs },
      ],
    }),
  }),
  row({
    rule: '38-leave',
    from: ['parked', 'idle', 'running', 'gathering'],
    on: 'drain',
    to: ['done'],
    why: 'the process stops; the server keeps the call for the replica that the client comes to next',
    when: (_state, event) => event.resumable,
    then: (state, _event, limits) => {
      const keys = keysOf(openRequests(state));
      return done(state, { type: 'left' }, limits, [
        ...reply(attachedLegs(state), { type: 'inputRequired', round: state.round, keys }),
        { do: 'leave' },
      ]);
    },
  }),
  row({
    rule: 'taken',
    from: [...LIVE, 'broken'],
    on: 'takenOver',
    to: ['done'],
    why: 'this process was silent for so long that another replica took the call up: it is not ours to end',
    then: (state, _event, limits) => {
      const live = state.name === 'broken' ? state.interrupted : state;
      const end: CallEnd = { type: 'left' };
      return done(live, end, limits, [
        ...reply(attachedLegs(state), { type: 'end', end }),
        { do: 'leave' },
      ]);
    },
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
    rule: '38c',
    from: ['settled', 'suspended'],
    on: 'drain',
    to: ['done'],
    why: 'the process stops; what waits for a retry is lost with it',
    then: (state, _event, limits) =>
      done(state, { type: 'lost' }, limits, [
        ...(state.name === 'suspended' ? [{ do: 'release', clean: true } as const] : []),
      ]),
  }),
  row({
    rule: '40',
    from: ['parked', 'idle'],
    on: 'evict',
    to: ['cancelling'],
    why: 'the place is needed',
    then: (state, _event, limits) => cancel(state, { type: 'lost' }, limits),
  }),
  row({
    rule: '40c',
    from: ['settled', 'suspended'],
    on: 'evict',
    to: ['done'],
    why: 'the place is needed',
    then: (state, _event, limits) =>
      done(state, { type: 'lost' }, limits, [
        ...(state.name === 'suspended' ? [{ do: 'release', clean: true } as const] : []),
      ]),
  }),
  row({
    rule: '39',
    from: ['cancelling'],
    on: 'ended',
    to: ['done'],
    why: 'the grace is over: close the stream ourselves, since some servers never do',
    then: (state, _event, limits) =>
      done(state, state.end, limits, [{ do: 'release', clean: false }]),
  }),
  row({
    rule: '39b',
    from: ['cancelling'],
    on: 'outcome',
    to: ['done'],
    why: 'the server ended the cancelled call by itself; a late outcome is ignored',
    then: (state, _event, limits) =>
      done(state, state.end, limits, [{ do: 'release', clean: true }]),
  }),
  row({
    rule: '39c',
    from: ['cancelling'],
    on: 'lost',
    to: ['done'],
    why: 'the stream of the cancelled call is gone',
    then: (state, _event, limits) =>
      done(state, state.end, limits, [{ do: 'release', clean: false }]),
  }),
];

function cancelBroken(state: StateNamed<'broken'>, end: CallEnd, limits: CallLimits): Step {
  const ended = cancel(state.interrupted, end, limits);
  const legs = state.waiting.map((retry) => retry.leg);
  return { state: ended.state, effects: [...reply(legs, { type: 'end', end }), ...ended.effects] };
}

/** Lets an event act on what the broken stream interrupted; if that lives on, it is still broken. */
function throughBroken(state: StateNamed<'broken'>, event: CallEvent, limits: CallLimits): Step {
  const inner = step(state.interrupted, event, limits);
  switch (inner.state.name) {
    case 'running':
    case 'gathering':
    case 'resuming':
    case 'parked':
    case 'idle':
      return {
        state: { ...state, interrupted: inner.state },
        // How long one answer may take counts again when the stream is back.
        effects: inner.effects.filter((effect) => effect.do !== 'arm' || effect.timer !== 'hold'),
      };
    default:
      return {
        state: inner.state,
        effects:
          state.waiting.length > 0
            ? [...inner.effects, { do: 'retryWaiting', retries: state.waiting }]
            : inner.effects,
      };
  }
}
