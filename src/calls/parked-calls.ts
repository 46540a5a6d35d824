/**
 * Where calls are kept between their rounds, and how many may wait at once, in all and for one
 * principal. Memory only; a call lives in the process that holds its upstream stream.
 */
import type { CallId } from '../protocol/ids.ts';

export interface LotLimits {
  readonly maxParked: number;
  readonly maxParkedPerPrincipal: number;
}

interface Place<Call> {
  readonly call: Call;
  readonly principalKey: string;
  parked: boolean;
}

export class ParkedCalls<Call> {
  readonly #limits: LotLimits;
  readonly #places = new Map<CallId, Place<Call>>();
  readonly #parkedBy = new Map<string, number>();
  #parked = 0;

  constructor(limits: LotLimits) {
    this.#limits = limits;
  }

  put(id: CallId, call: Call, principalKey: string): void {
    this.#places.set(id, { call, principalKey, parked: false });
  }

  find(id: CallId): Call | undefined {
    return this.#places.get(id)?.call;
  }

  calls(): Call[] {
    return [...this.#places.values()].map((place) => place.call);
  }

  /** True when this call may be parked: it is already, or there is room for it. */
  hasRoomFor(id: CallId): boolean {
    const place = this.#places.get(id);
    if (place === undefined) return false;
    if (place.parked) return true;
    const mine = this.#parkedBy.get(place.principalKey) ?? 0;
    return this.#parked < this.#limits.maxParked && mine < this.#limits.maxParkedPerPrincipal;
  }

  /** Counts the call as parked, or not any more. */
  setParked(id: CallId, parked: boolean): void {
    const place = this.#places.get(id);
    if (place === undefined || place.parked === parked) return;
    place.parked = parked;
    const change = parked ? 1 : -1;
    this.#parked += change;
    const mine = (this.#parkedBy.get(place.principalKey) ?? 0) + change;
    if (mine > 0) this.#parkedBy.set(place.principalKey, mine);
    else this.#parkedBy.delete(place.principalKey);
  }

  remove(id: CallId): void {
    this.setParked(id, false);
    this.#places.delete(id);
  }
}
