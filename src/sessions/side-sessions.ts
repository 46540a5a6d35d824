/**
 * Sessions that carry one call at a time. More calls of one owner get more sessions, and idle ones are kept for the
 * next calls.
 */
import type { Clock } from '../lib/clock.ts';
import type { Session } from '../upstream/session/session.ts';
import type { LegacyServer } from '../upstream/legacy-server.ts';
import type { SessionPoint } from './home.ts';
import { CallLease, type Lease, type OpenLeases, type SharedLease } from './lease.ts';
import type { SessionOwner } from './owner.ts';
import { UseCount } from './shared-sessions.ts';
import type { Slot, Slots } from './slots.ts';

export interface SideSessionsOptions {
  readonly upstream: LegacyServer;
  readonly slots: Slots;
  readonly idleTimeoutMs: number;
  /** The leases of the route. */
  readonly leases: OpenLeases;
  readonly clock: Clock;
  /** Called with each session that is ended, until the server was told. */
  readonly onEnding: (ending: Promise<void>) => void;
}

/** Whose session it is. */
export interface SideOwner {
  readonly owner: SessionOwner;
  /** Equal for owners that may use the same session; `null` if none may. */
  readonly key: string | null;
  /** For `Slots`. */
  readonly principal: string | null;
}

interface Seat {
  readonly session: Session;
  readonly slot: Slot;
}

/** A session between two calls. Requests that cannot lead to questions may use it. */
interface Idle extends Seat {
  readonly uses: UseCount;
}

export class SideSessions {
  readonly #options: SideSessionsOptions;
  /** Most recently used last. */
  readonly #idle = new Map<string, Idle[]>();
  readonly #leased = new Set<Seat>();
  #isClosed = false;

  constructor(options: SideSessionsOptions) {
    this.#options = options;
  }

  /**
   * Reserves a session for a call: the one used last, since the server may keep state in it, or a new one.
   * @param fresh whether to take no idle session: the server has just forgotten one
   * @throws UpstreamFailure if a session is needed and cannot be opened
   */
  async lease(of: SideOwner, fresh: boolean): Promise<Lease> {
    const reused = fresh ? null : await this.#reuse(of);
    const { upstream } = this.#options;
    return this.#lend(of, reused ?? (await this.#open(of, () => upstream.openSession(of.owner))));
  }

  /** Takes over a session of another replica, to resume one of its calls. Throws UpstreamFailure. */
  async adopt(of: SideOwner, point: SessionPoint): Promise<Lease> {
    const { upstream } = this.#options;
    return this.#lend(of, await this.#open(of, () => upstream.adoptSession(of.owner, point)));
  }

  /** Lends an idle session to a request that cannot lead to questions; `null` if there is none. */
  async borrow({ owner, key }: SideOwner): Promise<SharedLease | null> {
    if (key === null) return null;
    const idle = this.#idle.get(key)?.findLast(({ session }) => !session.dead);
    if (idle === undefined) return null;
    const { session, uses, slot } = idle;
    const end = uses.use();
    slot.used();
    const release = () => {
      end();
      if (!uses.inUse && this.#idle.get(key)?.includes(idle) === true) this.#keep(key, idle);
    };
    if (await session.ready(owner.headers)) return { session, release };
    release();
    return null;
  }

  /** Ends the sessions that no call uses. */
  endIdle(): void {
    const idle = [...this.#idle.values()].flat();
    this.#idle.clear();
    for (const each of idle) {
      each.uses.stop();
      this.#end(each);
    }
  }

  /** Ends all sessions, whoever uses them. */
  close(): void {
    this.#isClosed = true;
    for (const seat of this.#leased) this.#end(seat);
    this.endIdle();
  }

  async #open({ principal }: SideOwner, open: () => Promise<Session>): Promise<Seat> {
    const slot = await this.#options.slots.take(principal);
    try {
      return { session: await open(), slot };
    } catch (error) {
      slot.free();
      throw error;
    }
  }

  #lend({ key }: SideOwner, seat: Seat): Lease {
    this.#leased.add(seat);
    const { leases } = this.#options;
    return new CallLease(seat.session, {
      leases,
      onEnd: (how) => {
        this.#leased.delete(seat);
        if (how !== 'left') return this.#giveBack(how === 'clean' ? key : null, seat);
        seat.session.leave();
        seat.slot.free();
      },
    });
  }

  /** Takes the idle session that was used last, if it can be used again. */
  async #reuse({ key, owner }: SideOwner): Promise<Seat | null> {
    const seat = key === null ? null : this.#takeIdle(key);
    if (seat === null) return null;
    this.#leased.add(seat);
    if (await seat.session.ready(owner.headers)) return seat;
    this.#leased.delete(seat);
    this.#end(seat);
    return null;
  }

  /** Skips sessions that requests use: a call may end its session at any time. */
  #takeIdle(key: string): Seat | null {
    for (const idle of (this.#idle.get(key) ?? []).toReversed()) {
      if (idle.uses.inUse) continue;
      this.#removeIdle(key, idle);
      idle.uses.stop();
      if (!idle.session.dead) {
        idle.slot.used();
        idle.session.keepAlive(false, this);
        return idle;
      }
      this.#end(idle);
    }
    return null;
  }

  #removeIdle(key: string, gone: Idle): void {
    const left = (this.#idle.get(key) ?? []).filter((idle) => idle !== gone);
    if (left.length > 0) this.#idle.set(key, left);
    else this.#idle.delete(key);
  }

  #giveBack(key: string | null, seat: Seat): void {
    const { upstream, clock, idleTimeoutMs } = this.#options;
    const { session, slot } = seat;
    const isKept = !session.dead && !this.#isClosed && !upstream.detector.broadcasts;
    if (key === null || !isKept) return this.#end(seat);
    const uses = new UseCount(clock, idleTimeoutMs, () => {
      this.#removeIdle(key, idle);
      this.#end(idle);
    });
    const idle: Idle = { session, slot, uses };
    this.#idle.set(key, [...(this.#idle.get(key) ?? []), idle]);
    session.keepAlive(true, this);
    this.#keep(key, idle);
  }

  #keep(key: string, idle: Idle): void {
    idle.slot.idle(() => {
      this.#removeIdle(key, idle);
      idle.uses.stop();
      this.#end(idle);
    });
  }

  #end({ session, slot }: Seat): void {
    this.#options.onEnding(session.close().finally(() => slot.free()));
  }
}
