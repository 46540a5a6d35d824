/**
 * The time that replicas share. They read each other's times (when a pointer was sealed, until when it and a
 * letter are good), so the clocks of their machines have to agree. Where they share a store, its clock counts:
 * each replica measures how far its own is off, and corrects what it reads and writes by that.
 */
import type { Clock, Timer } from '../../lib/clock.ts';

/** One look at the store's clock. */
export interface ClockSample {
  readonly storeMs: number;
  /** By our time, before the question and after its answer: the store looked in between. */
  readonly askedAtMs: number;
  readonly answeredAtMs: number;
}

/** A smaller difference harms nothing, and correcting it would make time uneven. */
const TOLERATED_SKEW_MS = 1_000;

export class FleetClock implements Clock {
  readonly #clock: Clock;
  readonly #listeners: ((aheadMs: number) => void)[] = [];
  #correctionMs = 0;
  #aheadMs: number | null = null;

  /** @param clock that of this machine; it is believed until there is a sample */
  constructor(clock: Clock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now() - this.#correctionMs;
  }

  elapsed(): number {
    return this.#clock.elapsed();
  }

  /** Durations are those of this machine: a clock that is wrong runs as fast as one that is right. */
  setTimer(afterMs: number, callback: () => void): Timer {
    return this.#clock.setTimer(afterMs, callback);
  }

  /** How far the clock of this machine is ahead of the store's, in ms; `null` before the first sample. */
  get aheadMs(): number | null {
    return this.#aheadMs;
  }

  /** Calls the listener with `aheadMs` when it begins or ceases to be tolerable, or changes by as much. */
  onSkew(listener: (aheadMs: number) => void): void {
    this.#listeners.push(listener);
  }

  sample({ storeMs, askedAtMs, answeredAtMs }: ClockSample): void {
    const offMs = (askedAtMs + answeredAtMs) / 2 - storeMs;
    const uncertainMs = (answeredAtMs - askedAtMs) / 2;
    const aheadMs = this.#correctionMs + offMs;
    if (!Number.isFinite(aheadMs)) return;
    this.#aheadMs = aheadMs;
    if (Math.abs(offMs) - uncertainMs <= TOLERATED_SKEW_MS) return;
    this.#correctionMs = Math.abs(aheadMs) <= TOLERATED_SKEW_MS ? 0 : aheadMs;
    for (const listener of this.#listeners) listener(aheadMs);
  }
}
