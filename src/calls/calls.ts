/** The entry of calls: admits new ones, opens the pointers of retries, and ends what is left on drain. */
import { randomBytes } from 'node:crypto';
import { CALL_CANCELLED, FOREIGN_STATE, INVALID_STATE, OTHER_VERSION } from '../model/failures.ts';
import type { RelayedHandle } from '../model/relay.ts';
import { traceOf, type CallReply, type EdgeRequest, type Waiter } from '../model/request.ts';
import type { LiveCall } from '../ops/live/snapshot.ts';
import type { Span } from '../ops/tracing.ts';
import { callId, type CallId } from '../protocol/ids.ts';
import { InvalidRequestState, OutOfTime } from '../seal/invalid-request-state.ts';
import type { Pointer } from '../seal/pointer.ts';
import { serveAtHome } from './elsewhere.ts';
import type { SessionPool } from '../sessions/session-pool.ts';
import { sessionOwnerOf } from '../sessions/session-owner.ts';
import { drainCall, isRetryOfLostCall, outlivesProcess, startCall } from './call/lifecycle.ts';
import { type CallData, type CallServices, type Retry, expectedRequest } from './call/data.ts';
import { logStopped, liveCallOf } from './call/log.ts';
import { failed } from './call/replies.ts';
import { leaveIfHomeIsLost } from './call/server.ts';
import { sendTaskBack } from './call/client.ts';
import { isBroken, isDetached, isOver, questionRound } from './machine/selectors.ts';
import { CallRegistry, type Capacity } from './registry.ts';
import { QuestionGaps } from './call/limits.ts';
import { CallRecovery } from './call-recovery.ts';

export interface CallsOptions extends Omit<CallServices, 'registry' | 'gaps'> {
  /** Whether the server may have issued a `requestState` itself, when requests were passed through to it. */
  readonly mayServerIssueStates: () => boolean;
  readonly capacity: Capacity;
  /** Called for each call that may not begin, since too many run. */
  readonly onFull: () => void;
  readonly randomCallId: () => CallId;
  /** Whether this call may be replayed if it is lost. Never rejects. */
  readonly mayReplay: (request: EdgeRequest) => boolean | Promise<boolean>;
}

export class Calls {
  readonly #options: CallsOptions;
  readonly #services: CallServices;
  readonly #registry: CallRegistry<CallData>;
  readonly #recovery: CallRecovery;

  /** @param earlier the calls of the route with other settings, which end with those */
  constructor(options: CallsOptions, earlier: Calls | null = null) {
    const { routeId: route, limits, replica, log } = options;
    this.#options = options;
    this.#registry =
      earlier === null
        ? new CallRegistry({
            ...options,
            instance: replica.instance,
            parkTtlMs: limits.parkTtlMs,
            onReleaseExpired: (call) => log.event('call.release_expired', { route, call }),
          })
        : earlier.#registry;
    this.#services = { ...options, registry: this.#registry, gaps: new QuestionGaps(limits) };
    this.#recovery = new CallRecovery(this.#services);
  }

  /** Whether new calls are refused. */
  get isStopping(): boolean {
    return this.#registry.phase !== 'open';
  }

  /** How many calls wait for their client. */
  get parked(): number {
    return this.#registry.parked;
  }

  /** How many calls run. */
  get running(): number {
    return this.#registry.running;
  }

  /**
   * Shows the calls that wait for their client.
   * @param most how many to show; those that began first come first
   * @returns them, and how many there are
   */
  live(most: number): { readonly calls: Omit<LiveCall, 'owner'>[]; readonly all: number } {
    const calls: Omit<LiveCall, 'owner'>[] = [];
    let all = 0;
    for (const call of this.#registry.all()) {
      const { state } = call;
      if (!isDetached(state)) continue;
      all += 1;
      if (calls.length < most) calls.push(liveCallOf(call, state));
    }
    return { calls, all };
  }

  /** How many calls were released and wait for their client, as far as this process knows. */
  get released(): number {
    return this.#registry.released.size;
  }

  /** How many calls that wait for their client, and tasks, no other process could continue. */
  get callsOnlyHere(): number {
    const held = this.#registry.all().filter((call) => {
      const { task, state } = call;
      if (task === null) return isDetached(state) && !outlivesProcess(call);
      return !isOver(state) && (task.endsWithProcess || !outlivesProcess(call));
    });
    return held.length + (this.#services.othersCanOpenPointers ? 0 : this.released);
  }

  /** Whether a call uses these sessions, or can still use them. */
  isUsing(pool: SessionPool): boolean {
    return this.#registry.all().some((call) => call.services.pool === pool && !isOver(call.state));
  }

  /** Serves `tools/call`, `prompts/get` or `resources/read`: a new call, or a retry. */
  serve(request: EdgeRequest, waiter: Waiter): Promise<CallReply> {
    const { requestState } = request;
    if (requestState !== null) return this.#retry(request, requestState, waiter);
    const { pool } = this.#services;
    const isOpen = this.#registry.phase === 'open';
    const found = isOpen ? pool.holderOf(sessionOwnerOf(request), true) : null;
    if (found === null) return this.#serveNew(request, waiter);
    const elsewhere = serveAtHome(this.#services, found, request, waiter);
    return elsewhere.then((reply) => reply ?? this.#serveNew(request, waiter));
  }

  async #newCallHandle(request: EdgeRequest, waiter: Waiter): Promise<RelayedHandle | null> {
    const { pool } = this.#services;
    const isHome = await pool.isHome(sessionOwnerOf(request));
    if (this.#registry.phase !== 'open' || !isHome) return null;
    const id = this.#options.randomCallId();
    return {
      begin: () => this.#serveNew(request, waiter, id),
      sendClientBack: () => this.#registry.find(id)?.dispatch({ type: 'requesterStops' }),
    };
  }

  #serveNew(
    request: EdgeRequest,
    waiter: Waiter,
    id = this.#options.randomCallId(),
  ): Promise<CallReply> {
    const refusal = this.#registry.refusal(request.caller.principalKey, false);
    if (refusal !== null) return Promise.resolve(failed(refusal));
    const mayReplay = this.#options.mayReplay(request);
    if (typeof mayReplay === 'boolean') return this.#start(request, waiter, mayReplay, id);
    // That can take a while, in which other calls begin, or the client leaves.
    return mayReplay.then((allowed) => {
      const laterRefusal = this.#registry.refusal(request.caller.principalKey, false);
      if (laterRefusal !== null) return failed(laterRefusal);
      if (waiter.closed.aborted) return failed(CALL_CANCELLED);
      return this.#start(request, waiter, allowed, id);
    });
  }

  async #retry(request: EdgeRequest, requestState: string, waiter: Waiter): Promise<CallReply> {
    const pointer = this.#open(request, requestState);
    if (pointer instanceof OutOfTime) return this.#serveOutOfTime(pointer, request, waiter);
    if (pointer instanceof InvalidRequestState) return this.#refuse(pointer, request);
    const leaving = this.#leaveToHome(pointer);
    if (leaving !== null) await leaving;
    const retry: Retry = { pointer, request, waiter, isRelayed: false };
    return this.#serveOrRefuse(retry) ?? this.#recovery.recover(retry);
  }

  /**
   * Serves a retry, or a new call, that reached another replica. Resolves to `null` if its call or the home of its caller
   * is not here.
   */
  async serveRelayed(request: EdgeRequest, waiter: Waiter): Promise<RelayedHandle | null> {
    if (request.requestState === null) return this.#newCallHandle(request, waiter);
    const opened = this.#open(request, request.requestState);
    const pointer = opened instanceof OutOfTime ? opened.pointer : opened;
    if (pointer instanceof InvalidRequestState) return this.#relayedRefusal(pointer, request);
    await this.#leaveToHome(pointer);
    const isHere = this.#registry.find(pointer.callId) !== undefined;
    const retry: Retry = { pointer, request, waiter, isRelayed: true };
    const sendClientBack = () =>
      this.#registry.find(pointer.callId)?.dispatch({ type: 'requesterStops' });
    if (opened instanceof OutOfTime && (isHere || opened.reason === 'expired')) {
      if (!isHere) return this.#relayedRefusal(opened, request);
      return { begin: () => this.#recovery.serveHere(retry), sendClientBack };
    }
    if (!isHere && !this.#registry.hasEnded(pointer)) {
      // Retries may come to several replicas: only this one resumes the call for them.
      const mayResume = await this.#recovery.isResumedHere(retry);
      return mayResume ? { begin: () => this.#recovery.recover(retry), sendClientBack } : null;
    }
    return { begin: () => this.#serveOrRefuse(retry), sendClientBack };
  }

  /** See `leaveIfHomeIsLost`, for a call that waits for its client here, or that another process had, too. */
  #leaveToHome({ callId: id, owner }: Pointer): Promise<void> | null {
    const call = this.#registry.find(id);
    if (call === undefined) return null;
    const isOthers = owner.instance !== this.#services.replica.instance;
    return isDetached(call.state) || isOthers ? leaveIfHomeIsLost(call) : null;
  }

  /**
   * Cancels a call that is here, and whose client will not retry. If the client waits, it has to close its waiter.
   * @returns false if the call is not here, or if its stream is being resumed: then it is not cancelled
   */
  cancelHere(request: EdgeRequest, requestState: string): boolean {
    const call = this.#callOf(request, requestState);
    if (call === undefined || isBroken(call.state)) return false;
    if (isDetached(call.state)) call.dispatch({ type: 'expired', timer: 'park' });
    return true;
  }

  /** See `sendTaskBack`, for a call that is here. */
  sendBack(request: EdgeRequest, requestState: string): void {
    const call = this.#callOf(request, requestState);
    if (call !== undefined) sendTaskBack(call);
  }

  /**
   * Cancels a call that waits for its client here, for the operator.
   * @param by the address of the operator
   * @returns false if no such call waits here, or if its stream is being resumed
   */
  stop(id: string, by: string | null): boolean {
    const call = this.#registry.find(callId(id));
    if (call === undefined || !isDetached(call.state) || isBroken(call.state)) return false;
    logStopped(call, by);
    call.dispatch({ type: 'operatorStops' });
    return true;
  }

  /** Tells whether the server runs a call that is here as a legacy task. */
  runsAsServerTask(request: EdgeRequest, requestState: string): boolean {
    return (this.#callOf(request, requestState)?.exchange.task ?? null) !== null;
  }

  /** Tells whether the round of this pointer is the last of its call, or a later one than every official client stands. */
  isLastRound(request: EdgeRequest, requestState: string): boolean {
    const pointer = this.#open(request, requestState);
    if (pointer instanceof InvalidRequestState) return false;
    const { round, stateOnly = 0 } = pointer;
    const { maxRounds, clientRounds } = this.#options.limits;
    return questionRound({ round, stateOnly }) >= maxRounds || round > clientRounds;
  }

  /** Admits new calls again, and puts the times of these settings in force. */
  resumeNewCalls(): void {
    const { longestCallMs, limits } = this.#options;
    this.#registry.use({ longestCallMs, parkTtlMs: limits.parkTtlMs });
    this.#registry.phase = 'open';
  }

  /** Refuses new calls from here on. Retries of calls that are here go on. */
  stopNewCalls(): void {
    this.#registry.phase = 'draining';
    this.#services.pool.handOver();
  }

  /** Ends every call that is left. */
  endAll(): void {
    this.#registry.phase = 'closed';
    for (const call of this.#registry.all()) drainCall(call);
    this.#registry.released.clear();
    this.#options.relay?.sendClientsBack();
  }

  #start(request: EdgeRequest, waiter: Waiter, mayReplay: boolean, id: CallId): Promise<CallReply> {
    const outcomeKey = this.#services.directory && randomBytes(32).toString('base64url');
    return startCall(this.#services, { id, mayReplay, outcomeKey }, request, waiter);
  }

  /** @returns the call of a pointer, if it is here */
  #callOf(request: EdgeRequest, requestState: string): CallData | undefined {
    const pointer = this.#open(request, requestState);
    if (pointer instanceof InvalidRequestState) return undefined;
    return this.#registry.find(pointer.callId);
  }

  #open(request: EdgeRequest, requestState: string): Pointer | InvalidRequestState {
    const { sealer, routeId: route, audience } = this.#services;
    try {
      const pointer = sealer.open(requestState, expectedRequest(request, route, audience));
      if (request.span !== undefined) tellSpan(request.span, pointer);
      return pointer;
    } catch (error) {
      if (error instanceof InvalidRequestState) return error;
      throw error;
    }
  }

  /** The owner knows whether the time of the call is over: by a timer, and not by a clock that may be wrong. */
  async #serveOutOfTime(late: OutOfTime, request: EdgeRequest, waiter: Waiter): Promise<CallReply> {
    const retry: Retry = { pointer: late.pointer, request, waiter, isRelayed: false };
    const reply = await (this.#recovery.serveHere(retry) ?? this.#recovery.askOwner(late, retry));
    return reply ?? this.#refuse(late, request);
  }

  /** Serves a retry that only this process can serve, or that is refused. @returns `null` for all others */
  #serveOrRefuse(retry: Retry): Promise<CallReply> | null {
    const { pointer } = retry;
    const call = this.#registry.find(pointer.callId);
    // What this process may not replay any more, another one may.
    const isForOthers = this.#registry.phase !== 'open' && isReplayable(pointer);
    if (isForOthers && call !== undefined && isRetryOfLostCall(call, retry)) return null;
    if (call !== undefined) return this.#recovery.serveHere(retry);
    if (!this.#registry.hasEnded(pointer)) return null;
    const ended = new InvalidRequestState('ended', pointer.callId);
    return Promise.resolve(this.#refuse(ended, retry.request));
  }

  #relayedRefusal(cause: InvalidRequestState, request: EdgeRequest): RelayedHandle {
    const begin = () => Promise.resolve(this.#refuse(cause, request));
    return { begin, sendClientBack: () => {} };
  }

  #refuse({ reason, callId }: InvalidRequestState, request: EdgeRequest): CallReply {
    const { log, routeId: route } = this.#services;
    const isForeign = reason === 'malformed' && this.#options.mayServerIssueStates();
    const problem = isForeign ? { problem: 'the server may have issued it' } : {};
    const of = { route, call: callId, ...traceOf(request) };
    log.event('pointer.refused', { ...of, reason, ...problem });
    if (reason === 'version') return failed(OTHER_VERSION);
    return failed(isForeign ? FOREIGN_STATE : INVALID_STATE);
  }
}

/** @returns true if the operator allows that the call is replayed */
function isReplayable({ continuation }: Pointer): boolean {
  return continuation !== undefined && continuation.replay !== null;
}

/** Says which round of which call a retry continues, and links it to the first request of the call. */
function tellSpan(span: Span, { callId, round, firstTrace }: Pointer): void {
  span.set({ 'mrtr_gateway.call.id': callId, 'mrtr_gateway.round': round });
  if (firstTrace !== undefined) span.link({ traceparent: firstTrace });
}
