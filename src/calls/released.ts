/** What a process keeps of calls that it left to their server (`parking.release`): enough to limit and to count them. */
import type { Clock, Timer } from '../lib/clock.ts';
import type { CallId } from '../protocol/ids.ts';

type Use = 'released' | 'none';

export interface ReleasedCallsOptions {
  readonly clock: Clock;
  /** Counts a call of this principal as `to` from here on, and no longer as `from`. */
  readonly move: (from: Use, to: Use, principalKey: string) => void;
  /** Called with each call whose client did not come back in time, as far as this process knows. */
  readonly onExpired: (id: CallId) => void;
}

interface Released {
  readonly principalKey: string | null;
  readonly timer: Timer;
}

export class ReleasedCalls {
  readonly #options: ReleasedCallsOptions;
  readonly #calls = new Map<CallId, Released>();

  constructor(options: ReleasedCallsOptions) {
    this.#options = options;
  }

  get size(): number {
    return this.#calls.size;
  }

  /**
   * @param principalKey whose call counts; `null` for a call of a task, which has limits of its own
   * @param ttlMs for how long the call waits for its client, in ms
   */
  add(id: CallId, principalKey: string | null, ttlMs: number): void {
    const { clock, move, onExpired } = this.#options;
    this.delete(id);
    const timer = clock.setTimer(ttlMs, () => {
      this.delete(id);
      if (principalKey !== null) onExpired(id);
    });
    this.#calls.set(id, { principalKey, timer });
    if (principalKey !== null) move('none', 'released', principalKey);
  }

  delete(id: CallId): void {
    const released = this.#calls.get(id);
    if (released === undefined) return;
    const { timer, principalKey } = released;
    timer.cancel();
    this.#calls.delete(id);
    if (principalKey !== null) this.#options.move('released', 'none', principalKey);
  }

  clear(): void {
    for (const id of [...this.#calls.keys()]) this.delete(id);
  }
}
