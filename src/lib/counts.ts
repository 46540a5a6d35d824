/** Counts by name. Several processes can share them, so that a limit holds for all of them together. */

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
