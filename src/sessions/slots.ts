/**
 * Counts the sessions of a route, and those of each principal. Where there is no room, the session that was idle
 * for the longest time ends; where none is idle, whoever needs one waits.
 */
import type { Clock, Timer } from '../lib/clock.ts';
import { UpstreamFailure } from '../upstream/failure.ts';

export interface SlotLimits {
  /** The most sessions of the route. */
  readonly max: number;
  /** The most sessions of one principal. */
  readonly maxPerPrincipal: number;
  readonly queue: QueueLimits;
}

/** The place of one session, from before it is opened until it has ended. */
export interface Slot {
  /** Nothing uses the session: `end` is called, once, if its place is needed. */
  idle(end: () => void): void;
  used(): void;
  free(): void;
}

interface Taken extends Slot {
  readonly principal: string | null;
}

interface Waiting {
  readonly principal: string | null;
  readonly expiry: Timer;
  readonly slot: PromiseWithResolvers<Slot>;
}

export class Slots {
  readonly #limits: SlotLimits;
  readonly #clock: Clock;
  readonly #counts = new Map<string, number>();
  /** Longest idle first. */
  readonly #idle = new Map<Taken, () => void>();
  /** Sessions that were told to end, and still count. */
  readonly #ending = new Set<Taken>();
  readonly #waiting = new Set<Waiting>();
  #size = 0;

  constructor(limits: SlotLimits, clock: Clock) {
    this.#limits = limits;
    this.#clock = clock;
  }

  get size(): number {
    return this.#size;
  }

  /**
   * Takes the place of one more session.
   * @param principal whose session it is; `null` for one that counts for no principal
   * @throws UpstreamFailure `upstream_busy` if there is no room, and none in time
   */
  async take(principal: string | null): Promise<Slot> {
    if (this.#waiting.size === 0 && this.#hasRoom(principal)) return this.#grant(principal);
    const { max, maxPerPrincipal, queue } = this.#limits;
    const limits = `sessions.max (${max}) or sessions.maxPerPrincipal (${maxPerPrincipal}) is reached`;
    if (this.#waiting.size >= queue.length) {
      throw busy(`${limits}, and ${queue.length} requests wait already`);
    }
    const expiry = this.#clock.setTimer(queue.waitMs, () => {
      this.#waiting.delete(waiting);
      waiting.slot.reject(busy(`${limits}, and no session ended within ${queue.waitMs} ms`));
    });
    const waiting: Waiting = { principal, expiry, slot: Promise.withResolvers() };
    this.#waiting.add(waiting);
    this.#serve();
    return waiting.slot.promise;
  }

  #hasRoom(principal: string | null): boolean {
    return this.#size < this.#limits.max && this.#hasOwnRoom(principal);
  }

  #hasOwnRoom(principal: string | null): boolean {
    if (principal === null) return true;
    return (this.#counts.get(principal) ?? 0) < this.#limits.maxPerPrincipal;
  }

  #grant(principal: string | null): Slot {
    this.#count(principal, 1);
    let isFree = false;
    const slot: Taken = {
      principal,
      idle: (end) => {
        this.#idle.set(slot, end);
        if (this.#waiting.size > 0) this.#serve();
      },
      used: () => void this.#idle.delete(slot),
      free: () => {
        if (isFree) return;
        isFree = true;
        this.#idle.delete(slot);
        this.#ending.delete(slot);
        this.#count(principal, -1);
        if (this.#waiting.size > 0) this.#serve();
      },
    };
    return slot;
  }

  #count(principal: string | null, change: 1 | -1): void {
    this.#size += change;
    if (principal === null) return;
    const count = (this.#counts.get(principal) ?? 0) + change;
    if (count > 0) this.#counts.set(principal, count);
    else this.#counts.delete(principal);
  }

  /** Gives the room that there is to those who wait, and ends an idle session for each of the others. */
  #serve(): void {
    const ending = [...this.#ending];
    for (const waiting of this.#waiting) {
      const { principal, expiry, slot } = waiting;
      if (this.#hasRoom(principal)) {
        this.#waiting.delete(waiting);
        expiry.cancel();
        slot.resolve(this.#grant(principal));
        continue;
      }
      const helps = (taken: Taken) => this.#hasOwnRoom(principal) || taken.principal === principal;
      const coming = ending.findIndex(helps);
      if (coming !== -1) ending.splice(coming, 1);
      else this.#endIdle(helps);
    }
  }

  #endIdle(helps: (taken: Taken) => boolean): void {
    for (const [taken, end] of this.#idle) {
      if (!helps(taken)) continue;
      this.#idle.delete(taken);
      this.#ending.add(taken);
      end();
      return;
    }
  }
}

export interface QueueLimits {
  /** The most calls that wait at once. */
  readonly length: number;
  /** How long one call waits, in ms. */
  readonly waitMs: number;
}

/** Builds the failure of a call that has waited in vain. Nothing of it was sent. */
export function busy(problem: string): UpstreamFailure {
  return new UpstreamFailure('upstream_busy', problem, { mayHaveActed: false });
}
