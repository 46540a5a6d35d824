/** Counts who uses a thing, and tells when nobody has for a while, so that it never goes in mid-use. */
import type { Clock, Timer } from '../../lib/clock.ts';

export class UseCount {
  readonly #clock: Clock;
  readonly #idleMs: number;
  readonly #over: () => void;
  #users = 0;
  #timer: Timer | null = null;
  #retired = false;

  /**
   * The thing is idle at first.
   * @param idleMs how long it may be
   * @param over called once, when it has been idle for that long, or was retired
   */
  constructor(clock: Clock, idleMs: number, over: () => void) {
    this.#clock = clock;
    this.#idleMs = idleMs;
    this.#over = over;
    this.#rest();
  }

  get inUse(): boolean {
    return this.#users > 0;
  }

  /** In use until the function that is given back was called. */
  use(): () => void {
    this.#users += 1;
    this.stop();
    let released = false;
    return () => {
      if (released) return;
      released = true;
      this.#users -= 1;
      if (this.#users === 0) this.#rest();
    };
  }

  /** It is over as soon as nobody uses it. */
  retire(): void {
    if (this.#retired) return;
    this.#retired = true;
    if (this.#users === 0) this.#rest();
  }

  /** However long it is idle from here on, that is not told. */
  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  #rest(): void {
    this.stop();
    if (this.#retired) this.#over();
    else this.#timer = this.#clock.setTimer(this.#idleMs, this.#over);
  }
}
