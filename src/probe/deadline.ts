/** The deadline of a probe: a clock whose timers fire no later than that, except those of the end of the session. */
import type { Clock, Timer } from '../lib/clock.ts';

/** How long a timer can take that starts after the deadline: the session is still ended then. */
export const CLOSING_MS = 2_500;

export class Deadline implements Clock {
  readonly #clock: Clock;
  readonly #pending = new Set<() => void>();
  #atMs: number;

  /** @param afterMs how long the whole probe can take, in ms from now */
  constructor(clock: Clock, afterMs: number) {
    this.#clock = clock;
    this.#atMs = clock.now() + afterMs;
  }

  get passed(): boolean {
    return this.now() >= this.#atMs;
  }

  now(): number {
    return this.#clock.now();
  }

  elapsed(): number {
    return this.#clock.elapsed();
  }

  setTimer(afterMs: number, callback: () => void): Timer {
    const fire = () => {
      cancel();
      callback();
    };
    const leftMs = this.passed ? CLOSING_MS : this.#atMs - this.now();
    const timer = this.#clock.setTimer(Math.min(afterMs, leftMs), fire);
    const cancel = () => {
      timer.cancel();
      this.#pending.delete(fire);
    };
    this.#pending.add(fire);
    return { cancel };
  }

  /** Runs the work with a signal that aborts after `afterMs`, or at the deadline. */
  async within<Result>(
    afterMs: number,
    work: (signal: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const abort = new AbortController();
    const timer = this.setTimer(afterMs, () => abort.abort());
    try {
      return await work(abort.signal);
    } finally {
      timer.cancel();
    }
  }

  /** Ends the deadline now: all pending timers fire. */
  expire(): void {
    this.#atMs = Math.min(this.#atMs, this.now());
    for (const fire of [...this.#pending]) fire();
  }
}
