/**
 * The vocabulary of the parked-call machine: its states, the events that move it, and the effects it
 * asks for. Data only; what leads from where to where is in `table.ts`.
 */
import type { InputKey, ServerRequestId } from '../../protocol/ids.ts';
import type { UpstreamLimit } from '../../model/upstream-failure.ts';
import type { CallOutcome, Failure, RefusalReason } from '../../model/request.ts';

/** One HTTP request of the client that waits for this call: the first request, or a retry. */
export type WaiterId = number;

/** An input request of the legacy server that has no answer yet. */
export interface OpenRequest {
  readonly key: InputKey;
  /** Its JSON-RPC id upstream; `null` when the call is made after its answer: a URL (error -32042), or the roots. */
  readonly id: ServerRequestId | null;
}

/** The retry that was accepted last, by which its exact repetition is recognised. */
export interface ConsumedRetry {
  readonly round: number;
  readonly answersDigest: string;
}

/** How a call was lost. */
interface Loss {
  /** Whether another reader has the stream, or another process the session: the server goes on with the call for that one. */
  readonly isElsewhere: boolean;
  /** The limit that a message of the server exceeded, if the call was lost with it. */
  readonly exceeds: UpstreamLimit | null;
}

/** How a call ended. */
export type CallEnd =
  | { readonly type: 'outcome'; readonly outcome: CallOutcome }
  | { readonly type: 'declined' }
  | ({ readonly type: 'lost' } & Loss)
  | { readonly type: 'cancelled' }
  /** The exchange goes on upstream, for whichever replica takes it up. */
  | { readonly type: 'left' }
  | { readonly type: 'expired' }
  /** The operator cancelled it. */
  | { readonly type: 'stopped' }
  | { readonly type: 'refused'; readonly reason: RefusalReason };

/** How many rounds a call has had, at all processes together. */
export interface RoundsSoFar {
  /** The number of the `InputRequiredResult` that is the newest, or the next; the first is 1. */
  readonly round: number;
  /** How many of them had no question. They are counted apart: clients stand few, and the server asked nothing. */
  readonly stateOnly: number;
}

/** What every state has in which the exchange with the server goes on. */
interface Exchanging extends RoundsSoFar {
  readonly consumed: ConsumedRetry | null;
  /** `broken`: the stream from the server is lost and is being resumed. */
  readonly stream: 'open' | 'broken';
  /** Retries that came while the stream is broken; they are looked at when it is back. */
  readonly waiting: readonly RetryEvent[];
}

/** A client is connected. `round` is the number of the next `InputRequiredResult`. */
interface Attached extends Exchanging {
  readonly waiters: readonly WaiterId[];
}

/** No client is connected, and the exchange is over. `round` is that whose pointer the client holds. */
interface Over {
  readonly round: number;
  readonly consumed: ConsumedRetry | null;
}

// What each state means is in `STATE_MEANINGS` below.

type Running = Attached & { readonly name: 'running' };

type Batching = Attached & {
  readonly name: 'batching';
  readonly open: readonly OpenRequest[];
  /** When the first of `open` came; `null` if all came before the retry, and are asked again. */
  readonly sinceMs: number | null;
  /** Whether it has kept its place among the parked calls, since some are asked again. */
  readonly hasPlace: boolean;
};

type Answering = Attached & {
  readonly name: 'answering';
  readonly consumed: ConsumedRetry;
  /** The retry accepted before this one; it is the last again if the server refuses the answers. */
  readonly before: ConsumedRetry | null;
  readonly posting: readonly OpenRequest[];
  /** Asked before the retry, and not answered by it. */
  readonly missing: readonly OpenRequest[];
  /** Asked since the retry came. */
  readonly arrived: readonly OpenRequest[];
  /** When the first of `arrived` came; without meaning while there is none. */
  readonly arrivedSinceMs: number;
};

type Parked = Exchanging & { readonly name: 'parked'; readonly open: readonly OpenRequest[] };

type RunningDetached = Exchanging & { readonly name: 'runningDetached' };

type ResultReady = Over & { readonly name: 'resultReady'; readonly outcome: CallOutcome };

type Suspended = Over &
  RoundsSoFar & {
    readonly name: 'suspended';
    readonly open: readonly OpenRequest[];
  };

type Cancelling = Over & { readonly name: 'cancelling'; readonly end: CallEnd };

/** Its record stays for a while so that the last retry can be repeated. */
type Done = Over & { readonly name: 'done'; readonly end: CallEnd };

/** The exchange with the server goes on. */
export type Live = Running | Batching | Answering | Parked | RunningDetached;

export type CallState = Live | ResultReady | Suspended | Cancelling | Done;
export type StateName = CallState['name'];
export type StateNamed<Name extends StateName> = Extract<CallState, { name: Name }>;

export const STATE_MEANINGS: Readonly<Record<StateName, string>> = {
  running: 'A client waits, and the server works.',
  batching: 'Questions have come; the call waits a moment for others that come together with them.',
  answering: 'A retry was accepted, and its answers are on their way to the server.',
  parked: 'The client has the questions. Nobody is connected, and the server waits.',
  runningDetached:
    'As parked, but there is nothing to answer: the server took its questions back, or the client was told to retry later.',
  resultReady:
    'The server ended the call while no client was connected. The outcome waits for the retry.',
  suspended:
    'The server has no call: it ended it and wants URLs visited first (-32042), or gets it with the roots of the client. The retry makes the call.',
  cancelling: 'The server was told to stop. Its stream can still end by itself.',
  done: 'Over. The outcome is kept for a while, for a retry that is repeated.',
};

export interface RetryEvent {
  readonly type: 'retry';
  readonly waiter: WaiterId;
  /** The round that the opened pointer names. */
  readonly round: number;
  readonly answersDigest: string;
  /** Keys of open requests that the retry answers. */
  readonly answered: readonly InputKey[];
  /** Keys of open requests that this client request does not declare the capability for. */
  readonly uncovered: readonly InputKey[];
  /** True when an answer says no to a URL that the server insists on. */
  readonly declined: boolean;
}

export type CallEvent =
  | { readonly type: 'asked'; readonly request: OpenRequest; readonly atMs: number }
  | { readonly type: 'withdrawn'; readonly id: ServerRequestId }
  /** `clean`: the server has done with the call, so that its session can be used for others. */
  | { readonly type: 'outcome'; readonly outcome: CallOutcome; readonly clean: boolean }
  | {
      readonly type: 'asksFirst';
      readonly requests: readonly OpenRequest[];
      readonly mayPark: boolean;
    }
  | { readonly type: 'batched'; readonly mayPark: boolean }
  | RetryEvent
  | { readonly type: 'posted' }
  | {
      readonly type: 'postRefused';
      /** What the client is told. */
      readonly failure: Failure;
      /** The answers that the server had taken before it refused. */
      readonly accepted: readonly ServerRequestId[];
    }
  | { readonly type: 'sessionGone' }
  | { readonly type: 'waiterClosed'; readonly waiter: WaiterId }
  | { readonly type: 'expired'; readonly timer: 'run' | 'park' | 'call' }
  | { readonly type: 'holdOver'; readonly mayPark: boolean }
  | { readonly type: 'operatorStops' }
  | { readonly type: 'requesterStops' }
  /** `leftMs`: how long the task lives yet. */
  | { readonly type: 'givenToTask'; readonly leftMs: number }
  | { readonly type: 'interrupted' }
  | { readonly type: 'resumed' }
  | ({ readonly type: 'lost' } & Loss)
  | { readonly type: 'ended' }
  /** `outlivesProcess`: another process could go on with the call. */
  | { readonly type: 'drain'; readonly outlivesProcess: boolean }
  | { readonly type: 'shutOut'; readonly failure: Failure }
  | { readonly type: 'released' }
  | { readonly type: 'takenOver' }
  | { readonly type: 'ownerReads' }
  | { readonly type: 'evict' };
export type EventName = CallEvent['type'];

export const EVENT_MEANINGS: Readonly<Record<EventName, string>> = {
  asked: 'The server asks something.',
  withdrawn: 'The server takes a question back.',
  outcome:
    'The server ends the call with a result or an error, or the gateway does, since the call failed.',
  asksFirst:
    'The server ends the call with an error that names URLs to visit first (-32042), or the client is asked for its roots before the call is made.',
  batched: 'No more questions came within the moment.',
  retry: 'The client comes back with a `requestState`.',
  posted: 'The server has taken the answers.',
  postRefused: 'The server has not taken the answers.',
  sessionGone: 'The server does not know the session in which it was to take answers.',
  waiterClosed: 'A client that waited is gone.',
  expired: 'A time limit is over.',
  holdOver: 'A client has waited for as long as `calls.maxHold` allows.',
  operatorStops: 'The operator cancels the call.',
  requesterStops:
    'The replica that relayed the retry stops, and its client has to retry elsewhere.',
  givenToTask: 'A task waits for the call from here on.',
  interrupted: 'The stream from the server broke and can be resumed.',
  resumed: 'The stream is back.',
  lost: 'The stream is gone for good.',
  ended: 'The time that a cancelled call has to end by itself is over.',
  drain: 'The process stops.',
  released: '`parking.release` leaves a parked call to the server, which keeps it.',
  takenOver: 'Another replica holds the call now.',
  ownerReads: 'The server refuses the stream, and the owner may be its reader.',
  shutOut: 'The server refuses the credentials with which the stream is to be resumed.',
  evict: 'A replay takes its place, or its owner may still live.',
};

export type EventNamed<Name extends EventName> = Extract<CallEvent, { type: Name }>;

/** What a waiting waiter is told. */
export type WaiterReply =
  | { readonly type: 'end'; readonly end: CallEnd }
  | ({ readonly type: 'inputRequired'; readonly keys: readonly InputKey[] } & RoundsSoFar)
  | { readonly type: 'sameInputRequired' }
  | { readonly type: 'invalidRequestState'; readonly reason: 'consumed' | 'ended' | 'expired' }
  | { readonly type: 'missingCapability'; readonly keys: readonly InputKey[] }
  | { readonly type: 'failed'; readonly failure: Failure };

export type TimerName = 'batch' | 'hold' | 'run' | 'park' | 'call' | 'grace' | 'redeliver';

export const TIMER_MEANINGS: Readonly<Record<TimerName, string>> = {
  batch: 'a moment for questions that come together',
  hold: '`calls.maxHold`',
  run: '`calls.maxDuration`',
  park: '`parking.ttl`',
  call: '`parking.callTtl`',
  grace: 'a grace of 2 s',
  redeliver: '2 min, or `parking.ttl` for a call that the operator cancelled',
};

export type Effect =
  | { readonly do: 'reply'; readonly waiters: readonly WaiterId[]; readonly reply: WaiterReply }
  | { readonly do: 'post'; readonly waiter: WaiterId; readonly requests: readonly OpenRequest[] }
  | { readonly do: 'callAgain'; readonly waiter: WaiterId }
  /** The server has ended the call: what it left open is answered, so that nothing waits there. */
  | { readonly do: 'cancelOpenQuestions'; readonly requests: readonly OpenRequest[] }
  /** The server is told to stop. These requests are answered only when it has taken that. */
  | { readonly do: 'cancelUpstream'; readonly open: readonly OpenRequest[] }
  /** The exchange is over: free what it holds. `clean` says that the server had finished with it. */
  | { readonly do: 'free'; readonly clean: boolean }
  /** The exchange goes on without us: free what is here and tell the server nothing. */
  | { readonly do: 'leave' }
  | { readonly do: 'retryWaiting'; readonly retries: readonly RetryEvent[] }
  | { readonly do: 'arm'; readonly timer: TimerName; readonly afterMs: number };

export interface Step<State extends CallState = CallState> {
  readonly state: State;
  readonly effects: readonly Effect[];
}

/** A step that leads to one of the states of these names. */
export type StepTo<Name extends StateName> = Step<StateNamed<Name>>;

/** All durations in milliseconds. */
export interface CallLimits {
  readonly batchWindowMs: number;
  readonly batchLimitMs: number;
  readonly maxDurationMs: number;
  /** How long a client waits for one reply before it is told to retry; `null`: without a limit. */
  readonly maxHoldMs: number | null;
  readonly parkTtlMs: number;
  readonly callTtlMs: number;
  readonly cancelGraceMs: number;
  readonly redeliverMs: number;
  /** How many rounds with questions a call can have. */
  readonly maxRounds: number;
  /** How many rounds without a question its client stands. */
  readonly maxStateOnly: number;
  /** How many rounds of both kinds its client stands. */
  readonly clientRounds: number;
  /** Whether the call becomes a task, in place of a round without a question, when its client has waited for `maxHoldMs`. */
  readonly becomesTask: boolean;
  /** How many questions a client is shown together. The others wait for the next round. */
  readonly maxShownQuestions: number;
  readonly maxOpenQuestions: number;
}

/**
 * Which timers may run in a state; each state has one, so that nothing waits without a bound. While its
 * stream is broken, how long one answer may take does not count (see `timersOf`).
 */
export const TIMERS: Readonly<Record<StateName, readonly TimerName[]>> = {
  running: ['hold', 'run', 'call'],
  batching: ['batch', 'run', 'call'],
  answering: ['run', 'call'],
  parked: ['park', 'call'],
  runningDetached: ['park', 'call'],
  resultReady: ['park', 'call'],
  suspended: ['park', 'call'],
  cancelling: ['grace'],
  done: ['redeliver'],
};
