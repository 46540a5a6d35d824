/** How many streams may be listened on at a time: by everybody, and by one principal. */

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

  /** Takes a place and returns what gives it back, once; `null` when there is none left. */
  take(principalKey: string): (() => void) | null {
    const own = this.#perPrincipal.get(principalKey) ?? 0;
    const { maxListeners, maxListenersPerPrincipal } = this.#limits;
    if (this.#taken >= maxListeners || own >= maxListenersPerPrincipal) return null;
    this.#taken += 1;
    this.#perPrincipal.set(principalKey, own + 1);
    let given = false;
    return () => {
      if (given) return;
      given = true;
      this.#taken -= 1;
      const left = (this.#perPrincipal.get(principalKey) ?? 1) - 1;
      if (left > 0) this.#perPrincipal.set(principalKey, left);
      else this.#perPrincipal.delete(principalKey);
    };
  }
}
