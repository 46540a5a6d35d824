/**
 * Sessions that carry one call at a time. More calls of one owner get more sessions, and idle ones are kept for the
 * next calls.
 */
import type { Clock } from '../lib/clock.ts';
import type { Session } from '../upstream/session/session.ts';
import type { SessionPoint } from '../upstream/transport/transport.ts';
import { CallLease, type Lease, type OpenLeases, type SharedLease } from './lease.ts';
import type { KeyedOwner } from './session-owner.ts';
import { UseCount } from './shared-sessions.ts';
import { openInSlot, type SlottedSession, type SlotOptions } from './slots.ts';

export interface ExclusiveSessionsOptions extends SlotOptions {
  readonly idleTimeoutMs: number;
  /** The leases of the route. */
  readonly leases: OpenLeases;
  readonly clock: Clock;
  /** Called with each session that is ended, until the server was told. */
  readonly onEnding: (ending: Promise<void>) => void;
}

/** A session between two calls. Requests that cannot lead to questions may use it. */
interface IdleSession extends SlottedSession {
  readonly uses: UseCount;
}

export class ExclusiveSessions {
  readonly #options: ExclusiveSessionsOptions;
  /** Most recently used last. */
  readonly #idle = new Map<string, IdleSession[]>();
  readonly #leased = new Set<SlottedSession>();
  #isClosed = false;
  #isRetired = false;

  constructor(options: ExclusiveSessionsOptions) {
    this.#options = options;
  }

  /**
   * Reserves a session for a call: the one used last, since the server may keep state in it, or a new one.
   * @param fresh whether to take no idle session: the server has just forgotten one
   * @throws UpstreamFailure if a session is needed and cannot be opened
   */
  async lease(of: KeyedOwner, fresh: boolean): Promise<Lease> {
    const reused = fresh ? null : await this.#reuse(of);
    const { upstream } = this.#options;
    return this.#lend(of, reused ?? (await this.#open(of, () => upstream.openSession(of.owner))));
  }

  /**
   * Takes over a session of another replica, to resume one of its calls, and no other: nobody knows whether that replica still uses
   * the session. Throws UpstreamFailure.
   */
  async adopt(of: KeyedOwner, point: SessionPoint): Promise<Lease> {
    const { upstream } = this.#options;
    const { hasSiblings } = upstream.detector;
    const slotted = await this.#open(of, () => upstream.adoptSession(of.owner, point));
    slotted.session.questions.knowsAllCalls = () => !hasSiblings;
    return this.#lend(hasSiblings ? { ...of, key: null } : of, slotted);
  }

  /** Lends an idle session to a request that cannot lead to questions; `null` if there is none. */
  async borrow({ owner, key }: KeyedOwner): Promise<SharedLease | null> {
    if (key === null) return null;
    const idle = this.#idle.get(key)?.findLast(({ session }) => !session.dead);
    if (idle === undefined) return null;
    const { session, uses, slot } = idle;
    const end = uses.use();
    slot.used();
    const giveBack = () => {
      end();
      if (!uses.inUse && this.#idle.get(key)?.includes(idle) === true) this.#keep(key, idle);
    };
    if (await session.ready(owner.headers)) return { session, giveBack };
    giveBack();
    return null;
  }

  /** Ends each session as soon as nothing uses it. */
  retire(): void {
    this.#isRetired = true;
    for (const { uses } of [...this.#idle.values()].flat()) uses.retire();
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
    for (const slotted of this.#leased) this.#end(slotted);
    this.endIdle();
  }

  #open({ principal }: KeyedOwner, open: () => Promise<Session>): Promise<SlottedSession> {
    return openInSlot(this.#options, principal, open);
  }

  #lend({ key }: KeyedOwner, slotted: SlottedSession): Lease {
    this.#leased.add(slotted);
    const { leases } = this.#options;
    return new CallLease(slotted.session, {
      leases,
      onEnd: (how) => {
        this.#leased.delete(slotted);
        if (how !== 'left') return this.#giveBack(how === 'clean' ? key : null, slotted);
        slotted.session.leave();
        slotted.slot.free();
      },
    });
  }

  /** Takes the idle session that was used last, if it can be used again. */
  async #reuse({ key, owner }: KeyedOwner): Promise<SlottedSession | null> {
    const slotted = key === null ? null : this.#takeIdle(key);
    if (slotted === null) return null;
    this.#leased.add(slotted);
    if (await slotted.session.ready(owner.headers)) return slotted;
    this.#leased.delete(slotted);
    this.#end(slotted);
    return null;
  }

  /** Skips sessions that requests use: a call may end its session at any time. */
  #takeIdle(key: string): SlottedSession | null {
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

  #removeIdle(key: string, gone: IdleSession): void {
    const left = (this.#idle.get(key) ?? []).filter((idle) => idle !== gone);
    if (left.length > 0) this.#idle.set(key, left);
    else this.#idle.delete(key);
  }

  #giveBack(key: string | null, slotted: SlottedSession): void {
    const { upstream, clock, idleTimeoutMs } = this.#options;
    const { session, slot } = slotted;
    const isOver = this.#isClosed || this.#isRetired || upstream.detector.broadcasts;
    if (key === null || isOver || session.dead) return this.#end(slotted);
    const uses = new UseCount(clock, idleTimeoutMs, () => {
      this.#removeIdle(key, idle);
      this.#end(idle);
    });
    const idle: IdleSession = { session, slot, uses };
    this.#idle.set(key, [...(this.#idle.get(key) ?? []), idle]);
    session.keepAlive(true, this);
    this.#keep(key, idle);
  }

  #keep(key: string, idle: IdleSession): void {
    idle.slot.idle(() => {
      this.#removeIdle(key, idle);
      idle.uses.stop();
      this.#end(idle);
    });
  }

  #end({ session, slot }: SlottedSession): void {
    this.#options.onEnding(session.close().finally(() => slot.free()));
  }
}
