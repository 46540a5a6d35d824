/** Limits the number of concurrent listeners, in total and per principal. */
import type { Counts } from '../lib/counts.ts';

export interface ListenerLimits {
  readonly maxListeners: number;
  readonly maxListenersPerPrincipal: number;
}

export class ListenerQuota {
  readonly #limits: ListenerLimits;
  readonly #counts: Counts;

  /** @param counts of all processes that the limits are for */
  constructor(limits: ListenerLimits, counts: Counts) {
    this.#limits = limits;
    this.#counts = counts;
  }

  /**
   * Takes one place.
   * @returns a function that gives the place back, or `null` if none is left; further calls do nothing
   */
  take(principalKey: string): (() => void) | null {
    const names = ['listeners', `listeners:${principalKey}`] as const;
    const [all, own] = names.map((name) => this.#counts.total(name));
    const { maxListeners, maxListenersPerPrincipal } = this.#limits;
    if ((all ?? 0) >= maxListeners || (own ?? 0) >= maxListenersPerPrincipal) return null;
    for (const name of names) this.#counts.add(name, 1);
    let isReturned = false;
    return () => {
      if (isReturned) return;
      isReturned = true;
      for (const name of names) this.#counts.add(name, -1);
    };
  }
}
