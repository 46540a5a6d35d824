/**
 * What this process knows of the calls of one route: those that are here, which of them count as running or
 * parked, and those that ended here or left for other replicas.
 */
import type { Clock } from '../lib/clock.ts';
import { partOfAnonymous, type Counts } from '../lib/counts.ts';
import { TtlSet, ReleasingMap } from '../lib/containers.ts';
import type { HomeOwnership } from '../model/ownership.ts';
import {
  OVERLOADED,
  OVERLOADED_FOR_RETRY,
  STOPPING,
  STOPPING_FOR_RETRY,
} from '../model/failures.ts';
import type { Failure } from '../model/request.ts';
import { ANONYMOUS_KEY } from '../model/request.ts';
import { homeBornWith, type CallId } from '../protocol/ids.ts';
import type { Pointer } from '../seal/pointer.ts';
import { hasPlace, isDetached, isEndedByDrain } from './machine/selectors.ts';
import type { CallState } from './machine/states.ts';
import { ReleasedCalls } from './released.ts';

export interface CapacityLimits {
  readonly maxRunningCalls: number;
  readonly maxParkedCalls: number;
  readonly maxParkedCallsPerPrincipal: number;
}

/** The limit that keeps a call from being parked, by its key in the configuration. */
export type ParkingLimit = Exclude<keyof CapacityLimits, 'maxRunningCalls'>;

/**
 * What a call counts as: work for a client that waits, or a call that waits for its client, here or at its server.
 * `answering`: work for a client, and it keeps its place among the parked calls.
 */
export type CallUse = 'running' | 'answering' | 'parked' | 'released' | 'none';

/** The part of running calls that is not for a principal that has half of them. */
const PART_OF_OTHERS = 1 / 20;

/** How many calls run and are parked, over all routes, and how many may. */
export class Capacity {
  readonly #limits: () => CapacityLimits;
  readonly #counts: Counts;
  #running = 0;
  /** Those of them that have a place among the parked ones. */
  #answering = 0;

  readonly #onFull: (limit: ParkingLimit) => void;

  /**
   * @param limits returns those that are in force
   * @param counts of all processes that the limits are for
   * @param onFull called for each call that is not parked
   */
  constructor(
    limits: () => CapacityLimits,
    counts: Counts,
    onFull: (limit: ParkingLimit) => void = () => {},
  ) {
    this.#limits = limits;
    this.#counts = counts;
    this.#onFull = onFull;
  }

  /** The calls that run in this process. */
  get running(): number {
    return this.#running;
  }

  /** The calls that run or are parked in this process. */
  get used(): number {
    const parked = this.#counts.total('parked') - this.#counts.elsewhere('parked');
    return this.#running + parked - this.#answering;
  }

  /** @returns true if one more call of this principal may run */
  hasRoomToRun(principalKey: string): boolean {
    const max = this.#limits().maxRunningCalls;
    const isLarge = this.#counts.total(runningBy(principalKey)) >= max / 2;
    const left = max - this.#counts.total('running');
    return left > (isLarge ? Math.floor(max * PART_OF_OTHERS) : 0);
  }

  /** @returns true if one more call of this principal may be parked */
  hasRoomToPark(principalKey: string): boolean {
    const limit = this.#limitOfParking(principalKey);
    if (limit !== null) this.#onFull(limit);
    return limit === null;
  }

  #limitOfParking(principalKey: string): ParkingLimit | null {
    const limits = this.#limits();
    const parked = this.#counts.total(parkedBy(principalKey));
    const all = this.#counts.total('parked') + this.#counts.total('released');
    if (all >= limits.maxParkedCalls) return 'maxParkedCalls';
    if (principalKey !== ANONYMOUS_KEY) {
      return parked < limits.maxParkedCallsPerPrincipal ? null : 'maxParkedCallsPerPrincipal';
    }
    return parked < partOfAnonymous(limits.maxParkedCalls) ? null : 'maxParkedCalls';
  }

  /** Counts a call of this principal as `to` from here on, and no longer as `from`. */
  move(from: CallUse, to: CallUse, principalKey: string): void {
    this.#count(from, -1, principalKey);
    this.#count(to, 1, principalKey);
  }

  #count(use: CallUse, change: 1 | -1, principalKey: string): void {
    if (use === 'none') return;
    if (isWork(use)) {
      this.#running += change;
      this.#counts.add('running', change);
      this.#counts.add(runningBy(principalKey), change);
    }
    if (use === 'running') return;
    if (use === 'answering') this.#answering += change;
    this.#counts.add(parkedBy(principalKey), change);
    this.#counts.add(use === 'released' ? 'released' : 'parked', change);
  }
}

function isWork(use: CallUse): boolean {
  return use === 'running' || use === 'answering';
}

function runningBy(principalKey: string): string {
  return `running:${principalKey}`;
}

function parkedBy(principalKey: string): string {
  return `parked:${principalKey}`;
}

/** The part of a call that the registry reads. */
export interface RegisteredCall {
  readonly id: CallId;
  readonly principalKey: string;
  /** `isContinued`: another process, or an earlier attempt, had the call before. */
  readonly origin: { readonly isContinued: boolean };
  readonly state: CallState;
  /** The task that waits for the call; `null` if there is none. */
  readonly task: object | null;
  /** What the call counts as now; only the registry writes it. */
  use: CallUse;
}

/** The times of the settings of a route. */
export interface CallLifetimes {
  /** For how long a call that ended or left is remembered, in ms: the longest life of a call, or of its task. */
  readonly longestCallMs: number;
  /** For how long a call waits for its client, in ms. */
  readonly parkTtlMs: number;
}

export interface CallRegistryOptions extends CallLifetimes {
  /** The instance id of this process. */
  readonly instance: string;
  readonly capacity: Capacity;
  /** Called with each released call whose client did not come back in time, as far as this process knows. */
  readonly onReleaseExpired: (id: CallId) => void;
  /** `null` if no store says which homes are here. */
  readonly ownership: HomeOwnership | null;
  /** Called for each call that may not begin, since too many run. */
  readonly onFull: () => void;
  readonly clock: Clock;
}

export class CallRegistry<Call extends RegisteredCall> {
  /**
   * - `draining`: no call begins here, neither a new one nor a replay
   * - `closed`: no call is resumed here either. Those that were here have ended or are left to others.
   */
  phase: 'open' | 'draining' | 'closed' = 'open';
  readonly #options: CallRegistryOptions;
  readonly #calls = new ReleasingMap<CallId, Call>();
  /** Calls that were left or lost: any replica may continue them, this one as well. */
  readonly #left: TtlSet<CallId>;
  /** Calls that were left to their server while they were parked, and that no retry has resumed here. */
  readonly released: ReleasedCalls;
  /** Calls that were continued here and have ended here. */
  readonly #ended: TtlSet<CallId>;
  #parkTtlMs: number;
  #parked = 0;
  #running = 0;

  constructor(options: CallRegistryOptions) {
    const { clock, longestCallMs, parkTtlMs, capacity, onReleaseExpired: onExpired } = options;
    this.#options = options;
    this.#left = new TtlSet(clock, longestCallMs);
    const move: typeof capacity.move = (...use) => capacity.move(...use);
    this.released = new ReleasedCalls({ clock, move, onExpired });
    this.#ended = new TtlSet(clock, longestCallMs);
    this.#parkTtlMs = parkTtlMs;
  }

  /** Takes over the times of other settings of the route. Calls that began with longer ones are remembered for those. */
  use({ longestCallMs, parkTtlMs }: CallLifetimes): void {
    this.#left.extend(longestCallMs);
    this.#ended.extend(longestCallMs);
    this.#parkTtlMs = parkTtlMs;
  }

  /** How many calls of the route wait for their client. */
  get parked(): number {
    return this.#parked;
  }

  /** How many calls of the route run. */
  get running(): number {
    return this.#running;
  }

  /** Notes that a parked call was left to its server at once (`parking.release`). */
  wasReleased({ id, principalKey, task }: Call): void {
    this.released.add(id, task === null ? principalKey : null, this.#parkTtlMs);
  }

  find(id: CallId): Call | undefined {
    return this.#calls.get(id);
  }

  /** Returns the calls that are here, with those that are over and kept for a repeated retry. */
  all(): Call[] {
    return [...this.#calls.values()];
  }

  /**
   * Decides whether a call may begin here now.
   * @param isRetry whether a retry begins it, as a replay
   * @returns the failure for its client, or `null` if it may begin
   */
  refusal(principalKey: string, isRetry: boolean): Failure | null {
    if (this.phase !== 'open') return isRetry ? STOPPING_FOR_RETRY : STOPPING;
    if (this.#options.capacity.hasRoomToRun(principalKey)) return null;
    this.#options.onFull();
    return isRetry ? OVERLOADED_FOR_RETRY : OVERLOADED;
  }

  /** Adds a call. One that is continued takes the place of a lost call with this id. */
  add(call: Call): void {
    if (call.origin.isContinued) {
      const replaced = this.#calls.get(call.id);
      if (replaced !== undefined) this.#count(replaced, 'none');
      this.#ended.delete(call.id);
      this.released.delete(call.id);
    }
    this.#calls.set(call.id, call);
  }

  /** Counts a call by its new state. */
  moved(call: Call): void {
    if (this.#holds(call)) this.#count(call, useOf(call));
  }

  /** @returns true if the call is parked, or may be */
  hasRoomToPark(call: Call): boolean {
    if (!this.#holds(call)) return false;
    if (call.task !== null) return true;
    return hasPlace(call.state) || this.#options.capacity.hasRoomToPark(call.principalKey);
  }

  /** Forgets a call that is over. One that was replaced is forgotten already. */
  remove(call: Call): void {
    if (!this.#holds(call)) return;
    this.#count(call, 'none');
    this.#calls.delete(call.id);
    const { isContinued } = call.origin;
    if (canContinue(call.state)) {
      this.#left.add(call.id);
      this.#ended.delete(call.id);
      if (isContinued) this.giveUpHome(call.id);
      return;
    }
    if (!isContinued) return;
    this.#ended.add(call.id);
    // Whoever comes with an earlier pointer elsewhere is sent here, where it is known that the call has ended.
    this.#options.ownership?.letGo(homeBornWith(call.id));
  }

  /** @returns true if the call was here, has ended, and was not left for others */
  hasEnded({ owner, callId }: Pointer): boolean {
    if (this.#ended.has(callId)) return true;
    return owner.instance === this.#options.instance && !this.#left.has(callId);
  }

  /** Gives up the home that was born with a call, if this process has claimed it: others can go on with the call. */
  giveUpHome(id: CallId): void {
    this.#options.ownership?.giveUp(homeBornWith(id), true);
  }

  #holds(call: Call): boolean {
    return this.#calls.get(call.id) === call;
  }

  #count(call: Call, use: CallUse): void {
    if (call.use === use) return;
    this.#parked += Number(use === 'parked') - Number(call.use === 'parked');
    this.#running += Number(isWork(use)) - Number(isWork(call.use));
    this.#options.capacity.move(call.use, use, call.principalKey);
    call.use = use;
  }
}

/** Tasks have limits of their own. */
function useOf({ state, task }: RegisteredCall): CallUse {
  if (task !== null) return 'none';
  if (isDetached(state)) return 'parked';
  if (hasPlace(state)) return 'answering';
  return state.name === 'done' ? 'none' : 'running';
}

/** @returns true if a later retry may still continue the call, here or elsewhere */
function canContinue(state: CallState): boolean {
  const end = state.name === 'done' ? state.end.type : null;
  return end === 'left' || end === 'lost' || isEndedByDrain(state);
}
