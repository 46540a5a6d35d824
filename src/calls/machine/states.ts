/**
 * The vocabulary of the parked-call machine: its states, the events that move it, and the effects it
 * asks for. Data only; what leads from where to where stands in `transitions.ts`.
 */
import type { InputKey, ServerRequestId } from '../../protocol/ids.ts';
import type { CallOutcome, RefusalReason } from '../../model/outcome.ts';

/** One HTTP request of the client that waits for this call: the first request, or a retry. */
export type LegId = number;

/** An input request that the legacy server sent and that nobody has answered yet. */
export interface OpenRequest {
  readonly key: InputKey;
  /** Its JSON-RPC id upstream; `null` when the server ended the call with it (error -32042). */
  readonly id: ServerRequestId | null;
}

/** The retry that was accepted last, by which its exact repetition is recognised. */
export interface ConsumedRetry {
  readonly round: number;
  readonly answersDigest: string;
}

/** How a call ended. */
export type CallEnd =
  | { readonly type: 'outcome'; readonly outcome: CallOutcome }
  | { readonly type: 'declined' }
  | { readonly type: 'lost' }
  | { readonly type: 'cancelled' }
  /** The exchange goes on upstream, for whichever replica takes it up. */
  | { readonly type: 'left' }
  | { readonly type: 'expired' }
  | { readonly type: 'refused'; readonly reason: RefusalReason };

interface Attached {
  /** The number of the next `InputRequiredResult`; the first is 1. */
  readonly round: number;
  readonly legs: readonly LegId[];
  readonly consumed: ConsumedRetry | null;
}

interface Detached {
  /** The round whose pointer the client holds. */
  readonly round: number;
  readonly consumed: ConsumedRetry | null;
}

/** A client waits, and the legacy server works. */
export type Running = Attached & { readonly name: 'running' };

/** Input requests have come; the window for others that come together is open. */
export type Gathering = Attached & {
  readonly name: 'gathering';
  readonly open: readonly OpenRequest[];
  readonly sinceMs: number;
};

/** A retry was accepted and its answers are on their way upstream. */
export type Resuming = Attached & {
  readonly name: 'resuming';
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

/** The legacy server waits for the client; no client is connected. */
export type Parked = Detached & { readonly name: 'parked'; readonly open: readonly OpenRequest[] };

/** Parked, and the server has withdrawn every question meanwhile. */
export type Idle = Detached & { readonly name: 'idle' };

/** The server finished by itself while no client was connected; the outcome waits for the retry. */
export type Settled = Detached & { readonly name: 'settled'; readonly outcome: CallOutcome };

/** The server ended the call and wants URLs visited first (-32042); the retry makes the call anew. */
export type Suspended = Detached & {
  readonly name: 'suspended';
  readonly open: readonly OpenRequest[];
};

export type Live = Running | Gathering | Resuming | Parked | Idle;

/** The upstream stream is lost and being resumed; what was going on stands in `interrupted`. */
export interface Broken {
  readonly name: 'broken';
  readonly interrupted: Live;
  /** Retries that came meanwhile; they are looked at when the stream is back. */
  readonly waiting: readonly RetryEvent[];
}

/** The server was told to stop; its stream may still end by itself. */
export interface Cancelling {
  readonly name: 'cancelling';
  readonly round: number;
  readonly consumed: ConsumedRetry | null;
  readonly end: CallEnd;
}

/** Over. The record stays for a while so that the last retry can be repeated. */
export interface Done {
  readonly name: 'done';
  readonly round: number;
  readonly consumed: ConsumedRetry | null;
  readonly end: CallEnd;
}

export type CallState = Live | Settled | Suspended | Broken | Cancelling | Done;
export type StateName = CallState['name'];
export type StateNamed<Name extends StateName> = Extract<CallState, { name: Name }>;

export interface RetryEvent {
  readonly type: 'retry';
  readonly leg: LegId;
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
  | { readonly type: 'outcome'; readonly outcome: CallOutcome }
  | {
      readonly type: 'urlsRequired';
      readonly requests: readonly OpenRequest[];
      readonly mayPark: boolean;
    }
  | { readonly type: 'gathered'; readonly mayPark: boolean }
  | RetryEvent
  | { readonly type: 'posted' }
  | {
      readonly type: 'postRefused';
      readonly cause: 'unauthorized' | 'unreachable' | 'sessionGone';
      /** The answers that the server had taken before it refused. */
      readonly accepted: readonly ServerRequestId[];
    }
  | { readonly type: 'legClosed'; readonly leg: LegId }
  | { readonly type: 'expired'; readonly timer: 'run' | 'park' | 'call' }
  /** A client has waited for as long as one answer may take; it is to come again. */
  | { readonly type: 'held' }
  | { readonly type: 'interrupted' }
  | { readonly type: 'resumed' }
  | { readonly type: 'lost' }
  | { readonly type: 'ended' }
  /** The process stops. `resumable` says that another replica could take the exchange up. */
  | { readonly type: 'drain'; readonly resumable: boolean }
  /** The server lets nobody read on with the credentials that are here; a retry may bring others. */
  | { readonly type: 'shutOut' }
  /** Another replica holds the call now. */
  | { readonly type: 'takenOver' }
  | { readonly type: 'evict' };
export type EventName = CallEvent['type'];
export type EventNamed<Name extends EventName> = Extract<CallEvent, { type: Name }>;

/** What a waiting leg is told. */
export type LegReply =
  | { readonly type: 'end'; readonly end: CallEnd }
  | { readonly type: 'inputRequired'; readonly round: number; readonly keys: readonly InputKey[] }
  | { readonly type: 'sameInputRequired' }
  | { readonly type: 'invalidRequestState'; readonly reason: 'consumed' | 'ended' }
  | { readonly type: 'missingCapability'; readonly keys: readonly InputKey[] }
  | { readonly type: 'unauthorized' }
  | { readonly type: 'unreachable' };

export type TimerName = 'gather' | 'hold' | 'run' | 'park' | 'call' | 'grace' | 'redeliver';

export type Effect =
  | { readonly do: 'reply'; readonly legs: readonly LegId[]; readonly reply: LegReply }
  | { readonly do: 'post'; readonly leg: LegId; readonly requests: readonly OpenRequest[] }
  | { readonly do: 'callAgain'; readonly leg: LegId }
  /** The server has ended the call: what it left open is answered, so that nothing waits there. */
  | { readonly do: 'closeOut'; readonly requests: readonly OpenRequest[] }
  /** The server is told to stop. These requests are answered only when it has taken that. */
  | { readonly do: 'cancelUpstream'; readonly open: readonly OpenRequest[] }
  /** The exchange is over: free what it holds. `clean` says that the server had finished with it. */
  | { readonly do: 'release'; readonly clean: boolean }
  /** The exchange goes on without us: free what is here and tell the server nothing. */
  | { readonly do: 'leave' }
  | { readonly do: 'retryWaiting'; readonly retries: readonly RetryEvent[] }
  | { readonly do: 'arm'; readonly timer: TimerName; readonly afterMs: number };

export interface Step {
  readonly state: CallState;
  readonly effects: readonly Effect[];
}

/** All durations in milliseconds. */
export interface CallLimits {
  readonly gatherWindowMs: number;
  readonly gatherLimitMs: number;
  readonly maxDurationMs: number;
  /** How long a client waits for one answer before it is sent to come again; `null`: for ever. */
  readonly maxHoldMs: number | null;
  readonly parkTtlMs: number;
  readonly callTtlMs: number;
  readonly cancelGraceMs: number;
  readonly redeliverMs: number;
  readonly maxRounds: number;
  readonly maxInputRequestsPerRound: number;
}

/**
 * Which timers may run in a state; each state has one, so that nothing waits without a bound. In
 * `broken` those of the interrupted state run on.
 */
export const TIMERS: Readonly<Record<StateName, readonly TimerName[]>> = {
  running: ['hold', 'run', 'call'],
  gathering: ['gather', 'run', 'call'],
  resuming: ['run', 'call'],
  parked: ['park', 'call'],
  idle: ['park', 'call'],
  settled: ['park', 'call'],
  suspended: ['park', 'call'],
  broken: ['gather', 'run', 'park', 'call'],
  cancelling: ['grace'],
  done: ['redeliver'],
};
