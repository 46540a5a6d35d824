/**
 * Where the modern edge and the legacy upstream of one route meet: starts calls, finds the call that a
 * retry belongs to, and passes on requests that may not ask anything.
 */
import { randomBytes } from 'node:crypto';
import type { Clock } from '../lib/clock.ts';
import type { Directory } from '../model/directory.ts';
import type { ParkedCalls } from './parked-calls.ts';
import type { Log } from '../ops/log.ts';
import type { CallId } from '../protocol/ids.ts';
import type { CacheFields } from '../protocol/translate/edge-result.ts';
import type { JsonObject } from '../protocol/json/json.ts';
import { InvalidRequestState, OutOfTime } from '../seal/invalid-request-state.ts';
import { principalTag, requestDigest } from '../seal/digests.ts';
import type { Continuation, Pointer, PointerOwner } from '../seal/pointer.ts';
import { UnsealablePointer, type ExpectedRequest, type Sealer } from '../seal/seal.ts';
import type { SessionPool } from '../upstream/pool/session-pool.ts';
import type { CallContext, SealedPointer } from './call/context.ts';
import { Call } from './call/call.ts';
import type { CallEnd, CallLimits, CallState } from './machine/states.ts';
import {
  CALL_CANCELLED,
  INVALID_STATE,
  OVERLOADED,
  OVERLOADED_FOR_RETRY,
  STOPPING,
  STOPPING_FOR_RETRY,
} from '../model/failures.ts';
import { TtlSet } from '../lib/ttl-set.ts';
import { Ladder, type Resumable } from './retry-ladder.ts';
import type { CallReply, EdgeRequest, Leg } from '../model/request.ts';
import { loggedTarget } from './logged-target.ts';
import type { Relay, RelayedRetryHandle } from '../model/relay.ts';
import type { RunningCalls } from './running-calls.ts';
import { sealOutcome, type OutcomeRecord } from './sealed-outcome.ts';
import { isDetached } from './machine/selectors.ts';
import { sha256 } from '../lib/sha256.ts';

export interface CallRegistryOptions {
  readonly route: string;
  readonly pool: SessionPool;
  readonly lot: ParkedCalls<Call>;
  readonly sealer: Sealer;
  /** This replica, as pointers name it. */
  readonly replica: PointerOwner;
  /** A text that all replicas of the fleet share; principals are hashed with it. */
  readonly fleet: string;
  readonly limits: CallLimits;
  /** Counts the calls of all routes. */
  readonly running: RunningCalls;
  /** Whether another process can open our pointers, now or after a restart. */
  readonly hasHeirs: boolean;
  readonly keyNames: Readonly<Record<string, readonly string[]>>;
  readonly keysFromStringIds: boolean;
  readonly strictCapabilities: boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly randomCallId: () => CallId;
  /** How long to wait for the server's word that its URLs were visited, in ms. */
  readonly urlVisitWaitMs: number;
  /** How long who may keep a resource that was read. */
  readonly caching: CacheFields;
  /** Whether this call may be made anew when it is lost; never rejects. */
  readonly mayReplay: (request: EdgeRequest) => Promise<boolean>;
  readonly leaveWhenParked: boolean;
  /** Whether a call whose owner is gone is read on from where it stopped, if the server keeps it. */
  readonly reattach: boolean;
  readonly relay: Relay | null;
  readonly directory: Directory | null;
}

export class CallRegistry {
  readonly #options: CallRegistryOptions;
  readonly #ladder: Ladder;
  /** Calls that were let go of, or lost: any replica may take them up, this one too. */
  readonly #left: TtlSet<CallId>;
  /** Calls that were taken up here and have ended here. */
  readonly #ended: TtlSet<CallId>;
  /** The epochs of calls that were taken up here, for as long as they are. */
  readonly #claims = new Map<CallId, number>();
  #parked = 0;
  #draining = false;

  constructor(options: CallRegistryOptions) {
    this.#options = options;
    const { route, replica, relay, directory, reattach, log, limits, clock } = options;
    this.#left = new TtlSet(clock, limits.callTtlMs);
    this.#ended = new TtlSet(clock, limits.callTtlMs);
    this.#ladder = new Ladder({
      route,
      boot: replica.boot,
      calls: {
        find: (id) => options.lot.find(id),
        claimed: (id, epoch) => this.#claims.set(id, epoch),
        unclaim: (id) => this.#unclaim(id),
        adopt: (pointer, continuation, request, leg) =>
          this.#adopt(pointer, continuation, request, leg),
        replay: (pointer, continuation, request, leg, begins) =>
          this.#replay(pointer, continuation, request, leg, begins),
        retry: (call, pointer, request, leg) => this.#retried(call, pointer, request, leg),
      },
      relay,
      directory,
      claimMs: limits.callTtlMs,
      reattach,
      clock,
      log,
    });
  }

  /** Calls that wait for their client. */
  get parked(): number {
    return this.#parked;
  }

  /** True while a parked call is here that no other process could take up. */
  get holdsParkedCalls(): boolean {
    const { lot, hasHeirs } = this.#options;
    return lot.calls().some((call) => isDetached(call.state) && !call.outlives(hasHeirs));
  }

  /** Serves `tools/call`, `prompts/get` or `resources/read`: a new call, or the retry of one. */
  async call(request: EdgeRequest, leg: Leg): Promise<CallReply> {
    return request.requestState === null
      ? this.#start(request, leg)
      : this.#retry(request, request.requestState, leg);
  }

  /** Serves a retry that landed on another replica; `null` when its call is not here. */
  async relayed(request: EdgeRequest, leg: Leg): Promise<RelayedRetryHandle | null> {
    if (request.requestState === null) return null;
    const opened = await this.#open(request, request.requestState);
    if (opened instanceof OutOfTime) {
      const { pointer } = opened;
      if (!this.#options.lot.find(pointer.callId)) return this.#refused(opened);
      return this.#toServe(pointer, () => this.#servedHere(pointer, request, leg));
    }
    if (opened instanceof InvalidRequestState) return this.#refused(opened);
    if (!this.#options.lot.find(opened.callId) && !this.#hasEnded(opened)) return null;
    return this.#toServe(opened, () => this.#served(opened, request, leg));
  }

  /** New calls are refused from here on; retries of calls that are here go on. */
  stopTaking(): void {
    this.#draining = true;
  }

  /** Ends every call that is left. */
  endAll(): void {
    this.#draining = true;
    const { lot, hasHeirs } = this.#options;
    for (const call of lot.calls()) call.drain(hasHeirs);
    this.#options.relay?.release();
  }

  async #start(request: EdgeRequest, leg: Leg): Promise<CallReply> {
    const refused = this.#refusalOfNew('call');
    if (refused !== null) return refused;
    const { lot, randomCallId, log, route } = this.#options;
    const id = randomCallId();
    const mayReplay = await this.#options.mayReplay(request);
    // It may have taken a while, and others may have come in the meantime.
    const refusedNow = this.#refusalOfNew('call');
    if (refusedNow !== null) return refusedNow;
    // Its call would be over, and forgotten, before it has its place.
    if (leg.closed.aborted) return { kind: 'failed', failure: CALL_CANCELLED };
    const permit = { mayReplay, takenUp: false };
    const context = this.#context(id, request, this.#newOutcomeKey(), permit);
    const { call, answer } = Call.start(context, request, leg);
    lot.put(id, call, request.caller.principalKey);
    const { loggedTarget: target } = context;
    log.event('call.started', { route, call: id, method: request.method, target });
    return answer;
  }

  async #retry(request: EdgeRequest, requestState: string, leg: Leg): Promise<CallReply> {
    const pointer = await this.#open(request, requestState);
    if (pointer instanceof OutOfTime) return this.#retryOutOfTime(pointer, request, leg);
    if (pointer instanceof InvalidRequestState) return this.#refuse(pointer);
    const served = this.#served(pointer, request, leg);
    return served ?? this.#ladder.climb(pointer, request, leg);
  }

  async #open(request: EdgeRequest, requestState: string): Promise<Pointer | InvalidRequestState> {
    try {
      return await this.#options.sealer.open(requestState, this.#expected(request));
    } catch (error) {
      if (error instanceof InvalidRequestState) return error;
      throw error;
    }
  }

  /** Whoever holds the call knows whether its time is over: by a timer, and not by a clock that may be wrong. */
  async #retryOutOfTime(late: OutOfTime, request: EdgeRequest, leg: Leg): Promise<CallReply> {
    const { pointer } = late;
    const here = this.#servedHere(pointer, request, leg);
    if (here !== null) return here;
    return (await this.#ladder.askOwner(late, request, leg)) ?? this.#refuse(late);
  }

  #toServe({ callId }: Pointer, begin: RelayedRetryHandle['begin']): RelayedRetryHandle {
    return {
      begin,
      sendClientBack: () => this.#options.lot.find(callId)?.letClientsCome(),
    };
  }

  #servedHere(pointer: Pointer, request: EdgeRequest, leg: Leg): Promise<CallReply> | null {
    const call = this.#options.lot.find(pointer.callId);
    return call === undefined ? null : this.#retried(call, pointer, request, leg);
  }

  /** Serves a retry that nobody but this process can serve, or that is refused; `null` for all others. */
  #served(pointer: Pointer, request: EdgeRequest, leg: Leg): Promise<CallReply> | null {
    const { callId } = pointer;
    const call = this.#options.lot.find(callId);
    // What this process may not make anew any more, another one may.
    const isForOthers = this.#draining && isReplayable(pointer);
    if (isForOthers && call?.isLostFor(pointer.round, request) === true) return null;
    const here = this.#servedHere(pointer, request, leg);
    if (here !== null || !this.#hasEnded(pointer)) return here;
    return Promise.resolve(this.#refuse(new InvalidRequestState('ended', callId)));
  }

  /** A call that is lost is made anew where that is allowed. */
  async #retried(call: Call, pointer: Pointer, request: EdgeRequest, leg: Leg): Promise<CallReply> {
    const { round } = pointer;
    if (call.isLostFor(round, request)) {
      const anew = await this.#ladder.replay(pointer, request, leg);
      if (anew !== null) return anew;
    }
    const answer = await call.retry(round, request, leg);
    if (!call.isLostFor(round, request)) return answer;
    return (await this.#ladder.replay(pointer, request, leg)) ?? answer;
  }

  /** A call of this process that is not here has ended, unless it was let go for others to take up. */
  #hasEnded({ owner, callId }: Pointer): boolean {
    if (this.#ended.has(callId)) return true;
    return owner.boot === this.#options.replica.boot && !this.#left.has(callId);
  }

  /** What a call is told that may not begin here now; `null` when it may. */
  #refusalOfNew(by: 'call' | 'retry'): CallReply | null {
    const [stopping, overloaded] =
      by === 'call' ? [STOPPING, OVERLOADED] : [STOPPING_FOR_RETRY, OVERLOADED_FOR_RETRY];
    if (this.#draining) return { kind: 'failed', failure: stopping };
    return this.#options.running.isFull ? { kind: 'failed', failure: overloaded } : null;
  }

  #refused(why: InvalidRequestState): RelayedRetryHandle {
    return { begin: () => Promise.resolve(this.#refuse(why)), sendClientBack: () => {} };
  }

  #refuse(refused: InvalidRequestState): CallReply {
    const { log, route } = this.#options;
    log.event('pointer.refused', { route, reason: refused.reason, call: refused.callId });
    return { kind: 'failed', failure: INVALID_STATE };
  }

  #adopt(pointer: Pointer, continuation: Resumable, request: EdgeRequest, leg: Leg) {
    const { callId: id, round } = pointer;
    const context = this.#contextOfTakenUp(pointer, continuation, request);
    const adopted = Call.adopt(context, round, continuation, request, leg);
    this.#options.lot.put(id, adopted.call, request.caller.principalKey);
    return adopted;
  }

  async #replay(
    pointer: Pointer,
    continuation: Continuation,
    request: EdgeRequest,
    leg: Leg,
    begins: () => void,
  ): Promise<CallReply> {
    const { lot } = this.#options;
    const { callId: id, round } = pointer;
    const standing = lot.find(id);
    // Several retries may have waited for the call that was lost: the first of them has made it anew.
    if (standing !== undefined && !standing.isLost) return standing.retry(round, request, leg);
    const refused = this.#refusalOfNew('retry');
    if (refused !== null) return refused;
    const context = this.#contextOfTakenUp(pointer, continuation, request);
    const { call, answer } = Call.replay(context, round, continuation, request, leg, () => {
      if (standing !== undefined) this.#replace(id, standing);
      this.#ended.delete(id);
      begins();
    });
    if (call !== null) lot.put(id, call, request.caller.principalKey);
    return answer;
  }

  /** Drops a call for another one of the same name, which keeps the claim to it. */
  #replace(id: CallId, call: Call): void {
    const epoch = this.#claims.get(id);
    this.#claims.delete(id);
    call.drop();
    if (epoch !== undefined) this.#claims.set(id, epoch);
  }

  #contextOfTakenUp(
    { callId, outcomeKey }: Pointer,
    { replay }: Continuation,
    request: EdgeRequest,
  ): CallContext {
    // Whether it may be replayed was decided when the call was made; the pointer carries what came of it.
    const permit = { mayReplay: replay !== null, takenUp: true };
    return this.#context(callId, request, outcomeKey ?? null, permit);
  }

  #context(
    id: CallId,
    request: EdgeRequest,
    outcomeKey: string | null,
    { mayReplay, takenUp }: { readonly mayReplay: boolean; readonly takenUp: boolean },
  ): CallContext {
    const { route, pool, limits, clock, log, lot, keyNames } = this.#options;
    const { keysFromStringIds, strictCapabilities, urlVisitWaitMs } = this.#options;
    const { leaveWhenParked, reattach, caching } = this.#options;
    const target = targetOf(request.params);
    let [running, parked] = [false, false];
    let end: CallEnd | null = null;
    const expected = onceFrom(request, (first) => this.#expected(first));
    const count = (now: CallState | null) => {
      const [wasRunning, wasParked] = [running, parked];
      parked = now !== null && isDetached(now);
      running = now !== null && !parked && now.name !== 'done';
      if (running && !wasRunning) this.#options.running.began();
      if (!running && wasRunning) this.#options.running.ended();
      this.#parked += Number(parked) - Number(wasParked);
    };
    return {
      id,
      route,
      pool,
      limits,
      clock,
      log,
      keyNames: Object.hasOwn(keyNames, target) ? (keyNames[target] ?? []) : [],
      keysFromStringIds,
      strictCapabilities,
      urlVisitWaitMs,
      caching,
      leaveWhenParked,
      reattach,
      mayReplay,
      loggedTarget: loggedTarget(request.method, request.params),
      hasRoom: () => lot.hasRoomFor(id),
      moved: (state) => {
        if (state === null) this.#forget(id, end, takenUp);
        else lot.setParked(id, isDetached(state));
        if (state?.name === 'done') end = state.end;
        count(state);
      },
      point: (round, expiresAtMs, continuation) =>
        this.#point(id, round, expiresAtMs, expected(), continuation, outcomeKey),
      keepsOutcomes: outcomeKey !== null,
      keep: (outcome) => this.#keep(id, outcome, outcomeKey),
      isOurs: () => this.#isOurs(id),
    };
  }

  async #point(
    callId: CallId,
    round: number,
    expiresAtMs: number,
    expected: ExpectedRequest,
    continuation: Continuation | null,
    outcomeKey: string | null,
  ): Promise<SealedPointer> {
    const { sealer, replica: owner, log, route } = this.#options;
    const pointer = {
      callId,
      round,
      owner,
      expiresAtSeconds: expiresAtMs / 1000,
      ...expected,
      ...(outcomeKey === null ? {} : { outcomeKey }),
    } as const;
    if (continuation !== null) {
      try {
        return { requestState: await sealer.seal({ ...pointer, continuation }), continues: true };
      } catch (error) {
        if (!(error instanceof UnsealablePointer)) throw error;
        const problem = error.message;
        log.event('pointer.continuation_dropped', { route, call: callId, problem });
      }
    }
    return { requestState: await sealer.seal(pointer), continues: false };
  }

  /** Leaves an outcome in the shared store; without it the client can still ask this replica. */
  #keep(call: CallId, outcome: OutcomeRecord, outcomeKey: string | null): void {
    const { directory, limits } = this.#options;
    if (directory === null || outcomeKey === null) return;
    const sealed = sealOutcome(Buffer.from(outcomeKey, 'base64url'), call, outcome);
    // One that nobody has had yet may be asked for until its pointer expires.
    const isWaiting = outcome.answersDigest === null;
    const ttlMs = isWaiting ? limits.parkTtlMs : limits.redeliverMs;
    directory.keepOutcome(call, sealed, ttlMs).catch(() => {});
  }

  /** A store that cannot be asked says nothing against it. */
  async #isOurs(call: CallId): Promise<boolean> {
    const holder = await this.#options.directory?.holderOf(call).catch(() => null);
    return (
      holder === undefined || holder === null || holder.owner.boot === this.#options.replica.boot
    );
  }

  #forget(call: CallId, end: CallEnd | null, takenUp: boolean): void {
    this.#options.lot.remove(call);
    // Of what was left or lost, a later retry may still make something, here or elsewhere.
    const drained = end?.type === 'refused' && end.reason === 'draining';
    if (end?.type === 'left' || end?.type === 'lost' || drained) {
      this.#left.add(call);
      this.#unclaim(call);
      return;
    }
    this.#claims.delete(call);
    if (takenUp) this.#ended.add(call);
  }

  #unclaim(call: CallId): void {
    const epoch = this.#claims.get(call);
    this.#claims.delete(call);
    this.#ended.delete(call);
    if (epoch !== undefined) this.#options.directory?.release(call, epoch).catch(() => {});
  }

  #newOutcomeKey(): string | null {
    return this.#options.directory === null ? null : randomBytes(32).toString('base64url');
  }

  #expected(request: EdgeRequest): ExpectedRequest {
    return {
      route: this.#options.route,
      method: request.method,
      target: sealedTarget(targetOf(request.params)),
      digest: requestDigest(request.method, request.params),
      principal: principalTag(this.#options.fleet, request.caller.principal),
    };
  }
}

/** What the function makes of the value, which is let go of as soon as that is done: requests may be large. */
function onceFrom<Value, Made>(value: Value, make: (value: Value) => Made): () => Made {
  let pending: { readonly value: Value } | null = { value };
  let made: Made;
  return () => {
    if (pending !== null) made = make(pending.value);
    pending = null;
    return made;
  };
}

/** The operator allows that the call is made anew when it is lost. */
function isReplayable({ continuation }: Pointer): boolean {
  return continuation !== undefined && continuation.replay !== null;
}

/** The tool's or prompt's name, or the resource's URI. */
function targetOf(params: JsonObject): string {
  const target = params['name'] ?? params['uri'];
  return typeof target === 'string' ? target : '';
}

const MAX_SEALED_TARGET = 200;

/** A long URI would swell the pointer; the request's digest covers it anyway. */
function sealedTarget(target: string): string {
  if (target.length <= MAX_SEALED_TARGET) return target;
  return `sha256:${sha256(target)}`;
}
