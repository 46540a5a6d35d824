/**
 * Counts the sessions of a route, and those of each principal, in all processes that share the counts. Where no permit is
 * free, the session that was idle for the longest time ends; where none is idle, whoever needs one waits, and has the
 * other processes end one. Each session is opened with a permit of its own, and alone where the server can have one only.
 */
import { ReleasingMap } from '../lib/containers.ts';
import type { Counts } from '../lib/counts.ts';
import type { Clock, Timer } from '../lib/clock.ts';
import { UpstreamFailure } from '../model/upstream-failure.ts';
import type { LegacyServer } from '../upstream/legacy-server.ts';
import type { Session } from '../upstream/session/session.ts';

export interface PermitLimits {
  /** The most sessions of the route. */
  readonly max: number;
  /** The most sessions of one principal. */
  readonly maxPerPrincipal: number;
  readonly queue: QueueLimits;
  /** What the route is called in the counts. */
  readonly name: string;
}

/** What one session takes of the limits, from before it is opened until it has ended. */
export interface Permit {
  /**
   * No request uses the session: `end` is called, once, if its permit is needed.
   * @param isWatched whether a client is connected to it yet, so that others end first
   */
  idle(end: () => void, isWatched?: boolean): void;
  used(): void;
  free(): void;
}

interface Taken extends Permit {
  readonly principal: string | null;
  isWatched: boolean;
}

interface PermitRequest {
  readonly principal: string | null;
  readonly expiry: Timer;
  readonly permit: PromiseWithResolvers<Permit>;
  /** Whether the other processes are told, since no session of this one can end for it. */
  isCounted: boolean;
}

export class Permits {
  readonly #limits: PermitLimits;
  readonly #counts: Counts;
  readonly #clock: Clock;
  /** Longest idle first. */
  readonly #idle = new ReleasingMap<Taken, () => void>();
  /** Sessions that were told to end, and still count. */
  readonly #ending = new Set<Taken>();
  readonly #waiting = new Set<PermitRequest>();
  #size = 0;
  /** Leaves the counts to others. */
  readonly close: () => void;

  /** @param counts of all processes that the limits are for */
  constructor(limits: PermitLimits, counts: Counts, clock: Clock) {
    this.#limits = limits;
    this.#counts = counts;
    this.#clock = clock;
    this.close = counts.onChange(() => {
      if (this.#waiting.size > 0) this.#serve();
      this.#freePermitElsewhere();
    });
  }

  /** The sessions of this process. */
  get size(): number {
    return this.#size;
  }

  /** True if somebody waits for the end of a session, here or in another process. */
  get isWaitedFor(): boolean {
    return this.#waiting.size > 0 || this.#counts.elsewhere(this.#waitsFor(null)) > 0;
  }

  /**
   * Takes the permit of one more session.
   * @param principal whose session it is; `null` for one that counts for no principal
   * @throws UpstreamFailure `upstream_busy` if no permit is free, and none in time
   */
  async take(principal: string | null): Promise<Permit> {
    if (this.#waiting.size === 0 && this.#hasFreePermit(principal)) return this.#grant(principal);
    const { max, maxPerPrincipal, queue } = this.#limits;
    const limits = `sessions.max (${max}) or sessions.maxPerPrincipal (${maxPerPrincipal}) is reached`;
    // Who waits for a session that is ending, or that can, does not wait long.
    const isFull = this.#waiting.size - this.#ending.size >= queue.length;
    if (isFull && ![...this.#idle.keys()].some(this.#helps(principal))) {
      throw busy(`${limits}, and ${queue.length} requests wait already`);
    }
    const expiry = this.#clock.setTimer(queue.waitMs, () => {
      this.#endWait(waiting);
      waiting.permit.reject(busy(`${limits}, and no session ended within ${queue.waitMs} ms`));
    });
    const waiting: PermitRequest = {
      ...{ principal, expiry, permit: Promise.withResolvers() },
      isCounted: false,
    };
    this.#waiting.add(waiting);
    this.#serve();
    return waiting.permit.promise;
  }

  #hasFreePermit(principal: string | null): boolean {
    return this.#hasFreePermitOfRoute() && this.#hasFreePermitOf(principal);
  }

  #hasFreePermitOfRoute(): boolean {
    return this.#counts.total(this.#sessionsOf(null)) < this.#limits.max;
  }

  #hasFreePermitOf(principal: string | null): boolean {
    if (principal === null) return true;
    return this.#counts.total(this.#sessionsOf(principal)) < this.#limits.maxPerPrincipal;
  }

  #grant(principal: string | null): Permit {
    this.#count(principal, 1);
    let isFree = false;
    const permit: Taken = {
      principal,
      isWatched: false,
      idle: (end, isWatched = false) => {
        permit.isWatched = isWatched;
        this.#idle.delete(permit);
        this.#idle.set(permit, end);
        if (this.#waiting.size > 0) this.#serve();
        this.#freePermitElsewhere();
      },
      used: () => this.#idle.delete(permit),
      free: () => {
        if (isFree) return;
        isFree = true;
        this.#idle.delete(permit);
        this.#ending.delete(permit);
        this.#count(principal, -1);
        if (this.#waiting.size > 0) this.#serve();
      },
    };
    return permit;
  }

  #count(principal: string | null, change: 1 | -1): void {
    this.#size += change;
    this.#counts.add(this.#sessionsOf(null), change);
    if (principal !== null) this.#counts.add(this.#sessionsOf(principal), change);
  }

  /** @param principal `null` for all sessions of the route */
  #sessionsOf(principal: string | null): string {
    return `sessions:${this.#limits.name}:${principal ?? ''}`;
  }

  /** Counts those who wait for the end of a session: of this principal; `null` for any. */
  #waitsFor(principal: string | null): string {
    return `session-waits:${this.#limits.name}:${principal ?? ''}`;
  }

  #countWait(waiting: PermitRequest, isCounted: boolean): void {
    if (waiting.isCounted === isCounted) return;
    waiting.isCounted = isCounted;
    const { principal } = waiting;
    const change = isCounted ? 1 : -1;
    this.#counts.add(this.#waitsFor(null), change);
    if (principal !== null) this.#counts.add(this.#waitsFor(principal), change);
  }

  #endWait(waiting: PermitRequest): void {
    this.#waiting.delete(waiting);
    this.#countWait(waiting, false);
  }

  /** Gives the free permits to those who wait, and ends an idle session for each of the others. */
  #serve(): void {
    const ending = [...this.#ending];
    for (const waiting of this.#waiting) {
      const { principal, expiry, permit } = waiting;
      if (this.#hasFreePermit(principal)) {
        this.#endWait(waiting);
        expiry.cancel();
        permit.resolve(this.#grant(principal));
        continue;
      }
      const helps = this.#helps(principal);
      const coming = ending.findIndex(helps);
      if (coming !== -1) ending.splice(coming, 1);
      else if (!this.#endIdle(helps)) this.#countWait(waiting, true);
    }
  }

  /** Returns what tells whether the end of a session frees a permit for this principal. */
  #helps(principal: string | null): (taken: Taken) => boolean {
    const hasOwnRoom = this.#hasFreePermitOf(principal);
    return (taken) => hasOwnRoom || taken.principal === principal;
  }

  /** Ends an idle session for another process in which somebody waits. */
  #freePermitElsewhere(): void {
    const isWaitedFor = (principal: string | null) =>
      this.#counts.elsewhere(this.#waitsFor(principal)) > 0;
    // One after the other: what one end was good for shows in the counts.
    if (this.#idle.size === 0 || this.#ending.size > 0 || !isWaitedFor(null)) return;
    this.#endIdle(
      ({ principal }) =>
        !this.#hasFreePermitOfRoute() ||
        (!this.#hasFreePermitOf(principal) && isWaitedFor(principal)),
    );
  }

  /** @returns false if there is none that helps */
  #endIdle(helps: (taken: Taken) => boolean): boolean {
    let found: readonly [Taken, () => void] | null = null;
    for (const idle of this.#idle) {
      const [taken] = idle;
      if (!helps(taken)) continue;
      if (!taken.isWatched) {
        found = idle;
        break;
      }
      found ??= idle;
    }
    if (found === null) return false;
    const [taken, end] = found;
    this.#idle.delete(taken);
    this.#ending.add(taken);
    end();
    return true;
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

/** Builds the failure of a subscription, for which such a server has no session. */
export function onlyForCalls(): UpstreamFailure {
  return busy('the server allows one session, which is reserved for calls');
}

export interface PermittedSession {
  readonly session: Session;
  readonly permit: Permit;
}

export interface PermitOptions {
  readonly upstream: LegacyServer;
  readonly permits: Permits;
  /** Called before a session is opened with a server that can have one only, which is free when it resolves. It may reject. */
  readonly onOneSession: () => Promise<void>;
}

/**
 * Takes a permit and opens a session in it. A server that refuses a session beside another one is tried again alone.
 * @param principal for `Permits`
 * @throws UpstreamFailure
 */
export async function openInPermit(
  { upstream, permits, onOneSession }: PermitOptions,
  principal: string | null,
  open: () => Promise<Session>,
): Promise<PermittedSession> {
  for (;;) {
    const hadOneSession = upstream.hasOneSession;
    if (hadOneSession) await onOneSession();
    const permit = await permits.take(principal);
    try {
      if (upstream.hasOneSession) await onOneSession();
      return { session: await open(), permit };
    } catch (error) {
      permit.free();
      if (hadOneSession || !upstream.hasOneSession) throw error;
    }
  }
}
