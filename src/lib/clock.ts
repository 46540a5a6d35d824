/** Time as a dependency: everything that waits takes a `Clock`, so that tests control the time. And what ends a wait early. */

import { RingPlace } from './containers.ts';

export interface Timer {
  /** Stops the timer. It does nothing if the timer has fired. */
  cancel(): void;
}

export interface Clock {
  /** Milliseconds since the epoch. */
  now(): number;
  /** Monotonic milliseconds: changes of the system time do not affect it. */
  elapsed(): number;
  /** Runs `callback` once, after `afterMs` milliseconds. */
  setTimer(afterMs: number, callback: () => void): Timer;
}

/**
 * Timers of few different lengths: those of one length share one timer of a clock. Most are cancelled soon, and
 * then cost that clock nothing. Long ones can have lengths that do not come again: without any timer they are forgotten at once.
 */
export class TimerQueues {
  readonly #clock: Pick<Clock, 'elapsed' | 'setTimer'>;
  readonly #queues = new Map<number, TimerQueue>();

  constructor(clock: Pick<Clock, 'elapsed' | 'setTimer'>) {
    this.#clock = clock;
  }

  /** Runs `callback` once, after `afterMs` milliseconds. */
  start(afterMs: number, callback: () => void): Timer {
    let queue = this.#queues.get(afterMs);
    if (queue === undefined) {
      queue = new TimerQueue(this.#clock, afterMs, () => this.#queues.delete(afterMs));
      this.#queues.set(afterMs, queue);
    }
    return queue.start(callback);
  }
}

/** An empty queue of a longer length, in ms, is not kept until one of its timers would have been due. */
const LONG_MS = 60_000;

class TimerQueue {
  readonly #clock: Pick<Clock, 'elapsed' | 'setTimer'>;
  readonly #afterMs: number;
  readonly #onEmpty: () => void;
  /** The end of a ring of timers, in the order in which they are due. */
  readonly #end = new QueuedTimer(Infinity, () => {}, null);
  /** Until the first timer is due; `null` while none is awaited. */
  #ticking: Timer | null = null;

  /** @param onEmpty called when no timer is left, and none is awaited */
  constructor(clock: Pick<Clock, 'elapsed' | 'setTimer'>, afterMs: number, onEmpty: () => void) {
    this.#clock = clock;
    this.#afterMs = afterMs;
    this.#onEmpty = onEmpty;
  }

  start(callback: () => void): Timer {
    const timer = new QueuedTimer(this.#clock.elapsed() + this.#afterMs, callback, this);
    timer.putBefore(this.#end);
    if (this.#ticking === null) this.#tickAfter(this.#afterMs);
    return timer;
  }

  /** Notes that a timer was cancelled. */
  cancelled(): void {
    if (this.#ticking === null || this.#afterMs <= LONG_MS || this.#end.next !== this.#end) return;
    this.#ticking.cancel();
    this.#ticking = null;
    this.#onEmpty();
  }

  #tickAfter(waitMs: number): void {
    this.#ticking = this.#clock.setTimer(waitMs, () => this.#tick());
  }

  #tick(): void {
    this.#ticking = null;
    const now = this.#clock.elapsed();
    const due: QueuedTimer[] = [];
    for (let first = this.#end.next; first.dueMs <= now; first = this.#end.next) {
      first.leave();
      due.push(first);
    }
    const { next } = this.#end;
    if (next === this.#end) this.#onEmpty();
    else this.#tickAfter(Math.ceil(next.dueMs - now));
    const errors: unknown[] = [];
    for (const timer of due) {
      try {
        timer.fire();
      } catch (error) {
        errors.push(error);
      }
    }
    if (errors.length > 0) throw errors.length === 1 ? errors[0] : new AggregateError(errors);
  }
}

/** A timer, and its place in a queue: one that leaves it leaves no garbage there. */
class QueuedTimer extends RingPlace implements Timer {
  readonly dueMs: number;
  #callback: (() => void) | null;
  readonly #queue: TimerQueue | null;

  constructor(dueMs: number, callback: () => void, queue: TimerQueue | null) {
    super();
    this.dueMs = dueMs;
    this.#callback = callback;
    this.#queue = queue;
  }

  fire(): void {
    this.#callback?.();
  }

  cancel(): void {
    this.#callback = null;
    this.leave();
    this.#queue?.cancelled();
  }
}

const elapsed = (): number => performance.now();

/** Node.js fires a longer timer at once. One that fires early looks again. */
const LONGEST_TIMEOUT_MS = 2 ** 31 - 1;

const timers = new TimerQueues({
  elapsed,
  setTimer(afterMs, callback) {
    const timeout = setTimeout(callback, Math.min(afterMs, LONGEST_TIMEOUT_MS));
    timeout.unref();
    return { cancel: () => clearTimeout(timeout) };
  },
});

/** The real clock. Its timers do not keep the process alive. */
export const systemClock: Clock = {
  now: () => Date.now(),
  elapsed,
  setTimer(afterMs, callback) {
    if (afterMs > 0) return timers.start(afterMs, callback);
    // After everything that has arrived was read. A timer of Node.js waits for 1 ms at least.
    const immediate = setImmediate(callback);
    return { cancel: () => clearImmediate(immediate) };
  },
};

/** Tells that a client has left. It has the part of an AbortSignal that calls need, so every AbortSignal is one. */
export interface Closed {
  readonly aborted: boolean;
  addEventListener(type: 'abort', listener: () => void): void;
  removeEventListener(type: 'abort', listener: () => void): void;
}

/** A `Closed` for each request: an AbortController, with its EventTarget, takes several times as long to create. */
export class Closing implements Closed {
  aborted = false;
  #listeners: (() => void)[] = [];

  addEventListener(_type: 'abort', listener: () => void): void {
    this.#listeners.push(listener);
  }

  removeEventListener(_type: 'abort', listener: () => void): void {
    const at = this.#listeners.indexOf(listener);
    if (at >= 0) this.#listeners.splice(at, 1);
  }

  abort(): void {
    if (this.aborted) return;
    this.aborted = true;
    for (const listener of this.#listeners.splice(0)) listener();
  }
}

/**
 * Returns how much is left of a time whose beginning was written down. If the clock was set back since, all of it is.
 * @param beganAtMs in ms since the epoch
 * @param lastsMs in ms
 */
export function timeLeftMs(clock: Pick<Clock, 'now'>, beganAtMs: number, lastsMs: number): number {
  return Math.min(lastsMs, Math.max(0, beganAtMs + lastsMs - clock.now()));
}

/** Resolves after `afterMs` milliseconds, or as soon as one of the signals aborts. */
export function sleep(
  clock: Clock,
  afterMs: number,
  ...signals: readonly (Closed | undefined)[]
): Promise<void> {
  return new Promise((resolve) => {
    if (signals.some((signal) => signal?.aborted === true)) return resolve();
    const finish = () => {
      timer.cancel();
      for (const signal of signals) signal?.removeEventListener('abort', finish);
      resolve();
    };
    const timer = clock.setTimer(afterMs, finish);
    for (const signal of signals) signal?.addEventListener('abort', finish);
  });
}
