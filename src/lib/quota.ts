/** Limits how many of something there are at a time, in total and for each principal. */
import type { Counts } from './counts.ts';

export interface QuotaLimits {
  readonly max: number;
  readonly maxPerPrincipal: number;
}

export class Quota {
  readonly #name: string;
  readonly #limits: () => QuotaLimits;
  readonly #counts: Counts;

  /**
   * @param name of what is counted
   * @param limits returns those that are in force
   * @param counts of all processes that the limits are for
   */
  constructor(name: string, limits: () => QuotaLimits, counts: Counts) {
    this.#name = name;
    this.#limits = limits;
    this.#counts = counts;
  }

  /**
   * Takes one place.
   * @returns a function that gives the place back, or `null` if none is left; further calls do nothing
   */
  take(principalKey: string): (() => void) | null {
    const { max, maxPerPrincipal } = this.#limits();
    const [all, own] = this.#namesFor(principalKey).map((name) => this.#counts.total(name));
    const isFull = (all ?? 0) >= max || (own ?? 0) >= maxPerPrincipal;
    return isFull ? null : this.takeAnyway(principalKey);
  }

  /** Takes one place, even if none is left. @returns a function that gives it back */
  takeAnyway(principalKey: string): () => void {
    const names = this.#namesFor(principalKey);
    for (const name of names) this.#counts.add(name, 1);
    let isReturned = false;
    return () => {
      if (isReturned) return;
      isReturned = true;
      for (const name of names) this.#counts.add(name, -1);
    };
  }

  #namesFor(principalKey: string): readonly string[] {
    return [this.#name, `${this.#name}:${principalKey}`];
  }
}
