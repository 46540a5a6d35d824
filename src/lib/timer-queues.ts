/** Many timers of few different lengths: all timers of one length share one timer of the clock. */
import type { Clock, Timer } from './clock.ts';

export class TimerQueues {
  readonly #clock: Clock;
  readonly #queues = new Map<number, TimerQueue>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Runs `callback` once, after `afterMs` milliseconds. */
  start(afterMs: number, callback: () => void): Timer {
    let queue = this.#queues.get(afterMs);
    if (queue === undefined) {
      queue = new TimerQueue(this.#clock, afterMs);
      this.#queues.set(afterMs, queue);
    }
    return queue.start(callback);
  }

  /** Cancels all timers. */
  clear(): void {
    for (const queue of this.#queues.values()) queue.clear();
  }
}

class TimerQueue {
  readonly #clock: Clock;
  readonly #afterMs: number;
  /** In the order in which they are due. */
  readonly #timers = new Set<QueuedTimer>();
  #next: Timer | null = null;

  constructor(clock: Clock, afterMs: number) {
    this.#clock = clock;
    this.#afterMs = afterMs;
  }

  start(callback: () => void): Timer {
    const dueMs = this.#clock.elapsed() + this.#afterMs;
    const timer = new QueuedTimer(this, dueMs, callback);
    this.#timers.add(timer);
    this.#next ??= this.#clock.setTimer(this.#afterMs, () => this.#fire());
    return timer;
  }

  remove(timer: QueuedTimer): void {
    this.#timers.delete(timer);
    if (this.#timers.size === 0) this.clear();
  }

  clear(): void {
    this.#timers.clear();
    this.#next?.cancel();
    this.#next = null;
  }

  #fire(): void {
    this.#next = null;
    const now = this.#clock.elapsed();
    const due: QueuedTimer[] = [];
    for (const timer of this.#timers) {
      if (timer.dueMs > now) {
        this.#next = this.#clock.setTimer(Math.ceil(timer.dueMs - now), () => this.#fire());
        break;
      }
      this.#timers.delete(timer);
      due.push(timer);
    }
    for (const timer of due) timer.fire();
  }
}

class QueuedTimer implements Timer {
  readonly dueMs: number;
  readonly #queue: TimerQueue;
  #callback: (() => void) | null;

  constructor(queue: TimerQueue, dueMs: number, callback: () => void) {
    this.#queue = queue;
    this.dueMs = dueMs;
    this.#callback = callback;
  }

  fire(): void {
    this.#callback?.();
  }

  cancel(): void {
    this.#callback = null;
    this.#queue.remove(this);
  }
}
