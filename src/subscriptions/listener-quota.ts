/** Limits the number of concurrent listeners, in total and per principal. */

export interface ListenerLimits {
  readonly maxListeners: number;
  readonly maxListenersPerPrincipal: number;
}

export class ListenerQuota {
  readonly #limits: ListenerLimits;
  readonly #perPrincipal = new Map<string, number>();
  #taken = 0;

  constructor(limits: ListenerLimits) {
    this.#limits = limits;
  }

  /**
   * Takes one place.
   * @returns a function that gives the place back, or `null` if none is left; further calls do nothing
   */
  take(principalKey: string): (() => void) | null {
    const own = this.#perPrincipal.get(principalKey) ?? 0;
    const { maxListeners, maxListenersPerPrincipal } = this.#limits;
    if (this.#taken >= maxListeners || own >= maxListenersPerPrincipal) return null;
    this.#taken += 1;
    this.#perPrincipal.set(principalKey, own + 1);
    let isReturned = false;
    return () => {
      if (isReturned) return;
      isReturned = true;
      this.#taken -= 1;
      const left = (this.#perPrincipal.get(principalKey) ?? 1) - 1;
      if (left > 0) this.#perPrincipal.set(principalKey, left);
      else this.#perPrincipal.delete(principalKey);
    };
  }
}
