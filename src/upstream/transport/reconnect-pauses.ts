/**
 * The pauses before a stream is opened again: they double, so that a server that ends each connection at once is not
 * flooded. A random part keeps the streams of many sessions apart.
 */
const FIRST_MS = 1_000;
const LONGEST_MS = 60_000;

export class ReconnectPauses {
  readonly #random: () => number;
  #nextMs = FIRST_MS;

  /** @param random returns a number from 0 up to 1 */
  constructor(random: () => number) {
    this.#random = random;
  }

  /** Returns the next pause, in ms. @param leastMs how long the server asks to wait, in ms */
  next(leastMs = 0): number {
    const pauseMs = Math.round(this.#nextMs * (0.5 + this.#random() / 2));
    this.#nextMs = Math.min(this.#nextMs * 2, LONGEST_MS);
    return Math.max(pauseMs, leastMs);
  }

  /** A connection that was open for so many ms has ended. One that was of use starts the pauses again. */
  ended(hasHeard: boolean, openMs: number): void {
    if (hasHeard || openMs >= LONGEST_MS) this.#nextMs = FIRST_MS;
  }
}
