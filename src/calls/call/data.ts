/**
 * The record of one call, and what it is for. `client.ts`, `server.ts` and `machine-runner.ts` work on it: what client
 * and server do becomes an event of the machine, and the machine has them carry out the effects.
 */
import type { Clock } from '../../lib/clock.ts';
import type { Directory } from '../../model/store.ts';
import type { HomeOwnership } from '../../model/ownership.ts';
import type { Relay } from '../../model/relay.ts';
import type {
  CallReply,
  EdgeRequest,
  Waiter,
  Promotion,
  WaitingTask,
} from '../../model/request.ts';
import type { Log } from '../../ops/log.ts';
import { type Attributes, loggedTarget } from '../../ops/tracing.ts';
import type { CallId, InputKey } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { CacheFields } from '../../protocol/translate/edge-result.ts';
import type { Pointer, PointerOwner } from '../../seal/pointer.ts';
import type { ExpectedRequest, Sealer } from '../../seal/seal.ts';
import type { SessionPool } from '../../sessions/session-pool.ts';
import type { CallEvent, CallLimits, CallState, Effect } from '../machine/states.ts';
import { Exchange } from './exchange.ts';
import { CallHistory } from './history.ts';
import type { QuestionGaps } from './limits.ts';
import { Waiters } from './waiters.ts';
import type { CallRegistry, CallUse } from '../registry.ts';
import { sha256 } from '../../lib/crypto.ts';
import { principalTag, requestDigest } from '../../seal/digests.ts';

/** What the calls of one route share. */
export interface CallServices {
  /** The id of the route. */
  readonly routeId: string;
  readonly registry: CallRegistry<CallData>;
  readonly pool: SessionPool;
  readonly sealer: Sealer;
  /** This process, as pointers name it. */
  readonly replica: PointerOwner;
  /** The name of the deployment, which its replicas share. */
  readonly audience: string;
  /** Whether another process can open our pointers, now or after a restart. */
  readonly othersCanOpenPointers: boolean;
  /** `null` if replicas share no store. */
  readonly directory: Directory | null;
  /** `null` if no store says which homes are here. */
  readonly ownership: HomeOwnership | null;
  /** `null` if replicas do not reach each other. */
  readonly relay: Relay | null;
  readonly limits: CallLimits;
  /** The longest life of a call, or of the task that waits for it, in ms. */
  readonly longestCallMs: number;
  readonly gaps: QuestionGaps;
  /** The operator's keys for the questions of each tool, in the order in which it asks. */
  readonly keyNames: Readonly<Record<string, readonly string[]>>;
  /** Who may cache a result, and for how long. */
  readonly caching: CacheFields;
  /** Whether a parked call is left at once now if the server keeps it. */
  readonly leaveWhenParked: () => boolean;
  /** Whether a tool can be called only as a legacy task, as far as its server says. Never rejects. */
  readonly demandsTask: (request: EdgeRequest) => Promise<boolean>;
  /** Decides whether and when a call becomes a task; `null` if it does not. */
  readonly promotion: (request: EdgeRequest) => Promotion | null;
  /** Whether a call whose owner is gone is resumed from the last event that was read. */
  readonly reattach: boolean;
  /** What the spans of upstream requests say of the server. */
  readonly peer: Attributes;
  /** Names a principal in the log. */
  readonly nameOf: (principal: string) => string;
  readonly clock: Clock;
  readonly log: Log;
}

/** A retry whose pointer was opened and fits the request. */
export interface Retry {
  readonly pointer: Pointer;
  readonly request: EdgeRequest;
  readonly waiter: Waiter;
  /** Whether another process relayed it: then it is not relayed to the home of its caller. */
  readonly isRelayed: boolean;
}

/** Runs the machine of one call. */
export interface CallMachine {
  /** Moves the call, after the events that came before. */
  dispatch(event: CallEvent): void;
  /** Enters the first state. */
  begin(effects: readonly Effect[]): void;
  /** Forgets a call that is over: no retry can reach it any more. */
  forget(): void;
}

/** What is known of a call when it begins in this process. */
export interface CallOrigin {
  readonly id: CallId;
  /** When the call began, here or elsewhere, in ms since the epoch. */
  readonly startedAtMs: number;
  /** Whether the operator allows that the call is replayed if it is lost. */
  readonly mayReplay: boolean;
  /** Whether another process, or an earlier attempt, had the call before. */
  readonly isContinued: boolean;
  /** Seals the outcome in the shared store; `null` if there is no store. */
  readonly outcomeKey: string | null;
  /** The `traceparent` of the first request, here or elsewhere; `null` without traces. */
  readonly firstTrace: string | null;
}

export class CallData {
  readonly origin: CallOrigin;
  readonly services: CallServices;
  readonly loggedTarget: string;
  /** Those of the route, except for tools that ask several questions apart, and for tasks. */
  limits: CallLimits;
  /** The operator's keys for the questions of this tool. */
  readonly keyNames: readonly string[];

  // The machine.

  readonly machine: CallMachine;
  /** Only the machine changes it. */
  state: CallState;
  use: CallUse = 'none';

  // The client.

  /** The request whose declarations and credentials count: that of the newest waiter that was accepted. */
  request: EdgeRequest;
  /** What pointers are bound to. It is computed from the request before its params are dropped. */
  expected: ExpectedRequest | null = null;
  readonly waiters = new Waiters();
  /** The last round; `null` before the first. */
  lastRound: {
    readonly keys: readonly InputKey[];
    readonly reply: CallReply;
    readonly atMs: number;
  } | null = null;
  /** Whether a client holds a pointer to the call, and can retry. */
  hasPointer = false;
  /** Whether that pointer holds what another reader of the stream needs. */
  isResumable = false;

  /** The task that waits for the call in place of its client; `null` if there is none. */
  task: WaitingTask | null = null;
  /** What the last pointer of the task says of how the call goes on, as JSON; `null` before the first. */
  lastContinuation: string | null = null;
  /** Whether the server runs the call as a task, and its client, which knows tasks, was not told yet. */
  isTaskDue = false;

  // The server.

  readonly exchange: Exchange;
  /** Whether the outcome is in the store, where another replica finds it. */
  isOutcomeStored = false;
  /** What the client answered in its first request; `null` if nothing, and once the call is over. */
  ahead: JsonObject | null = null;
  readonly history: CallHistory;

  constructor(
    services: CallServices,
    origin: CallOrigin,
    request: EdgeRequest,
    limits: CallLimits,
    state: CallState,
    machine: CallMachine,
  ) {
    const { method, params } = request;
    const { keyNames } = services;
    const target = targetOf(params);
    this.origin = origin;
    this.services = services;
    this.loggedTarget = loggedTarget(method, params);
    this.limits = limits;
    this.keyNames = Object.hasOwn(keyNames, target) ? (keyNames[target] ?? []) : [];
    this.state = state;
    this.machine = machine;
    this.request = request;
    this.exchange = new Exchange(this);
    this.history = new CallHistory(services.clock.now());
  }

  get id(): CallId {
    return this.origin.id;
  }

  // Pointers are bound to method and principal: they are the same in each request of a call.

  get method(): string {
    return this.request.method;
  }

  get principalKey(): string {
    return this.request.caller.principalKey;
  }

  dispatch(event: CallEvent): void {
    this.machine.dispatch(event);
  }
}

/** The longest name or URI that a pointer holds. */
const MAX_SEALED_TARGET = 200;

/** @returns the name of the tool or prompt, or the URI of the resource */
function targetOf(params: JsonObject): string {
  const target = params['name'] ?? params['uri'];
  return typeof target === 'string' ? target : '';
}

/**
 * Describes a request as its pointers are bound to it.
 * @param audience the deployment, with whose name principals are hashed
 */
export function expectedRequest(
  { method, params, caller }: EdgeRequest,
  route: string,
  audience: string,
): ExpectedRequest {
  const target = targetOf(params);
  return {
    route,
    method,
    // A long URI would make the pointer too large, and the digest covers it anyway.
    target: target.length <= MAX_SEALED_TARGET ? target : `sha256:${sha256(target)}`,
    digest: requestDigest(method, params),
    principal: principalTag(audience, caller.principal),
  };
}
