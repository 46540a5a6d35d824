/**
 * The idle timeout of a resumed stream. Some servers accept a resumption, replay what was missed, and never
 * write to the stream again: newer events come with the next resumption only.
 */
import type { Clock, Timer } from '../../lib/clock.ts';

const FIRST_TIMEOUT_MS = 5_000;
const MAX_TIMEOUT_MS = 60_000;

export class IdleTimeout {
  readonly #clock: Clock;
  readonly #onIdle: () => void;
  #timeoutMs = FIRST_TIMEOUT_MS;
  #timer: Timer | null = null;

  /** @param onIdle called each time when the stream was idle for too long; the next timeout is longer */
  constructor(clock: Clock, onIdle: () => void) {
    this.#clock = clock;
    this.#onIdle = onIdle;
  }

  start(): void {
    this.stop();
    this.#timer = this.#clock.setTimer(this.#timeoutMs, () => {
      this.#timer = null;
      this.#timeoutMs = Math.min(this.#timeoutMs * 2, MAX_TIMEOUT_MS);
      this.#onIdle();
    });
  }

  /** Something was received, or is expected soon: the next timeout is short again. */
  reset(): void {
    this.#timeoutMs = FIRST_TIMEOUT_MS;
    if (this.#timer !== null) this.start();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }
}
