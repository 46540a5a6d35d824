/** Finds out whether this process has more to do than it can. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Clock } from '../lib/clock.ts';

/** How often the event loop is looked at, in ms. The delay is that beyond it. */
const RESOLUTION_MS = 20;
const WINDOW_MS = 1_000;
/** With a delay in between, the next request after a window comes this late at most. */
const MAX_GAP_MS = 10_000;
/** One long task is no overload. */
const WINDOWS = 2;

/** Measures the mean delay of the event loop since it was last read. */
export interface DelayMeter {
  /** @returns the mean in ms */
  read(): number;
  close(): void;
}

/** Measures the event loop of this process. */
export function eventLoopMeter(): DelayMeter {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  histogram.enable();
  return {
    read: () => {
      const { mean } = histogram;
      histogram.reset();
      return Number.isNaN(mean) ? 0 : Math.max(0, mean / 1e6 - RESOLUTION_MS);
    },
    close: () => void histogram.disable(),
  };
}

export class EventLoopMonitor {
  readonly #maxDelayMs: number;
  readonly #meter: DelayMeter;
  readonly #clock: Pick<Clock, 'elapsed'>;
  #readAtMs: number;
  /** The windows in a row in which the delay was too long. */
  #slow = 0;

  constructor(maxDelayMs: number, meter: DelayMeter, clock: Pick<Clock, 'elapsed'>) {
    this.#maxDelayMs = maxDelayMs;
    this.#meter = meter;
    this.#clock = clock;
    this.#readAtMs = clock.elapsed();
  }

  /** Is to be called for each request. @returns whether it was late in the last windows */
  isLate(): boolean {
    const sinceMs = this.#clock.elapsed() - this.#readAtMs;
    if (sinceMs >= WINDOW_MS) {
      this.#readAtMs += sinceMs;
      const isSlow = this.#meter.read() > this.#maxDelayMs;
      // What was long ago says nothing.
      const isInRow = sinceMs < MAX_GAP_MS;
      this.#slow = isSlow ? (isInRow ? this.#slow : 0) + 1 : 0;
    }
    return this.#slow >= WINDOWS;
  }

  close(): void {
    this.#meter.close();
  }
}
