/**
 * How long a stream that was taken up may say nothing. Some servers accept a resumption, repeat what was
 * missed, and never write anything new to the stream: what they store meanwhile comes with the next
 * resumption only.
 */
import type { Clock, Timer } from '../../lib/clock.ts';

const FIRST_WAIT_MS = 5_000;
const MAX_WAIT_MS = 60_000;

export class Silence {
  readonly #clock: Clock;
  #waitMs = FIRST_WAIT_MS;
  #timer: Timer | null = null;
  #tooLong: () => void = () => {};

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Waits for `broken` from now on, and calls `tooLong` once when it does not come. */
  listen(tooLong: () => void): void {
    this.#tooLong = tooLong;
    this.#start();
  }

  /** Something was said, or is to be expected soon: the wait begins again, and is a short one. */
  broken(): void {
    this.#waitMs = FIRST_WAIT_MS;
    if (this.#timer !== null) this.#start();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  /** Waits again after a stop. */
  goOn(): void {
    this.#start();
  }

  #start(): void {
    this.stop();
    this.#timer = this.#clock.setTimer(this.#waitMs, () => {
      this.#timer = null;
      this.#waitMs = Math.min(this.#waitMs * 2, MAX_WAIT_MS);
      this.#tooLong();
    });
  }
}
