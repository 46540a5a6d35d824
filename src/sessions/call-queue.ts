/**
 * Decides when a call of a session may start beside the others. A question that names no call is certain to be
 * of one call only while no other call runs, so calls that can be asked wait for each other where the server
 * asks in that way, or may do so.
 */
import type { Clock, Timer } from '../lib/clock.ts';
import { busy, type QueueLimits } from './slots.ts';

/**
 * - `together`: calls start at once
 * - `probe`: it is not known yet how the server asks. A call starts when the others have ended, are parked, or
 *   have run for `PROBE_MS` without a question
 * - `queue`: a call starts when the others have ended or are parked
 * - `silent-together`: the same, but calls of tools that ended without a question before start beside each other
 */
export type StartRule = 'together' | 'probe' | 'queue' | 'silent-together';

export interface CallQueueOptions extends QueueLimits {
  /** Returns the rule of this moment. */
  readonly rule: () => StartRule;
  readonly clock: Clock;
}

/** A call that the queue let start, until it ends. */
export interface StartedCall {
  /** A parked call waits for its client. Others may start beside it. */
  park(isParked: boolean): void;
  end(): void;
}

interface RunningCall {
  /** When it began, or went on, in ms of `Clock.elapsed`. */
  readonly sinceMs: number;
  readonly isSilent: boolean;
}

interface QueuedCall {
  readonly isWanted: () => boolean;
  readonly isSilent: boolean;
  readonly expiry: Timer;
  readonly started: PromiseWithResolvers<StartedCall>;
}

/** How long a call of a server that was never seen to ask has for its first question, in ms. */
export const PROBE_MS = 250;

export class CallQueue {
  readonly #options: CallQueueOptions;
  /** Parked calls are not in it. */
  readonly #running = new Map<StartedCall, RunningCall>();
  readonly #waiting = new Set<QueuedCall>();
  #probe: Timer | null = null;

  constructor(options: CallQueueOptions) {
    this.#options = options;
  }

  /**
   * Waits until a call may start.
   * @param isWanted returns false once the call no longer wants to start
   * @param isSilent whether it is expected to ask nothing
   * @throws UpstreamFailure `upstream_busy` if too many calls wait, or the call waits for too long
   */
  enter(isWanted: () => boolean, isSilent = false): StartedCall | Promise<StartedCall> {
    if (this.#waiting.size === 0 && this.#delayMs(isSilent) === 0) return this.start(isSilent);
    return this.#wait(isWanted, isSilent);
  }

  /** Counts a call as started that goes on already, and cannot wait. */
  start(isSilent = false): StartedCall {
    const run = (asksNothing: boolean) =>
      this.#running.set(started, {
        sinceMs: this.#options.clock.elapsed(),
        isSilent: asksNothing,
      });
    const started: StartedCall = {
      park: (isParked) => {
        if (isParked === !this.#running.has(started)) return;
        if (isParked) this.#running.delete(started);
        else run(false);
        this.#startNext();
      },
      end: () => {
        this.#running.delete(started);
        this.#startNext();
      },
    };
    run(isSilent);
    return started;
  }

  async #wait(isWanted: () => boolean, isSilent: boolean): Promise<StartedCall> {
    const { length, waitMs, clock } = this.#options;
    if (this.#waiting.size >= length) this.#dropUnwanted();
    if (this.#waiting.size >= length) {
      throw busy(`${length} calls wait already for the session of their caller`);
    }
    const started = Promise.withResolvers<StartedCall>();
    const expiry = clock.setTimer(waitMs, () => {
      this.#drop(waiting, `it waited ${waitMs} ms for other calls of its caller to end`);
      this.#startNext();
    });
    const waiting: QueuedCall = { isWanted, isSilent, expiry, started };
    this.#waiting.add(waiting);
    this.#startNext();
    return started.promise;
  }

  /** Starts the calls that may start now, the one that waits longest first. */
  #startNext(): void {
    this.#probe?.cancel();
    this.#probe = null;
    for (const waiting of this.#waiting) {
      if (!waiting.isWanted()) {
        this.#drop(waiting, 'its client has left');
        continue;
      }
      const delayMs = this.#delayMs(waiting.isSilent);
      if (delayMs === null) return;
      if (delayMs > 0) {
        this.#probe = this.#options.clock.setTimer(delayMs, () => this.#startNext());
        return;
      }
      this.#waiting.delete(waiting);
      waiting.expiry.cancel();
      waiting.started.resolve(this.start(waiting.isSilent));
    }
  }

  /** Returns how long the next call has to wait, in ms; `null` if until another call ends or is parked. */
  #delayMs(isSilent: boolean): number | null {
    if (this.#running.size === 0) return 0;
    switch (this.#options.rule()) {
      case 'together':
        return 0;
      case 'queue':
        return null;
      case 'silent-together': {
        const asksNothing = isSilent && [...this.#running.values()].every((call) => call.isSilent);
        return asksNothing ? 0 : null;
      }
      case 'probe': {
        const newestMs = Math.max(...[...this.#running.values()].map(({ sinceMs }) => sinceMs));
        return Math.max(0, Math.ceil(newestMs + PROBE_MS - this.#options.clock.elapsed()));
      }
    }
  }

  #dropUnwanted(): void {
    for (const waiting of this.#waiting) {
      if (!waiting.isWanted()) this.#drop(waiting, 'its client has left');
    }
  }

  #drop(waiting: QueuedCall, problem: string): void {
    this.#waiting.delete(waiting);
    waiting.expiry.cancel();
    waiting.started.reject(busy(problem));
  }
}
