/** How many calls of the process run and are parked, over all routes, and how many may. */

export interface CapacityLimits {
  readonly maxRunning: number;
  readonly maxParked: number;
  readonly maxParkedPerPrincipal: number;
}

/** What a call counts as: work for a client that waits, or a call that waits for its client. */
export type CallUse = 'running' | 'parked' | 'none';

export class Capacity {
  readonly #limits: CapacityLimits;
  #running = 0;
  #parked = 0;
  readonly #parkedBy = new Map<string, number>();

  constructor(limits: CapacityLimits) {
    this.#limits = limits;
  }

  get running(): number {
    return this.#running;
  }

  /** True if no further call may run. */
  get isFull(): boolean {
    return this.#running >= this.#limits.maxRunning;
  }

  /** @returns true if one more call of this principal may be parked */
  hasRoomToPark(principalKey: string): boolean {
    const { maxParked, maxParkedPerPrincipal } = this.#limits;
    const parkedByPrincipal = this.#parkedBy.get(principalKey) ?? 0;
    return this.#parked < maxParked && parkedByPrincipal < maxParkedPerPrincipal;
  }

  /** Counts a call of this principal as `to` from here on, and no longer as `from`. */
  move(from: CallUse, to: CallUse, principalKey: string): void {
    this.#count(from, -1, principalKey);
    this.#count(to, 1, principalKey);
  }

  #count(use: CallUse, change: 1 | -1, principalKey: string): void {
    if (use === 'running') this.#running += change;
    if (use !== 'parked') return;
    this.#parked += change;
    const count = (this.#parkedBy.get(principalKey) ?? 0) + change;
    if (count > 0) this.#parkedBy.set(principalKey, count);
    else this.#parkedBy.delete(principalKey);
  }
}
