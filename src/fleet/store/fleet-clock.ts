/**
 * The time that replicas share. They compare times of each other (when a pointer was sealed, when it expires), so
 * their clocks must agree. If they share Redis, its clock counts: each replica measures the offset of its own.
 */
import type { Clock, Timer } from '../../lib/clock.ts';
import type { RedisClient } from '../redis/client.ts';

/** A reading of the clock of Redis. */
export interface ClockSample {
  readonly storeMs: number;
  /** The local time before the command and after its reply. Redis read its clock in between. */
  readonly sentAtMs: number;
  readonly receivedAtMs: number;
}

/** Reads the clock of Redis. @throws Error of the Redis client */
export async function readClock(
  redis: RedisClient,
  clock: Pick<Clock, 'now'>,
): Promise<ClockSample> {
  const sentAtMs = clock.now();
  const [seconds, microseconds] = await redis.time();
  const storeMs = Number(seconds) * 1000 + Number(microseconds) / 1000;
  return { storeMs, sentAtMs, receivedAtMs: clock.now() };
}

/** A smaller offset does no harm, and a correction would make time uneven. */
const TOLERATED_SKEW_MS = 1_000;

export class FleetClock implements Clock {
  readonly #clock: Clock;
  readonly #listeners: ((aheadMs: number) => void)[] = [];
  #correctionMs = 0;
  #aheadMs: number | null = null;

  /** @param clock of this machine, which counts until the first sample */
  constructor(clock: Clock) {
    this.#clock = clock;
  }

  now(): number {
    return this.#clock.now() - this.#correctionMs;
  }

  elapsed(): number {
    return this.#clock.elapsed();
  }

  /** Durations need no correction: a clock that is wrong runs as fast as one that is right. */
  setTimer(afterMs: number, callback: () => void): Timer {
    return this.#clock.setTimer(afterMs, callback);
  }

  /** The offset of this machine's clock from that of Redis, in ms; `null` before the first sample. */
  get aheadMs(): number | null {
    return this.#aheadMs;
  }

  /** Calls the listener with `aheadMs` each time that it crosses the tolerated offset, or changes by as much. */
  onSkew(listener: (aheadMs: number) => void): void {
    this.#listeners.push(listener);
  }

  sample({ storeMs, sentAtMs, receivedAtMs }: ClockSample): void {
    const offMs = (sentAtMs + receivedAtMs) / 2 - storeMs;
    const uncertainMs = (receivedAtMs - sentAtMs) / 2;
    const aheadMs = this.#correctionMs + offMs;
    if (!Number.isFinite(aheadMs)) return;
    this.#aheadMs = aheadMs;
    if (Math.abs(offMs) - uncertainMs <= TOLERATED_SKEW_MS) return;
    this.#correctionMs = Math.abs(aheadMs) <= TOLERATED_SKEW_MS ? 0 : aheadMs;
    for (const listener of this.#listeners) listener(aheadMs);
  }
}
