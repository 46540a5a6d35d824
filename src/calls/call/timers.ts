/** The timers of one call, each under the name that the table knows it by. */
import type { Clock, Timer } from '../../lib/clock.ts';
import type { TimerName } from '../machine/states.ts';

export class CallTimers {
  readonly #clock: Clock;
  readonly #fired: (timer: TimerName) => void;
  readonly #timers = new Map<TimerName, Timer>();

  constructor(clock: Clock, fired: (timer: TimerName) => void) {
    this.#clock = clock;
    this.#fired = fired;
  }

  /** Starts a timer, anew if it runs already. */
  arm(name: TimerName, afterMs: number): void {
    this.#timers.get(name)?.cancel();
    this.#timers.set(
      name,
      this.#clock.setTimer(afterMs, () => {
        this.#timers.delete(name);
        this.#fired(name);
      }),
    );
  }

  /** Stops every timer but these. */
  keepOnly(names: readonly TimerName[]): void {
    for (const [name, timer] of this.#timers) {
      if (names.includes(name)) continue;
      timer.cancel();
      this.#timers.delete(name);
    }
  }
}
