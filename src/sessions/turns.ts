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
 */
export type TurnRule = 'together' | 'probe' | 'queue';

export interface TurnsOptions extends QueueLimits {
  /** Returns the rule of this moment. */
  readonly rule: () => TurnRule;
  readonly clock: Clock;
}

/** The turn of one call, from its start to its end. */
export interface Turn {
  /** A parked call waits for its client. Others may start beside it. */
  park(isParked: boolean): void;
  end(): void;
}

interface Waiting {
  readonly isWanted: () => boolean;
  readonly expiry: Timer;
  readonly turn: PromiseWithResolvers<Turn>;
}

/** How long a call of a server that was never seen to ask has for its first question, in ms. */
export const PROBE_MS = 250;

export class Turns {
  readonly #options: TurnsOptions;
  /** When each call began, or went on, in ms of `Clock.elapsed`. Parked calls are not in it. */
  readonly #running = new Map<Turn, number>();
  readonly #waiting = new Set<Waiting>();
  #probe: Timer | null = null;

  constructor(options: TurnsOptions) {
    this.#options = options;
  }

  /**
   * Waits for the turn of a call.
   * @param isWanted returns false once the call does not want its turn any more
   * @throws UpstreamFailure `upstream_busy` if too many calls wait, or the call waits for too long
   */
  take(isWanted: () => boolean): Turn | Promise<Turn> {
    if (this.#waiting.size === 0 && this.#delayMs() === 0) return this.begin();
    return this.#wait(isWanted);
  }

  /** Begins the turn of a call that goes on already, and cannot wait. */
  begin(): Turn {
    const turn: Turn = {
      park: (isParked) => {
        if (isParked === !this.#running.has(turn)) return;
        if (isParked) this.#running.delete(turn);
        else this.#running.set(turn, this.#options.clock.elapsed());
        this.#startNext();
      },
      end: () => {
        this.#running.delete(turn);
        this.#startNext();
      },
    };
    this.#running.set(turn, this.#options.clock.elapsed());
    return turn;
  }

  async #wait(isWanted: () => boolean): Promise<Turn> {
    const { length, waitMs, clock } = this.#options;
    if (this.#waiting.size >= length) this.#dropUnwanted();
    if (this.#waiting.size >= length) {
      throw busy(`${length} calls wait already for the session of their caller`);
    }
    const turn = Promise.withResolvers<Turn>();
    const expiry = clock.setTimer(waitMs, () => {
      this.#drop(waiting, `it waited ${waitMs} ms for other calls of its caller to end`);
      this.#startNext();
    });
    const waiting: Waiting = { isWanted, expiry, turn };
    this.#waiting.add(waiting);
    this.#startNext();
    return turn.promise;
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
      const delayMs = this.#delayMs();
      if (delayMs === null) return;
      if (delayMs > 0) {
        this.#probe = this.#options.clock.setTimer(delayMs, () => this.#startNext());
        return;
      }
      this.#waiting.delete(waiting);
      waiting.expiry.cancel();
      waiting.turn.resolve(this.begin());
    }
  }

  /** Returns how long the next call has to wait, in ms; `null` if until another call ends or is parked. */
  #delayMs(): number | null {
    if (this.#running.size === 0) return 0;
    switch (this.#options.rule()) {
      case 'together':
        return 0;
      case 'queue':
        return null;
      case 'probe': {
        const newestMs = Math.max(...this.#running.values());
        return Math.max(0, Math.ceil(newestMs + PROBE_MS - this.#options.clock.elapsed()));
      }
    }
  }

  #dropUnwanted(): void {
    for (const waiting of this.#waiting) {
      if (!waiting.isWanted()) this.#drop(waiting, 'its client has left');
    }
  }

  #drop(waiting: Waiting, problem: string): void {
    this.#waiting.delete(waiting);
    waiting.expiry.cancel();
    waiting.turn.reject(busy(problem));
  }
}
