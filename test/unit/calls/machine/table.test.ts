/** What each row of the parked-call table promises: from where, on what, to where, with what effects. */
import { describe, expect, test } from 'vitest';
import {
  TIMERS,
  type CallEnd,
  type CallEvent,
  type CallLimits,
  type CallState,
  type ConsumedRetry,
  type Effect,
  type EventName,
  type LegId,
  type LegReply,
  type Live,
  type OpenRequest,
  type RetryEvent,
  type StateName,
  type StateNamed,
  type TimerName,
} from '../../../../src/calls/machine/states.ts';
import type { CallOutcome } from '../../../../src/model/request.ts';
import { step, TRANSITIONS } from '../../../../src/calls/machine/table.ts';
import { adopt, begin } from '../../../../src/calls/machine/steps.ts';
import { inputKey, serverRequestId } from '../../../../src/protocol/ids.ts';

const LIMITS: CallLimits = {
  gatherWindowMs: 30,
  gatherLimitMs: 150,
  maxDurationMs: 300_000,
  maxHoldMs: null,
  parkTtlMs: 600_000,
  callTtlMs: 3_600_000,
  cancelGraceMs: 2_000,
  redeliverMs: 120_000,
  maxRounds: 10,
  maxOpenQuestions: 4,
};

interface Case {
  readonly rule: string;
  readonly title: string;
  readonly from: CallState;
  readonly on: CallEvent;
  readonly limits?: Partial<CallLimits>;
  readonly state: CallState;
  readonly effects: readonly Effect[];
}

// Requests of the server, and outcomes.

const question = (name: string): OpenRequest => ({
  key: inputKey(name),
  id: serverRequestId(`${name}-id`),
});
const url = (name: string): OpenRequest => ({ key: inputKey(name), id: null });
const [env, size, color] = [question('env'), question('size'), question('color')];
const [login, terms] = [url('login'), url('terms')];
const idOf = (request: OpenRequest) => serverRequestId(`${request.key}-id`);

const outcome: CallOutcome = { kind: 'complete', result: { content: [] } };
const finished: CallEnd = { type: 'outcome', outcome };
const lost: CallEnd = { type: 'lost' };
const cancelled: CallEnd = { type: 'cancelled' };
const expired: CallEnd = { type: 'expired' };
const stopped: CallEnd = { type: 'stopped' };
const declined: CallEnd = { type: 'declined' };
const refused = (reason: Extract<CallEnd, { type: 'refused' }>['reason']): CallEnd => ({
  type: 'refused',
  reason,
});

// States: a call in its third round, whose second retry (round 2) was the last accepted.

const CONSUMED: ConsumedRetry = { round: 2, answersDigest: 'second' };
const CONSUMED_NOW: ConsumedRetry = { round: 3, answersDigest: 'third' };

type Given<Name extends StateName> = Partial<StateNamed<Name>>;

const running = (given: Given<'running'> = {}): StateNamed<'running'> => ({
  name: 'running',
  round: 3,
  legs: [7],
  consumed: CONSUMED,
  stream: 'open',
  waiting: [],
  ...given,
});
const gathering = (given: Given<'gathering'> = {}): StateNamed<'gathering'> => ({
  ...running(),
  open: [env],
  sinceMs: 1_000,
  ...given,
  name: 'gathering',
});
/** The retry of round 3 was accepted; its answer to `env` is on its way. */
const answering = (given: Given<'answering'> = {}): StateNamed<'answering'> => ({
  name: 'answering',
  round: 4,
  legs: [9],
  consumed: CONSUMED_NOW,
  before: CONSUMED,
  posting: [env],
  missing: [],
  arrived: [],
  arrivedSinceMs: 0,
  stream: 'open',
  waiting: [],
  ...given,
});
const parked = (given: Given<'parked'> = {}): StateNamed<'parked'> => ({
  name: 'parked',
  round: 3,
  consumed: CONSUMED,
  open: [env],
  stream: 'open',
  waiting: [],
  ...given,
});
const idle = (given: Given<'idle'> = {}): StateNamed<'idle'> => ({
  name: 'idle',
  round: 3,
  consumed: CONSUMED,
  stream: 'open',
  waiting: [],
  ...given,
});
const settled = (): StateNamed<'settled'> => ({
  name: 'settled',
  round: 3,
  consumed: CONSUMED,
  outcome,
});
const suspended = (given: Given<'suspended'> = {}): StateNamed<'suspended'> => ({
  name: 'suspended',
  round: 3,
  consumed: CONSUMED,
  open: [login],
  ...given,
});
/** The same, while its stream is being resumed. */
const broken = <State extends Live>(state: State, waiting: readonly RetryEvent[] = []): State => ({
  ...state,
  stream: 'broken',
  waiting,
});
const cancelling = (end: CallEnd, given: Given<'cancelling'> = {}): StateNamed<'cancelling'> => ({
  name: 'cancelling',
  round: 3,
  consumed: CONSUMED,
  end,
  ...given,
});
const done = (end: CallEnd, given: Given<'done'> = {}): StateNamed<'done'> => ({
  name: 'done',
  round: 3,
  consumed: CONSUMED,
  end,
  ...given,
});

// Events.

const asked = (request: OpenRequest, atMs = 1_000): CallEvent => ({ type: 'asked', request, atMs });
const withdrawn = (request: OpenRequest): CallEvent => ({ type: 'withdrawn', id: idOf(request) });
const ended = { type: 'outcome', outcome } as const;
const urlsRequired = (mayPark = true): CallEvent => ({
  type: 'urlsRequired',
  requests: [login, terms],
  mayPark,
});
const gathered = (mayPark = true): CallEvent => ({ type: 'gathered', mayPark });
/** A retry of the current round with leg 9 that answers the given requests. */
const retry = (answered: readonly OpenRequest[] = [], given: Partial<RetryEvent> = {}) =>
  ({
    type: 'retry',
    leg: 9,
    round: 3,
    answersDigest: 'third',
    answered: answered.map((request) => request.key),
    uncovered: [],
    declined: false,
    ...given,
  }) as const;
/** The last accepted retry once more, with leg 8. */
const repetition = retry([], { leg: 8, ...CONSUMED });
const repetitionWhileResuming = retry([env], { leg: 8 });
const postRefused = (
  cause: 'unauthorized' | 'unreachable' | 'sessionGone',
  accepted: readonly OpenRequest[] = [],
): CallEvent => ({ type: 'postRefused', cause, accepted: accepted.map(idOf) });
const drain = (outlivesProcess = false): CallEvent => ({ type: 'drain', outlivesProcess });
const legClosed = (leg: LegId): CallEvent => ({ type: 'legClosed', leg });
const timeIsUp = (timer: 'run' | 'park' | 'call'): CallEvent => ({ type: 'expired', timer });

// Effects.

const tell = (legs: readonly LegId[], reply: LegReply): Effect => ({ do: 'reply', legs, reply });
const tellEnd = (legs: readonly LegId[], end: CallEnd) => tell(legs, { type: 'end', end });
const ask = (legs: readonly LegId[], round: number, open: readonly OpenRequest[]) =>
  tell(legs, { type: 'inputRequired', round, keys: open.map((request) => request.key) });
const arm = (timer: TimerName, afterMs: number): Effect => ({ do: 'arm', timer, afterMs });
const armGather = (afterMs = 30) => arm('gather', afterMs);
const armRun = arm('run', 300_000);
const armPark = arm('park', 600_000);
const armGrace = arm('grace', 2_000);
const armRedeliver = arm('redeliver', 120_000);
const closeOut = (...requests: OpenRequest[]): Effect => ({ do: 'closeOut', requests });
const cancelUpstream = (...open: OpenRequest[]): Effect => ({ do: 'cancelUpstream', open });
const free = (clean: boolean): Effect => ({ do: 'free', clean });
const retryWaiting = (...retries: RetryEvent[]): Effect => ({ do: 'retryWaiting', retries });
const leave: Effect = { do: 'leave' };
const cancel = (...open: OpenRequest[]): Effect[] => [cancelUpstream(...open), armGrace];

const ASKING: readonly Case[] = [
  {
    rule: 'first-question',
    title: 'the first request of the server opens the window',
    from: running(),
    on: asked(env, 1_000),
    state: gathering(),
    effects: [armGather()],
  },
  {
    rule: 'first-question',
    title: 'there is no window if a round holds one request only',
    from: running(),
    on: asked(env, 1_000),
    limits: { maxOpenQuestions: 1 },
    state: gathering(),
    effects: [armGather(0)],
  },
  {
    rule: 'further-question',
    title: 'a further request restarts the window',
    from: gathering(),
    on: asked(size, 1_020),
    state: gathering({ open: [env, size] }),
    effects: [armGather(30)],
  },
  {
    rule: 'further-question',
    title: 'the window ends with its limit, counted from the first request',
    from: gathering(),
    on: asked(size, 1_140),
    state: gathering({ open: [env, size] }),
    effects: [armGather(10)],
  },
  {
    rule: 'further-question',
    title: 'beyond the limit the window ends at once',
    from: gathering(),
    on: asked(size, 1_400),
    state: gathering({ open: [env, size] }),
    effects: [armGather(0)],
  },
  {
    rule: 'further-question',
    title: 'a full round ends the window at once',
    from: gathering(),
    on: asked(size, 1_010),
    limits: { maxOpenQuestions: 2 },
    state: gathering({ open: [env, size] }),
    effects: [armGather(0)],
  },
  {
    rule: 'question-while-answering',
    title: 'a request that comes while answers are posted is kept for afterwards',
    from: answering({ missing: [size] }),
    on: asked(color, 5_000),
    state: answering({ missing: [size], arrived: [color], arrivedSinceMs: 5_000 }),
    effects: [],
  },
  {
    rule: 'question-while-answering',
    title: 'the limit of the window counts from the first of those',
    from: answering({ arrived: [size], arrivedSinceMs: 5_000 }),
    on: asked(color, 5_020),
    state: answering({ arrived: [size, color], arrivedSinceMs: 5_000 }),
    effects: [],
  },
  {
    rule: 'questions-shown',
    title: 'when the window ends, the client is asked and the call is parked',
    from: gathering({ legs: [7, 8], open: [env, size] }),
    on: gathered(),
    state: parked({ open: [env, size] }),
    effects: [ask([7, 8], 3, [env, size]), armPark],
  },
  {
    rule: 'questions-shown',
    title: 'the last round that the limit allows is still asked',
    from: gathering({ round: 10 }),
    on: gathered(),
    state: parked({ round: 10 }),
    effects: [ask([7], 10, [env]), armPark],
  },
  {
    rule: 'no-room-to-park',
    title: 'a call for which there is no room is ended, and its requests closed out',
    from: gathering(),
    on: gathered(false),
    state: cancelling(refused('too_many_parked_calls')),
    effects: [tellEnd([7], refused('too_many_parked_calls')), ...cancel(env)],
  },
  {
    rule: 'round-limit-reached',
    title: 'a call with too many rounds is ended, and its requests closed out',
    from: gathering({ round: 11 }),
    on: gathered(),
    state: cancelling(refused('too_many_rounds'), { round: 11 }),
    effects: [tellEnd([7], refused('too_many_rounds')), ...cancel(env)],
  },
  {
    rule: 'question-while-parked',
    title: 'a request that comes while the client is away joins those that are open',
    from: parked(),
    on: asked(size),
    state: parked({ open: [env, size] }),
    effects: [],
  },
  {
    rule: 'question-while-parked',
    title: 'a call that had nothing to ask any more is parked again',
    from: idle(),
    on: asked(size),
    state: parked({ open: [size] }),
    effects: [],
  },
];

const WITHDRAWING: readonly Case[] = [
  {
    rule: 'question-withdrawn',
    title: 'a request taken back before it was shown is not shown',
    from: gathering({ open: [env, size] }),
    on: withdrawn(env),
    state: gathering({ open: [size] }),
    effects: [],
  },
  {
    rule: 'question-withdrawn',
    title: 'the last one taken back lets the call run on',
    from: gathering(),
    on: withdrawn(env),
    state: running(),
    effects: [],
  },
  {
    rule: 'question-withdrawn-while-answering',
    title: 'a request taken back while answers are posted is not asked again',
    from: answering({ missing: [size], arrived: [color] }),
    on: withdrawn(size),
    state: answering({ missing: [], arrived: [color] }),
    effects: [],
  },
  {
    rule: 'question-withdrawn-while-answering',
    title: 'nor is one whose own answer is being posted',
    from: answering({ posting: [env, size] }),
    on: withdrawn(size),
    state: answering({ posting: [env] }),
    effects: [],
  },
  {
    rule: 'question-withdrawn-while-parked',
    title: 'a request taken back while the client is away is not open any more',
    from: parked({ open: [env, size] }),
    on: withdrawn(env),
    state: parked({ open: [size] }),
    effects: [],
  },
  {
    rule: 'question-withdrawn-while-parked',
    title: 'when the last is taken back, the call waits with nothing to ask',
    from: parked(),
    on: withdrawn(env),
    state: idle(),
    effects: [],
  },
];

const FINISHING: readonly Case[] = [
  {
    rule: 'finished',
    title: 'the outcome goes to every leg, and the exchange is freed',
    from: running({ legs: [7, 8] }),
    on: ended,
    state: done(finished),
    effects: [free(true), tellEnd([7, 8], finished), armRedeliver],
  },
  {
    rule: 'finished',
    title: 'requests that were gathered are closed out',
    from: gathering({ open: [env, size] }),
    on: ended,
    state: done(finished),
    effects: [closeOut(env, size), free(true), tellEnd([7], finished), armRedeliver],
  },
  {
    rule: 'finished',
    title: 'an outcome that overtakes the posting closes out what is not answered, and only that',
    from: answering({ missing: [size], arrived: [color] }),
    on: ended,
    state: done(finished, { round: 4, consumed: CONSUMED_NOW }),
    effects: [closeOut(size, color), free(true), tellEnd([9], finished), armRedeliver],
  },
  ...[parked(), idle()].map((from) => ({
    rule: 'finished-while-parked',
    title: `the outcome of a call that is ${from.name} waits for the retry; the exchange is freed`,
    from,
    on: ended,
    state: settled(),
    effects: [free(true)],
  })),
  {
    rule: 'outcome-delivered',
    title: 'the retry is given the outcome that waited, whatever it answers',
    from: settled(),
    on: retry(),
    state: done(finished, { consumed: CONSUMED_NOW }),
    effects: [tellEnd([9], finished), armRedeliver],
  },
];

const RETRYING: readonly Case[] = [
  {
    rule: 'capability-missing',
    title: 'who does not declare what has to be asked again is told so, and uses up nothing',
    from: parked({ open: [env, size, color] }),
    on: retry([env], { uncovered: [env.key, color.key] }),
    state: parked({ open: [env, size, color] }),
    effects: [tell([9], { type: 'missingCapability', keys: [color.key] })],
  },
  {
    rule: 'capability-missing',
    title: 'the same for URLs that are still to be visited',
    from: suspended({ open: [login, terms] }),
    on: retry([login], { uncovered: [login.key, terms.key] }),
    state: suspended({ open: [login, terms] }),
    effects: [tell([9], { type: 'missingCapability', keys: [terms.key] })],
  },
  {
    rule: 'answers-accepted',
    title: 'answers are posted, and the round is used up',
    from: parked(),
    on: retry([env]),
    state: answering(),
    effects: [armRun, { do: 'post', leg: 9, requests: [env] }],
  },
  {
    rule: 'answers-accepted',
    title: 'complete answers count although their capability is not declared any more',
    from: parked(),
    on: retry([env], { uncovered: [env.key] }),
    state: answering(),
    effects: [armRun, { do: 'post', leg: 9, requests: [env] }],
  },
  {
    rule: 'answers-accepted',
    title: 'some of the answers are posted, and the missing ones are kept in mind',
    from: parked({ open: [env, size, color] }),
    on: retry([size]),
    state: answering({ posting: [size], missing: [env, color] }),
    effects: [armRun, { do: 'post', leg: 9, requests: [size] }],
  },
  {
    rule: 'asked-again',
    title: 'a retry that answers nothing is asked the same, and uses up nothing',
    from: parked({ open: [env, size] }),
    on: retry(),
    state: parked({ open: [env, size] }),
    effects: [ask([9], 3, [env, size]), armPark],
  },
  {
    rule: 'asked-again',
    title: 'so is one that visited none of the URLs',
    from: suspended({ open: [login, terms] }),
    on: retry(),
    state: suspended({ open: [login, terms] }),
    effects: [ask([9], 3, [login, terms]), armPark],
  },
  {
    rule: 'retry-awaits-outcome',
    title: 'a retry when nothing is asked any more waits for the outcome',
    from: idle(),
    on: retry(),
    state: running({ round: 4, legs: [9], consumed: CONSUMED_NOW }),
    effects: [armRun],
  },
  {
    rule: 'answers-taken',
    title: 'once everything is answered, the client waits for the outcome',
    from: answering(),
    on: { type: 'posted' },
    state: running({ round: 4, legs: [9], consumed: CONSUMED_NOW }),
    effects: [],
  },
  {
    rule: 'answers-taken',
    title: 'what is missing is asked at once, and with it what came since',
    from: answering({ missing: [size], arrived: [color] }),
    on: { type: 'posted' },
    state: parked({ round: 4, consumed: CONSUMED_NOW, open: [size, color] }),
    effects: [ask([9], 4, [size, color]), armPark],
  },
  {
    rule: 'answers-taken',
    title: 'what came since has its window, which began with the first of it',
    from: answering({ arrived: [size, color], arrivedSinceMs: 5_000 }),
    on: { type: 'posted' },
    state: gathering({
      round: 4,
      legs: [9],
      consumed: CONSUMED_NOW,
      open: [size, color],
      sinceMs: 5_000,
    }),
    effects: [armGather(30)],
  },
  {
    rule: 'answers-taken',
    title: 'no window if what came since fills the round',
    from: answering({ arrived: [size, color], arrivedSinceMs: 5_000 }),
    on: { type: 'posted' },
    limits: { maxOpenQuestions: 2 },
    state: gathering({
      round: 4,
      legs: [9],
      consumed: CONSUMED_NOW,
      open: [size, color],
      sinceMs: 5_000,
    }),
    effects: [armGather(0)],
  },
  {
    rule: 'answers-round-limit-reached',
    title: 'what is missing is not asked in a round too many',
    from: answering({ round: 11, missing: [size], arrived: [color] }),
    on: { type: 'posted' },
    state: cancelling(refused('too_many_rounds'), { round: 11, consumed: CONSUMED_NOW }),
    effects: [tellEnd([9], refused('too_many_rounds')), ...cancel(size, color)],
  },
  {
    rule: 'session-forgotten',
    title: 'answers for a session that the server has forgotten: the call is lost',
    from: answering({ legs: [9, 8], missing: [size] }),
    on: postRefused('sessionGone'),
    state: done(lost, { round: 4, consumed: CONSUMED_NOW }),
    effects: [free(false), tellEnd([9, 8], lost), armRedeliver],
  },
  {
    rule: 'answers-refused',
    title: 'refused credentials leave the round as it was before the retry',
    from: answering({ missing: [size], arrived: [color] }),
    on: postRefused('unauthorized'),
    state: parked({ open: [env, size, color] }),
    effects: [tell([9], { type: 'unauthorized' }), armPark],
  },
  {
    rule: 'answers-refused',
    title: 'answers that the server had taken are not asked for again',
    from: answering({ legs: [9, 8], posting: [env, size] }),
    on: postRefused('unreachable', [env]),
    state: parked({ open: [size] }),
    effects: [tell([9, 8], { type: 'unreachable' }), armPark],
  },
  {
    rule: 'answers-refused',
    title: 'when the refused question was taken back meanwhile, nothing is open any more',
    from: answering({ posting: [] }),
    on: postRefused('unreachable'),
    state: idle(),
    effects: [tell([9], { type: 'unreachable' }), armPark],
  },
];

const REPEATING: readonly Case[] = [
  {
    rule: 'retry-joined',
    title: 'a repetition waits with the retry that it repeats',
    from: running(),
    on: repetition,
    state: running({ legs: [7, 8] }),
    effects: [],
  },
  {
    rule: 'retry-joined',
    title: 'also while the window is open',
    from: gathering(),
    on: repetition,
    state: gathering({ legs: [7, 8] }),
    effects: [],
  },
  {
    rule: 'retry-joined',
    title: 'its answers are not posted a second time',
    from: answering(),
    on: repetitionWhileResuming,
    state: answering({ legs: [9, 8] }),
    effects: [],
  },
  {
    rule: 'retry-joined',
    title: 'a repetition waits with the first although the stream is broken',
    from: broken(running()),
    on: repetition,
    state: broken(running({ legs: [7, 8] })),
    effects: [],
  },
  ...[parked(), idle(), settled(), suspended()].map((from) => ({
    rule: 'round-repeated',
    title: `the retry that led to a ${from.name} call, repeated, is given the same round again`,
    from,
    on: repetition,
    state: from,
    effects: [tell([8], { type: 'sameInputRequired' })],
  })),
  ...[finished, lost, expired, declined, refused('timeout')].map((end) => ({
    rule: 'end-repeated',
    title: `the last retry, repeated, is told the same end (${end.type})`,
    from: done(end),
    on: repetition,
    state: done(end),
    effects: [tellEnd([8], end)],
  })),
  {
    rule: 'end-repeated',
    title: 'also while the server is being stopped',
    from: cancelling(refused('timeout')),
    on: repetition,
    state: cancelling(refused('timeout')),
    effects: [tellEnd([8], refused('timeout'))],
  },
  {
    rule: 'loss-told',
    title: 'the first retry after the call was lost is told so',
    from: done(lost),
    on: retry(),
    state: done(lost, { consumed: CONSUMED_NOW }),
    effects: [tellEnd([9], lost)],
  },
  ...[cancelling, done].map((over) => ({
    rule: 'operator-stop-told',
    title: `a retry of a call that the operator has cancelled is told so (${over(lost).name})`,
    from: over(stopped),
    on: retry(),
    state: over(stopped),
    effects: [tellEnd([9], stopped)],
  })),
  ...[cancelling, done].map((over) => ({
    rule: 'drain-loss-told',
    title: `a retry of a call that a drain has ended is told that it is lost (${over(lost).name})`,
    from: over(refused('draining')),
    on: retry(),
    state: over(refused('draining')),
    effects: [tellEnd([9], lost)],
  })),
  ...[running(), gathering(), parked(), idle(), settled(), suspended()].map((from) => ({
    rule: 'retry-rejected',
    title: `other answers on a used pointer are refused (${from.name})`,
    from,
    on: retry([], { round: 2, answersDigest: 'changed' }),
    state: from,
    effects: [tell([9], { type: 'invalidRequestState', reason: 'consumed' })],
  })),
  {
    rule: 'retry-rejected',
    title: 'other answers while the first are being posted are refused',
    from: answering(),
    on: retry([], { leg: 8, answersDigest: 'changed' }),
    state: answering(),
    effects: [tell([8], { type: 'invalidRequestState', reason: 'consumed' })],
  },
  ...[parked(), settled(), done(finished)].map((from) => ({
    rule: 'retry-rejected',
    title: `an older round than the last is refused, although its answers are the same (${from.name})`,
    from,
    on: retry([], { round: 1, answersDigest: 'first' }),
    state: from,
    effects: [
      tell([9], {
        type: 'invalidRequestState',
        reason: from.name === 'done' ? 'ended' : 'consumed',
      }),
    ],
  })),
  ...[cancelling(lost), done(finished), done(cancelled), done(expired)].map((from) => ({
    rule: 'retry-rejected',
    title: `a retry of a call that is over is refused (${from.name}, ${from.end.type})`,
    from,
    on: retry(),
    state: from,
    effects: [
      tell([9], {
        type: 'invalidRequestState',
        reason: from.end.type === 'expired' ? 'expired' : 'ended',
      }),
    ],
  })),
  {
    rule: 'retry-rejected',
    title: 'not even the last retry brings back a call that its client cancelled',
    from: done(cancelled),
    on: repetition,
    state: done(cancelled),
    effects: [tell([8], { type: 'invalidRequestState', reason: 'ended' })],
  },
  {
    rule: 'retry-rejected',
    title: 'a lost call does not tell two different retries of one round',
    from: done(lost, { consumed: CONSUMED_NOW }),
    on: retry([], { answersDigest: 'changed' }),
    state: done(lost, { consumed: CONSUMED_NOW }),
    effects: [tell([9], { type: 'invalidRequestState', reason: 'ended' })],
  },
];

const URLS: readonly Case[] = [
  {
    rule: 'urls-required',
    title: 'a call that ends with URLs to visit asks for them',
    from: running(),
    on: urlsRequired(),
    state: suspended({ open: [login, terms] }),
    effects: [ask([7], 3, [login, terms]), armPark],
  },
  {
    rule: 'urls-required',
    title: 'what else was gathered is closed out',
    from: gathering({ open: [env, size] }),
    on: urlsRequired(),
    state: suspended({ open: [login, terms] }),
    effects: [closeOut(env, size), ask([7], 3, [login, terms]), armPark],
  },
  {
    rule: 'urls-required',
    title: 'as is what was left open while answers were posted',
    from: answering({ missing: [size], arrived: [color] }),
    on: urlsRequired(),
    state: suspended({ round: 4, consumed: CONSUMED_NOW, open: [login, terms] }),
    effects: [closeOut(size, color), ask([9], 4, [login, terms]), armPark],
  },
  {
    rule: 'urls-required',
    title: 'not in a round too many',
    from: running({ round: 11 }),
    on: urlsRequired(),
    state: done(refused('too_many_rounds'), { round: 11 }),
    effects: [free(true), tellEnd([7], refused('too_many_rounds')), armRedeliver],
  },
  {
    rule: 'urls-required',
    title: 'nor when there is no room',
    from: gathering(),
    on: urlsRequired(false),
    state: done(refused('too_many_parked_calls')),
    effects: [
      closeOut(env),
      free(true),
      tellEnd([7], refused('too_many_parked_calls')),
      armRedeliver,
    ],
  },
  ...[parked(), idle()].map((from) => ({
    rule: 'urls-required-while-parked',
    title: `the same while the client of a call that is ${from.name} is away`,
    from,
    on: urlsRequired(),
    state: suspended({ open: [login, terms] }),
    effects: [],
  })),
  {
    rule: 'url-declined',
    title: 'a call whose URL was declined is over',
    from: suspended({ open: [login, terms] }),
    on: retry([login], { declined: true }),
    state: done(declined, { consumed: CONSUMED_NOW }),
    effects: [free(true), tellEnd([9], declined), armRedeliver],
  },
  {
    rule: 'some-urls-visited',
    title: 'URLs that were not visited are asked for in a further round',
    from: suspended({ open: [login, terms] }),
    on: retry([login]),
    state: suspended({ round: 4, consumed: CONSUMED_NOW, open: [terms] }),
    effects: [ask([9], 4, [terms]), armPark],
  },
  {
    rule: 'urls-round-limit-reached',
    title: 'but not in a round too many',
    from: suspended({ open: [login, terms] }),
    on: retry([login]),
    limits: { maxRounds: 3 },
    state: done(refused('too_many_rounds'), { consumed: CONSUMED_NOW }),
    effects: [free(true), tellEnd([9], refused('too_many_rounds')), armRedeliver],
  },
  {
    rule: 'urls-visited',
    title: 'when all were visited the call is made again',
    from: suspended({ open: [login, terms] }),
    on: retry([login, terms]),
    state: running({ round: 4, legs: [9], consumed: CONSUMED_NOW }),
    effects: [armRun, { do: 'callAgain', leg: 9 }],
  },
];

const LEAVING: readonly Case[] = [
  {
    rule: 'one-leg-left',
    title: 'one of two legs leaves, and the other waits on',
    from: running({ legs: [7, 8] }),
    on: legClosed(7),
    state: running({ legs: [8] }),
    effects: [],
  },
  {
    rule: 'one-leg-left',
    title: 'also while the window is open',
    from: gathering({ legs: [7, 8] }),
    on: legClosed(8),
    state: gathering({ legs: [7] }),
    effects: [],
  },
  {
    rule: 'one-leg-left',
    title: 'also while answers are posted, which go on',
    from: answering({ legs: [9, 8] }),
    on: legClosed(9),
    state: answering({ legs: [8] }),
    effects: [],
  },
  {
    rule: 'client-left',
    title: 'the last leg leaves: the server is told to stop',
    from: running(),
    on: legClosed(7),
    state: cancelling(cancelled),
    effects: cancel(),
  },
  {
    rule: 'client-left',
    title: 'what was gathered is closed out first',
    from: gathering({ open: [env, size] }),
    on: legClosed(7),
    state: cancelling(cancelled),
    effects: [...cancel(env, size)],
  },
  {
    rule: 'client-left',
    title: 'a request whose answer is on its way is not closed out as well',
    from: answering({ missing: [size], arrived: [color] }),
    on: legClosed(9),
    state: cancelling(cancelled, { round: 4, consumed: CONSUMED_NOW }),
    effects: [...cancel(size, color)],
  },
  {
    rule: 'one-leg-left',
    title: 'while the stream is broken, one of two legs leaves',
    from: broken(running({ legs: [7, 8] })),
    on: legClosed(8),
    state: broken(running()),
    effects: [],
  },
  {
    rule: 'client-left',
    title: 'while the stream is broken, the last leg leaves, and retries that wait are told',
    from: broken(gathering(), [retry()]),
    on: legClosed(7),
    state: cancelling(cancelled),
    effects: [tellEnd([9], cancelled), ...cancel(env)],
  },
  ...[running(), gathering(), answering(), idle()].map((from) => ({
    rule: 'waiting-retry-left',
    title: `a retry that waits leaves: the call stays as it was (${from.name})`,
    from: broken(from, [retry([], { leg: 10 })]),
    on: legClosed(10),
    state: broken(from),
    effects: [],
  })),
  {
    rule: 'waiting-retry-left',
    title: 'a retry that waits leaves: the call stays parked',
    from: broken(parked(), [retry(), retry([], { leg: 10 })]),
    on: legClosed(9),
    state: broken(parked(), [retry([], { leg: 10 })]),
    effects: [],
  },
];

const DEADLINES: readonly Case[] = [
  {
    rule: 'client-away-too-long',
    title: 'nobody answered in time: what is open is closed out, the server is told to stop',
    from: parked({ open: [env, size] }),
    on: timeIsUp('park'),
    state: cancelling(expired),
    effects: [...cancel(env, size)],
  },
  {
    rule: 'client-away-too-long',
    title: 'nobody came back in time',
    from: idle(),
    on: timeIsUp('call'),
    state: cancelling(expired),
    effects: cancel(),
  },
  {
    rule: 'stopped-by-operator',
    title: 'the operator cancels: what is open is closed out, the server is told to stop',
    from: parked({ open: [env, size] }),
    on: { type: 'operatorStops' },
    state: cancelling(stopped),
    effects: [...cancel(env, size)],
  },
  {
    rule: 'stopped-by-operator',
    title: 'the operator cancels a call that asks nothing',
    from: idle(),
    on: { type: 'operatorStops' },
    state: cancelling(stopped),
    effects: cancel(),
  },
  {
    rule: 'outcome-discarded-by-operator',
    title: 'the operator cancels after the server ended the call; its client is told, however late',
    from: settled(),
    on: { type: 'operatorStops' },
    state: done(stopped),
    effects: [arm('redeliver', 600_000)],
  },
  {
    rule: 'outcome-discarded-by-operator',
    title: 'the operator cancels while URLs are to be visited',
    from: suspended(),
    on: { type: 'operatorStops' },
    state: done(stopped),
    effects: [free(true), arm('redeliver', 600_000)],
  },
  {
    rule: 'outcome-uncollected',
    title: 'nobody came for the outcome; nothing is held any more',
    from: settled(),
    on: timeIsUp('park'),
    state: done(expired),
    effects: [armRedeliver],
  },
  {
    rule: 'outcome-uncollected',
    title: 'nobody came for the URLs; the session is freed',
    from: suspended(),
    on: timeIsUp('call'),
    state: done(expired),
    effects: [free(true), armRedeliver],
  },
  {
    rule: 'server-took-too-long',
    title: 'the server worked for too long',
    from: running({ legs: [7, 8] }),
    on: timeIsUp('run'),
    state: cancelling(refused('timeout')),
    effects: [tellEnd([7, 8], refused('timeout')), ...cancel()],
  },
  {
    rule: 'server-took-too-long',
    title: 'the whole call took too long while requests were gathered',
    from: gathering(),
    on: timeIsUp('call'),
    state: cancelling(refused('timeout')),
    effects: [tellEnd([7], refused('timeout')), ...cancel(env)],
  },
  {
    rule: 'server-took-too-long',
    title: 'the server took no answers in time',
    from: answering({ missing: [size] }),
    on: timeIsUp('run'),
    state: cancelling(refused('timeout'), { round: 4, consumed: CONSUMED_NOW }),
    effects: [tellEnd([9], refused('timeout')), ...cancel(size)],
  },
  {
    rule: 'server-took-too-long',
    title: 'the time for work is up while the stream is broken',
    from: broken(running(), [retry()]),
    on: timeIsUp('run'),
    state: cancelling(refused('timeout')),
    effects: [tellEnd([9], refused('timeout')), tellEnd([7], refused('timeout')), ...cancel()],
  },
  {
    rule: 'client-away-too-long',
    title: 'the time to answer is up while the stream is broken, and nobody came',
    from: broken(parked()),
    on: timeIsUp('park'),
    state: cancelling(expired),
    effects: cancel(env),
  },
  ...[running(), gathering()].map((from) => ({
    rule: 'server-took-too-long',
    title: `the clients that wait while the stream is broken are told that the time is up (${from.name})`,
    from: broken(from, [retry()]),
    on: timeIsUp('call'),
    state: cancelling(refused('timeout')),
    effects: [
      tellEnd([9], refused('timeout')),
      tellEnd([7], refused('timeout')),
      ...cancel(...('open' in from ? from.open : [])),
    ],
  })),
  ...(['call', 'park'] as const).map((timer) => ({
    rule: 'client-away-too-long',
    title: `a client whose retry waits for the stream came in time: it is told that the time is up (${timer})`,
    from: broken(parked(), [retry([env])]),
    on: timeIsUp(timer),
    state: cancelling(refused('timeout')),
    effects: [tellEnd([9], refused('timeout')), ...cancel(env)],
  })),
  {
    rule: 'grace-over',
    title: 'the grace is over: the stream is closed and the session not used again',
    from: cancelling(cancelled),
    on: { type: 'ended' },
    state: done(cancelled),
    effects: [free(false), armRedeliver],
  },
  {
    rule: 'finished-after-cancel',
    title: 'a late outcome is ignored, but shows that the session is free',
    from: cancelling(cancelled),
    on: ended,
    state: done(cancelled),
    effects: [free(true), armRedeliver],
  },
  {
    rule: 'stream-lost-after-cancel',
    title: 'the stream of the cancelled call is gone',
    from: cancelling(expired),
    on: { type: 'lost' },
    state: done(expired),
    effects: [free(false), armRedeliver],
  },
];

const LIVE: readonly Live[] = [running(), gathering(), answering(), parked(), idle()];

const BREAKING: readonly Case[] = [
  ...LIVE.map((from) => ({
    rule: 'stream-broken',
    title: `a stream that broke is resumed, and what was ${from.name} is remembered`,
    from,
    on: { type: 'interrupted' } as const,
    state: broken(from),
    effects: [],
  })),
  ...LIVE.map((interrupted) => ({
    rule: 'stream-resumed',
    title: `the stream is back: the call is ${interrupted.name} as before`,
    from: broken(interrupted),
    on: { type: 'resumed' } as const,
    state: interrupted,
    effects: [],
  })),
  {
    rule: 'stream-resumed',
    title: 'retries that waited for the stream are looked at now',
    from: broken(parked(), [retry([env])]),
    on: { type: 'resumed' },
    state: parked(),
    effects: [retryWaiting(retry([env]))],
  },
  ...[gathering(), answering(), idle()].map((from) => ({
    rule: 'retry-awaits-stream',
    title: `a retry waits for the stream of a call that is ${from.name}`,
    from: broken(from),
    on: retry([], { leg: 10, answersDigest: 'changed' }),
    state: broken(from, [retry([], { leg: 10, answersDigest: 'changed' })]),
    effects: [],
  })),
  {
    rule: 'retry-awaits-stream',
    title: 'a retry waits for the stream, its answers are not risked',
    from: broken(parked()),
    on: retry([env]),
    state: broken(parked(), [retry([env])]),
    effects: [],
  },
  {
    rule: 'retry-awaits-stream',
    title: 'other answers on a used pointer wait as well, to be refused later',
    from: broken(running()),
    on: retry([], { round: 2, answersDigest: 'changed' }),
    state: broken(running(), [retry([], { round: 2, answersDigest: 'changed' })]),
    effects: [],
  },
  {
    rule: 'stream-lost',
    title: 'the stream is gone: every leg is told that the call is lost',
    from: running({ legs: [7, 8] }),
    on: { type: 'lost' },
    state: done(lost),
    effects: [free(false), tellEnd([7, 8], lost), armRedeliver],
  },
  {
    rule: 'stream-lost',
    title: 'what was gathered is lost with it',
    from: gathering(),
    on: { type: 'lost' },
    state: done(lost),
    effects: [free(false), tellEnd([7], lost), armRedeliver],
  },
  {
    rule: 'stream-lost',
    title: 'so are answers on their way',
    from: answering(),
    on: { type: 'lost' },
    state: done(lost, { round: 4, consumed: CONSUMED_NOW }),
    effects: [free(false), tellEnd([9], lost), armRedeliver],
  },
  ...[parked(), idle()].map((from) => ({
    rule: 'stream-lost',
    title: `a call that is ${from.name} is lost, which the next retry is told`,
    from,
    on: { type: 'lost' } as const,
    state: done(lost),
    effects: [free(false), armRedeliver],
  })),
  {
    rule: 'stream-lost',
    title: 'the broken stream cannot be resumed: those that wait are told',
    from: broken(parked(), [retry()]),
    on: { type: 'lost' },
    state: done(lost),
    effects: [free(false), tellEnd([9], lost), armRedeliver],
  },
  {
    rule: 'finished',
    title: 'an outcome by another way ends the call for those that wait',
    from: broken(running()),
    on: ended,
    state: done(finished),
    effects: [free(true), tellEnd([7], finished), armRedeliver],
  },
  {
    rule: 'finished-while-parked',
    title: 'a retry that waits is given the outcome of a call that was parked',
    from: broken(parked(), [retry()]),
    on: ended,
    state: settled(),
    effects: [free(true), retryWaiting(retry())],
  },
  {
    rule: 'first-question',
    title: 'a request by another way opens the window',
    from: broken(running()),
    on: asked(env),
    state: broken(gathering()),
    effects: [armGather()],
  },
  {
    rule: 'question-withdrawn-while-parked',
    title: 'a request is taken back by another way',
    from: broken(parked()),
    on: withdrawn(env),
    state: broken(idle()),
    effects: [],
  },
  {
    rule: 'answers-taken',
    title: 'answers that were taken while the stream broke stay taken',
    from: broken(answering()),
    on: { type: 'posted' },
    state: broken(running({ round: 4, legs: [9], consumed: CONSUMED_NOW })),
    effects: [],
  },
  {
    rule: 'answers-round-limit-reached',
    title: 'what is missing is not asked in a round too many, here neither',
    from: broken(answering({ round: 11, missing: [size] })),
    on: { type: 'posted' },
    state: cancelling(refused('too_many_rounds'), { round: 11, consumed: CONSUMED_NOW }),
    effects: [tellEnd([9], refused('too_many_rounds')), ...cancel(size)],
  },
  {
    rule: 'answers-refused',
    title: 'answers that were refused while the stream broke may be given again',
    from: broken(answering()),
    on: postRefused('unreachable'),
    state: broken(parked()),
    effects: [tell([9], { type: 'unreachable' }), armPark],
  },
  {
    rule: 'session-forgotten',
    title: 'a session that is forgotten needs no stream',
    from: broken(answering()),
    on: postRefused('sessionGone'),
    state: done(lost, { round: 4, consumed: CONSUMED_NOW }),
    effects: [free(false), tellEnd([9], lost), armRedeliver],
  },
  {
    rule: 'questions-shown',
    title: 'what was gathered is asked although the stream is broken',
    from: broken(gathering()),
    on: gathered(),
    state: broken(parked()),
    effects: [ask([7], 3, [env]), armPark],
  },
  {
    rule: 'no-room-to-park',
    title: 'if there is no room the call ends, and a retry that waits is looked at',
    from: broken(gathering(), [retry()]),
    on: gathered(false),
    state: cancelling(refused('too_many_parked_calls')),
    effects: [
      tellEnd([7], refused('too_many_parked_calls')),
      ...cancel(env),
      retryWaiting(retry()),
    ],
  },
  {
    rule: 'urls-required',
    title: 'URLs to visit that come by another way are asked for',
    from: broken(running()),
    on: urlsRequired(),
    state: suspended({ open: [login, terms] }),
    effects: [ask([7], 3, [login, terms]), armPark],
  },
  {
    rule: 'urls-required',
    title: 'or refused, if there is no room',
    from: broken(running()),
    on: urlsRequired(false),
    state: done(refused('too_many_parked_calls')),
    effects: [free(true), tellEnd([7], refused('too_many_parked_calls')), armRedeliver],
  },
];

const STOPPING: readonly Case[] = [
  {
    rule: 'cancelled-on-drain',
    title: 'the process stops: the leg is told, the server too',
    from: running(),
    on: drain(),
    state: cancelling(refused('draining')),
    effects: [tellEnd([7], refused('draining')), ...cancel()],
  },
  {
    rule: 'cancelled-on-drain',
    title: 'what was gathered is closed out',
    from: gathering(),
    on: drain(),
    state: cancelling(refused('draining')),
    effects: [tellEnd([7], refused('draining')), ...cancel(env)],
  },
  {
    rule: 'cancelled-on-drain',
    title: 'answers on their way go on',
    from: answering({ missing: [size] }),
    on: drain(),
    state: cancelling(refused('draining'), { round: 4, consumed: CONSUMED_NOW }),
    effects: [tellEnd([9], refused('draining')), ...cancel(size)],
  },
  {
    rule: 'cancelled-on-drain',
    title: 'what is parked is closed out',
    from: parked(),
    on: drain(),
    state: cancelling(refused('draining')),
    effects: [...cancel(env)],
  },
  {
    rule: 'cancelled-on-drain',
    title: 'what has nothing to ask is just stopped',
    from: idle(),
    on: drain(),
    state: cancelling(refused('draining')),
    effects: cancel(),
  },
  {
    rule: 'cancelled-on-drain',
    title: 'the process stops while the stream is broken: all that wait are told',
    from: broken(gathering(), [retry()]),
    on: drain(),
    state: cancelling(refused('draining')),
    effects: [tellEnd([9], refused('draining')), tellEnd([7], refused('draining')), ...cancel(env)],
  },
  ...(['drain', 'evict'] as const).map((type): Case => ({
    rule: type === 'drain' ? 'end-lost-on-drain' : 'end-evicted',
    title: 'the outcome that waits is lost',
    from: settled(),
    on: type === 'drain' ? drain() : { type },
    state: done(lost),
    effects: [armRedeliver],
  })),
  {
    rule: 'end-lost-on-drain',
    title: 'URLs that wait are lost, and the session is freed',
    from: suspended(),
    on: drain(),
    state: done(lost),
    effects: [free(true), armRedeliver],
  },
];

const left: CallEnd = { type: 'left' };

const LETTING_GO: readonly Case[] = [
  {
    rule: 'left-on-drain',
    title: 'what another replica can resume is left to it: the client is asked',
    from: gathering({ open: [env, size] }),
    on: drain(true),
    state: done(left),
    effects: [ask([7], 3, [env, size]), leave, armRedeliver],
  },
  {
    rule: 'left-on-drain',
    title: 'a client that waits for the outcome is told to retry',
    from: running(),
    on: drain(true),
    state: done(left),
    effects: [ask([7], 3, []), leave, armRedeliver],
  },
  {
    rule: 'left-on-drain',
    title: 'nobody waits for a parked call',
    from: parked(),
    on: drain(true),
    state: done(left),
    effects: [leave, armRedeliver],
  },
  {
    rule: 'left-on-drain',
    title: 'or for one whose questions were taken back',
    from: idle(),
    on: drain(true),
    state: done(left),
    effects: [leave, armRedeliver],
  },
  ...[parked(), idle()].map((from) => ({
    rule: 'left-on-drain',
    title: `a call that is ${from.name} is left although its stream is being resumed`,
    from: broken(from),
    on: drain(true),
    state: done(left),
    effects: [leave, armRedeliver],
  })),
  {
    rule: 'left-on-drain',
    title: 'a retry that waits for the stream is told to retry, with the same answers',
    from: broken(gathering(), [retry([env])]),
    on: drain(true),
    state: done(left),
    effects: [ask([7], 3, [env]), tellEnd([9], left), leave, armRedeliver],
  },
  {
    rule: 'end-kept-on-drain',
    title: 'an outcome that another replica can find is left to it',
    from: settled(),
    on: drain(true),
    state: done(left),
    effects: [armRedeliver],
  },
  {
    rule: 'end-kept-on-drain',
    title: 'URLs that another replica can have visited are left to it, and the session is freed',
    from: suspended(),
    on: drain(true),
    state: done(left),
    effects: [free(true), armRedeliver],
  },
];

const RELEASED: readonly Case[] = [
  {
    rule: 'released',
    title: 'a parked call that the server keeps is left at once',
    from: parked(),
    on: { type: 'released' },
    state: done(left),
    effects: [leave, armRedeliver],
  },
  {
    rule: 'released',
    title: 'a retry that waits for its stream is told to retry, with the same answers',
    from: broken(parked(), [retry([env])]),
    on: { type: 'released' },
    state: done(left),
    effects: [tellEnd([9], left), leave, armRedeliver],
  },
];

/** In each state in which the server may still be at work. */
const TAKEN_OVER: readonly Case[] = [
  [running(), [7]] as const,
  [gathering(), [7]] as const,
  [answering(), [9]] as const,
  [parked(), []] as const,
  [idle(), []] as const,
  [broken(running(), [retry()]), [7, 9]] as const,
].map(([from, legs]) => ({
  rule: 'taken-over',
  title: 'the waiting clients are told to retry, and the server is told nothing',
  from,
  on: { type: 'takenOver' },
  state: done(left, from.name === 'answering' ? { round: 4, consumed: CONSUMED_NOW } : {}),
  effects: [...(legs.length > 0 ? [tellEnd(legs, left)] : []), leave, armRedeliver],
}));

const SHUT_OUT: readonly Case[] = TAKEN_OVER.map(({ from, state, effects }) => ({
  rule: 'credentials-refused',
  title:
    'the waiting clients are told that the credentials were refused, and the server is told nothing',
  from,
  on: { type: 'shutOut' },
  state,
  effects: effects.map((effect) =>
    effect.do === 'reply' ? { ...effect, reply: { type: 'unauthorized' } } : effect,
  ),
}));

const LEFT_TO_OWNER: readonly Case[] = TAKEN_OVER.map((one) => ({
  ...one,
  rule: 'left-to-owner',
  on: { type: 'ownerReads' },
}));

const HOLDING: readonly Case[] = [
  {
    rule: 'asker-stopped',
    title: 'a client that waits over a replica that stops retries elsewhere',
    from: running(),
    on: { type: 'askerStops' },
    state: idle(),
    effects: [ask([7], 3, []), armPark],
  },
  {
    rule: 'client-held',
    title: 'a client that has waited for as long as one reply may take is told to retry',
    from: running(),
    on: { type: 'holdOver', mayPark: true },
    limits: { maxHoldMs: 60_000 },
    state: idle(),
    effects: [ask([7], 3, []), armPark],
  },
  ...[null, 0, 60_000].map((maxHoldMs): Case => ({
    rule: 'client-held-on',
    title: `a client waits on while no further call may be parked (${maxHoldMs} ms)`,
    from: running(),
    on: { type: 'holdOver', mayPark: false },
    limits: { maxHoldMs },
    state: running(),
    effects: [{ do: 'arm', timer: 'hold', afterMs: Math.max(maxHoldMs ?? 0, 1_000) }],
  })),
];

const TASKS: readonly Case[] = [
  ...[running(), gathering(), answering(), parked(), idle(), settled(), suspended()].map(
    (state): Case => ({
      rule: 'given-to-task',
      title: `a task waits for the call, which lives as long as the task (${state.name})`,
      from: state,
      on: { type: 'givenToTask', leftMs: 86_400_000 },
      state,
      effects: [arm('call', 86_400_000)],
    }),
  ),
];

const GROUPS = {
  'the server asks': ASKING,
  'the server takes a request back': WITHDRAWING,
  'the server finishes': FINISHING,
  'the client retries': RETRYING,
  'the client repeats itself, or does not': REPEATING,
  'the server wants URLs visited': URLS,
  'the client leaves': LEAVING,
  'time is up': DEADLINES,
  'the stream breaks': BREAKING,
  'the process stops, or a replay takes the place': STOPPING,
  'the process stops, and the server keeps the call': LETTING_GO,
  'a parked call is released': RELEASED,
  'another replica continued the call': TAKEN_OVER,
  'the owner may read the stream': LEFT_TO_OWNER,
  'the server refuses the credentials to read on with': SHUT_OUT,
  'one answer takes long': HOLDING,
  'a task waits for the call': TASKS,
};
const CASES = Object.values(GROUPS).flat();

test('a call begins with its first leg waiting and two deadlines', () => {
  expect(begin(7, LIMITS)).toEqual({
    state: running({ round: 1, consumed: null }),
    effects: [armRun, arm('call', 3_600_000)],
  });
});

test('a replayed call begins in the round after that of the retry', () => {
  expect(begin(9, LIMITS, CONSUMED_NOW).state).toEqual(
    running({ round: 4, legs: [9], consumed: CONSUMED_NOW }),
  );
});

test('a reattached call begins with its stream broken, and its questions with the client', () => {
  const { state, effects } = adopt(3, [env], LIMITS);
  expect(state).toEqual(broken(parked({ consumed: null })));
  expect(effects).toEqual([armPark, arm('call', 3_600_000)]);
  expect(adopt(3, [], LIMITS).state).toEqual(broken(idle({ consumed: null })));
});

describe('with a limit on how long one response may take', () => {
  const limits = { ...LIMITS, maxHoldMs: 60_000 };
  const armHold = arm('hold', 60_000);

  test('it counts from the beginning', () => {
    expect(begin(7, limits).effects).toContainEqual(armHold);
  });

  test.each([
    ['the last question is taken back', gathering(), withdrawn(env)],
    ['the answers are upstream', answering(), { type: 'posted' } as const],
    ['the stream is back', broken(running()), { type: 'resumed' } as const],
    ['the client comes again', idle(), retry()],
  ])('and begins again when %s', (_when, from, on) => {
    const moved = step(from, on, limits);
    expect(moved.state.name).toBe('running');
    expect(moved.effects).toContainEqual(armHold);
  });

  // Rule time-and-room-3.
  test('it does not count when the rounds are used up: the client waits to the end', () => {
    for (const mayPark of [true, false]) {
      expect(step(running({ round: 11 }), { type: 'holdOver', mayPark }, limits).row).toBeNull();
    }
  });
});

describe.each(Object.entries(GROUPS))('%s', (_group, cases) => {
  test.each(cases)('$rule: $title', ({ rule, from, on, limits, state, effects }) => {
    const moved = step(from, on, { ...LIMITS, ...limits });
    expect(moved.row?.rule).toBe(rule);
    expect(moved.state).toEqual(state);
    expect(moved.effects).toEqual(effects);
  });
});

describe('the table', () => {
  test('names each rule once', () => {
    const rules = TRANSITIONS.map((row) => row.rule);
    expect(rules).toEqual([...new Set(rules)]);
  });

  test.each(TRANSITIONS)('has a case here for every state that rule $rule leads from', (row) => {
    const covered = CASES.filter((one) => one.rule === row.rule).map((one) => one.from.name);
    expect([...new Set(covered)].sort()).toEqual([...row.from].sort());
  });

  test.each(TRANSITIONS)('has a case here for every state that rule $rule leads to', (row) => {
    const covered = CASES.filter((one) => one.rule === row.rule);
    expect([...new Set(covered.map((one) => one.state.name))].sort()).toEqual([...row.to].sort());
    if (String(row.from) !== String(row.to)) return;
    for (const one of covered) expect(one.state.name, 'each one stays').toBe(one.from.name);
  });

  // Rule laws-1.
  test('gives every state a deadline', () => {
    for (const timers of Object.values(TIMERS)) expect(timers).not.toEqual([]);
  });
});

describe('what no row mentions changes nothing', () => {
  const EVENTS: Readonly<Record<EventName, CallEvent>> = {
    asked: asked(color),
    withdrawn: withdrawn(env),
    outcome: ended,
    urlsRequired: urlsRequired(),
    gathered: gathered(),
    retry: retry(),
    posted: { type: 'posted' },
    postRefused: postRefused('unreachable'),
    legClosed: legClosed(7),
    expired: timeIsUp('call'),
    interrupted: { type: 'interrupted' },
    resumed: { type: 'resumed' },
    lost: { type: 'lost' },
    ended: { type: 'ended' },
    drain: drain(),
    takenOver: { type: 'takenOver' },
    ownerReads: { type: 'ownerReads' },
    released: { type: 'released' },
    askerStops: { type: 'askerStops' },
    operatorStops: { type: 'operatorStops' },
    givenToTask: { type: 'givenToTask', leftMs: 1_000 },
    shutOut: { type: 'shutOut' },
    holdOver: { type: 'holdOver', mayPark: true },
    evict: { type: 'evict' },
  };
  const NEVER_NEWS: readonly EventName[] = [
    'posted',
    'postRefused',
    'gathered',
    'resumed',
    'ended',
  ];
  const HELD: readonly EventName[] = ['holdOver', 'askerStops'];
  const LEAVING: readonly EventName[] = ['takenOver', 'ownerReads', 'shutOut'];
  const OVER: readonly EventName[] = [
    ...(['asked', 'withdrawn', 'interrupted', 'legClosed', 'released'] as const),
    ...HELD,
    ...LEAVING,
  ];
  const IGNORED: Readonly<Record<StateName, readonly EventName[]>> = {
    running: ['withdrawn', 'evict', 'released', 'operatorStops', ...NEVER_NEWS],
    gathering: [
      ...(['evict', 'released', 'operatorStops'] as const),
      ...HELD,
      ...NEVER_NEWS.filter((event) => event !== 'gathered'),
    ],
    answering: ['gathered', 'resumed', 'ended', 'evict', 'released', 'operatorStops', ...HELD],
    parked: ['legClosed', 'evict', ...HELD, ...NEVER_NEWS],
    idle: ['withdrawn', 'legClosed', 'evict', 'released', ...HELD, ...NEVER_NEWS],
    settled: ['outcome', 'urlsRequired', 'lost', ...OVER, ...NEVER_NEWS],
    suspended: ['outcome', 'urlsRequired', 'lost', 'evict', ...OVER, ...NEVER_NEWS],
    cancelling: [
      ...(['urlsRequired', 'expired', 'drain', 'evict', 'givenToTask', 'operatorStops'] as const),
      ...OVER,
      ...NEVER_NEWS.filter((event) => event !== 'ended'),
    ],
    done: [
      ...(['outcome', 'urlsRequired', 'expired', 'lost', 'drain', 'evict'] as const),
      ...(['givenToTask', 'operatorStops'] as const),
      ...OVER,
      ...NEVER_NEWS,
    ],
  };
  const STATES: readonly CallState[] = [
    ...LIVE.map((state) => ('legs' in state ? { ...state, legs: [7] } : state)),
    settled(),
    suspended(),
    cancelling(cancelled),
    done(finished),
  ];

  test.each(STATES)('and in $name that is exactly what is listed here', (state) => {
    const ignored = Object.values(EVENTS).filter((event) => {
      const moved = step(state, event, LIMITS);
      if (moved.row !== null) return false;
      expect(moved).toEqual({ state, effects: [], row: null });
      return true;
    });
    expect(ignored.map((event) => event.type).sort()).toEqual([...IGNORED[state.name]].sort());
  });

  test.each(LIVE)('while the stream of a call that is $name is broken', (live) => {
    const state = broken('legs' in live ? { ...live, legs: [7] } : live);
    const ignored = Object.values(EVENTS).filter(
      (event) => step(state, event, LIMITS).row === null,
    );
    const unseen = [...HELD, 'interrupted', 'operatorStops'] as const;
    const expected = new Set<EventName>([...IGNORED[live.name], ...unseen]);
    expected.delete('resumed');
    expect(ignored.map((event) => event.type).sort()).toEqual([...expected].sort());
  });

  test('a leg that does not wait here may close', () => {
    for (const state of [running(), answering(), broken(running()), broken(parked())]) {
      expect(step(state, legClosed(99), LIMITS).row).toBeNull();
    }
  });

  test('the time for work does not end a call that was parked while its stream broke', () => {
    expect(step(broken(parked()), timeIsUp('run'), LIMITS).row).toBeNull();
  });
});
