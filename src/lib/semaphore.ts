/** Work that is limited to so many pieces at a time. */

export class Semaphore {
  readonly #most: number;
  readonly #waiting: (() => void)[] = [];
  #running = 0;

  /** @param most how many pieces of work run at a time */
  constructor(most: number) {
    this.#most = most;
  }

  /** How many pieces of work wait for their turn. */
  get waiting(): number {
    return this.#waiting.length;
  }

  /**
   * Does a piece of work when it is its turn: at once if there is room. Settles as the work does.
   * @param work is told whether it has waited
   */
  async take<Done>(work: (hasWaited: boolean) => Promise<Done>): Promise<Done> {
    const turn = this.enter();
    if (turn !== null) await turn;
    try {
      return await work(turn !== null);
    } finally {
      this.leave();
    }
  }

  /**
   * Begins a piece of work, which `leave` ends.
   * @returns `null` if it begins at once, else a promise that resolves when it is its turn
   */
  enter(): Promise<void> | null {
    if (this.#running >= this.#most)
      return new Promise((resolve) => void this.#waiting.push(resolve));
    this.#running += 1;
    return null;
  }

  leave(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#running -= 1;
    else next();
  }
}
