/** How long nothing may be heard of another replica, also for a process that stalls itself. */
import { describe, expect, test } from 'vitest';
import type { Clock } from '../../../../src/lib/clock.ts';
import {
  REQUESTER_TIMEOUT_MS,
  OWNER_TIMEOUT_MS,
  startWatchdog,
} from '../../../../src/fleet/relay/liveness.ts';
import { ManualClock } from '../../../fixtures/manual-clock.ts';

/** The clock of a process that stalls: what is due meanwhile fires afterwards, and late. */
class StallingClock implements Clock {
  #due: (() => void)[] = [];
  #nowMs = 0;

  now(): number {
    return this.#nowMs;
  }

  elapsed(): number {
    return this.#nowMs;
  }

  setTimer(_afterMs: number, callback: () => void) {
    this.#due.push(callback);
    return { cancel: () => void (this.#due = this.#due.filter((due) => due !== callback)) };
  }

  /** Timers that are set by those that fire have their time to come. */
  stall(ms: number): void {
    this.#nowMs += ms;
    for (const callback of this.#due.splice(0)) callback();
  }
}

/** A watch, and how often it found that the other one is silent. */
function watching(clock: Clock, afterMs: number) {
  const found = { silences: 0 };
  const watch = startWatchdog(clock, afterMs, () => (found.silences += 1));
  return { ...watch, found };
}

describe.each([
  { who: 'an owner', afterMs: OWNER_TIMEOUT_MS },
  { who: 'a replica that asked', afterMs: REQUESTER_TIMEOUT_MS },
  { who: 'one that may be silent for no whole number of signs', afterMs: 1_250 },
])('$who', ({ afterMs }) => {
  test('is silent when nothing has been heard of it for that long, which is said once', () => {
    const clock = new ManualClock();
    const { reset, found } = watching(clock, afterMs);
    clock.advance(afterMs - 1);
    reset();
    clock.advance(afterMs - 1);
    expect(found.silences).toBe(0);
    clock.advance(1);
    expect(found.silences).toBe(1);
    clock.advance(10 * afterMs);
    expect([found.silences, clock.pending]).toEqual([1, 0]);
  });

  test('is not watched after the watch was stopped', () => {
    const clock = new ManualClock();
    const { stop, found } = watching(clock, afterMs);
    clock.advance(afterMs - 1);
    stop();
    clock.advance(10 * afterMs);
    expect([found.silences, clock.pending]).toEqual([0, 0]);
  });

  test('is not silent because the process that listens was stalled', () => {
    const clock = new StallingClock();
    const { reset, found } = watching(clock, afterMs);
    for (let stalls = 0; stalls < 10; stalls += 1) {
      clock.stall(10 * afterMs);
      expect(found.silences).toBe(0);
      // What came meanwhile is read after the timers that were due.
      reset();
    }
  });
});
