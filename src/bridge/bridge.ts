/**
 * Where the modern edge and the legacy upstream of one route meet: starts calls, finds the call that a
 * retry belongs to, and passes on requests that may not ask anything.
 */
import { createHash } from 'node:crypto';
import type { Clock } from '../clock.ts';
import type { MemoryLot } from '../lot/memory-lot.ts';
import type { Log } from '../ops/log.ts';
import type { CallId } from '../protocol/ids.ts';
import type { JsonObject } from '../protocol/json.ts';
import { InvalidRequestState } from '../seal/invalid-request-state.ts';
import { principalTag } from '../seal/principal-tag.ts';
import type { Pointer, PointerOwner } from '../seal/pointer.ts';
import { requestDigest } from '../seal/request-digest.ts';
import type { ExpectedRequest, Sealer } from '../seal/seal.ts';
import type { SessionPool } from '../upstream/session-pool.ts';
import { Call, type CallContext } from './call.ts';
import { failedCallAnswer } from './failed-call-answer.ts';
import type { CallLimits, CallState } from './call-state.ts';
import { CALL_LOST, INVALID_STATE, OVERLOADED } from './failures.ts';
import type { CallAnswer, EdgeRequest, Leg } from './leg.ts';

export interface BridgeOptions {
  readonly route: string;
  readonly pool: SessionPool;
  readonly lot: MemoryLot<Call>;
  readonly sealer: Sealer;
  /** This replica, as pointers name it. */
  readonly replica: PointerOwner;
  /** A text that all replicas of the fleet share; principals are hashed with it. */
  readonly fleet: string;
  readonly limits: CallLimits;
  readonly maxRunning: number;
  readonly keyNames: Readonly<Record<string, readonly string[]>>;
  readonly keysFromStringIds: boolean;
  readonly strictCapabilities: boolean;
  readonly clock: Clock;
  readonly log: Log;
  readonly randomCallId: () => CallId;
}

/** States in which a call holds a place of the lot: no client is connected, and something waits. */
const PARKED: ReadonlySet<CallState['name']> = new Set(['parked', 'idle', 'settled', 'suspended']);

export class Bridge {
  readonly #options: BridgeOptions;
  #running = 0;
  #parked = 0;
  #draining = false;

  constructor(options: BridgeOptions) {
    this.#options = options;
  }

  /** Calls that are at work for a client. */
  get running(): number {
    return this.#running;
  }

  /** Calls that wait for their client. */
  get parked(): number {
    return this.#parked;
  }

  /** Serves `tools/call`, `prompts/get` or `resources/read`: a new call, or the retry of one. */
  async call(request: EdgeRequest, leg: Leg): Promise<CallAnswer> {
    return request.requestState === null
      ? this.#start(request, leg)
      : this.#retry(request, request.requestState, leg);
  }

  /** New calls are refused from here on; retries of calls that are here go on. */
  stopTaking(): void {
    this.#draining = true;
  }

  /** Ends every call that is left. */
  endAll(): void {
    this.#draining = true;
    for (const call of this.#options.lot.calls()) call.drain();
  }

  async #start(request: EdgeRequest, leg: Leg): Promise<CallAnswer> {
    if (this.#draining || this.#running >= this.#options.maxRunning) {
      return { kind: 'failed', failure: OVERLOADED };
    }
    const { lot, randomCallId, log, route } = this.#options;
    const id = randomCallId();
    const target = targetOf(request.params);
    const { call, answer } = Call.start(this.#context(id, request, target), request, leg);
    lot.put(id, call, request.caller.principalKey);
    log.event('call.started', { route, call: id, method: request.method, target });
    return answer;
  }

  async #retry(request: EdgeRequest, requestState: string, leg: Leg): Promise<CallAnswer> {
    let pointer: Pointer;
    try {
      pointer = await this.#options.sealer.open(requestState, this.#expected(request));
    } catch (error) {
      if (!(error instanceof InvalidRequestState)) throw error;
      return this.#refuse(error);
    }
    const { boot } = this.#options.replica;
    const call = this.#options.lot.find(pointer.callId);
    if (call !== undefined) return call.retry(pointer.round, request, leg);
    if (pointer.owner.boot === boot) {
      return this.#refuse(new InvalidRequestState('ended', pointer.callId));
    }
    this.#refuse(new InvalidRequestState('unknown-call', pointer.callId));
    return failedCallAnswer(request.method, CALL_LOST, null);
  }

  #refuse(refused: InvalidRequestState): CallAnswer {
    const { log, route } = this.#options;
    log.event('pointer.refused', { route, reason: refused.reason, call: refused.callId });
    return { kind: 'failed', failure: INVALID_STATE };
  }

  #context(id: CallId, request: EdgeRequest, target: string): CallContext {
    const { route, pool, limits, clock, log, lot, keyNames } = this.#options;
    let [running, parked] = [false, false];
    const count = (now: CallState | null) => {
      const [wasRunning, wasParked] = [running, parked];
      parked = now !== null && PARKED.has(now.name);
      running = now !== null && !parked && now.name !== 'done';
      this.#running += Number(running) - Number(wasRunning);
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
      keysFromStringIds: this.#options.keysFromStringIds,
      strictCapabilities: this.#options.strictCapabilities,
      hasRoom: () => lot.hasRoomFor(id),
      moved: (state) => {
        if (state === null) lot.remove(id);
        else lot.setParked(id, PARKED.has(state.name));
        count(state);
      },
      point: (round, expiresAtMs) => this.#point(id, round, expiresAtMs, request),
    };
  }

  #point(id: CallId, round: number, expiresAtMs: number, request: EdgeRequest): Promise<string> {
    return this.#options.sealer.seal({
      mode: 'park',
      callId: id,
      round,
      owner: this.#options.replica,
      expiresAtSeconds: expiresAtMs / 1000,
      ...this.#expected(request),
    });
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

/** The tool's or prompt's name, or the resource's URI. */
function targetOf(params: JsonObject): string {
  const target = params['name'] ?? params['uri'];
  return typeof target === 'string' ? target : '';
}

const MAX_SEALED_TARGET = 200;

/** A long URI would swell the pointer; the request's digest covers it anyway. */
function sealedTarget(target: string): string {
  if (target.length <= MAX_SEALED_TARGET) return target;
  return `sha256:${createHash('sha256').update(target).digest('base64url')}`;
}
