/** Counts who uses a session, and finds out that nobody has for some time. */
import type { Clock, Timer } from '../lib/clock.ts';

/** Counts the requests that use a session, and calls back when it was idle for some time. */
export class UseCount {
  readonly #clock: Clock;
  readonly #idleMs: number;
  readonly #over: () => void;
  #users = 0;
  #timer: Timer | null = null;

  /**
   * @param idleMs how long the session may be idle, in ms; it is idle at first
   * @param over called when it was idle for so long
   */
  constructor(clock: Clock, idleMs: number, over: () => void) {
    this.#clock = clock;
    this.#idleMs = idleMs;
    this.#over = over;
    this.#idle();
  }

  get inUse(): boolean {
    return this.#users > 0;
  }

  /** Counts one more user, until the returned function is called. */
  use(): () => void {
    this.#users += 1;
    this.stop();
    let isBack = false;
    return () => {
      if (isBack) return;
      isBack = true;
      this.#users -= 1;
      if (this.#users === 0) this.#idle();
    };
  }

  /** Stops the timer: idle time is no longer reported. */
  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  #idle(): void {
    this.stop();
    this.#timer = this.#clock.setTimer(this.#idleMs, this.#over);
  }
}
