/** Counts by name, and limits on them. Several processes can share them, so that a limit holds for all of them together. */

export interface Counts {
  /** Changes what this process counts under the name. */
  add(name: string, change: number): void;
  /** Returns the count of this process and of all that share it. */
  total(name: string): number;
  /** Returns the part of `total` that is not of this process. */
  elsewhere(name: string): number;
  /**
   * Calls the listener each time that the counts of the other processes have changed.
   * @returns a function that ends that
   */
  onChange(listener: () => void): () => void;
}

/** The counts of a process that shares them with no other. */
export class LocalCounts implements Counts {
  readonly #own = new Map<string, number>();

  add(name: string, change: number): void {
    const count = this.own(name) + change;
    if (count === 0) this.#own.delete(name);
    else this.#own.set(name, count);
  }

  own(name: string): number {
    return this.#own.get(name) ?? 0;
  }

  total(name: string): number {
    return this.own(name) + this.elsewhere(name);
  }

  elsewhere(_name: string): number {
    return 0;
  }

  onChange(_listener: () => void): () => void {
    // There are no others.
    return () => {};
  }
}

export interface QuotaLimits {
  readonly max: number;
  readonly maxPerPrincipal: number;
}

/** Returns how much of a limit is for all anonymous callers together, who cannot be told apart: others have the rest. */
export function partOfAnonymous(max: number): number {
  return Math.ceil(max / 2);
}

/** Limits how many of something there are at a time, in total and for each principal. */
export class Quota {
  readonly #name: string;
  readonly #limits: (principalKey: string) => QuotaLimits;
  readonly #counts: Counts;

  /**
   * @param name of what is counted
   * @param limits returns those that are in force for a principal
   * @param counts of all processes that the limits are for
   */
  constructor(name: string, limits: (principalKey: string) => QuotaLimits, counts: Counts) {
    this.#name = name;
    this.#limits = limits;
    this.#counts = counts;
  }

  /**
   * Takes one place.
   * @returns a function that gives the place back, or `null` if none is left; further calls do nothing
   */
  take(principalKey: string): (() => void) | null {
    const { max, maxPerPrincipal } = this.#limits(principalKey);
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
