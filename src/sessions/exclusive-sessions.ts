/**
 * Sessions that carry one call at a time. More calls of one owner get more sessions, and idle ones are kept for the
 * next calls.
 */
import type { Clock } from '../lib/clock.ts';
import type { Session } from '../upstream/session/session.ts';
import type { SessionPoint } from '../upstream/transport/transport.ts';
import { CallLease, type Lease, type OpenLeases, type SharedLease } from './lease.ts';
import type { KeyedOwner } from './session-owner.ts';
import { UseCount } from './use-count.ts';
import { openInPermit, type PermittedSession, type PermitOptions } from './permits.ts';

export interface ExclusiveSessionsOptions extends PermitOptions {
  readonly idleTimeoutMs: number;
  /** The leases of the route. */
  readonly leases: OpenLeases;
  readonly clock: Clock;
  /** Called with each session that is ended, until the server was told. */
  readonly onEnding: (ending: Promise<void>) => void;
}

/** A session between two calls. Requests that cannot lead to questions may use it. */
interface IdleSession extends PermittedSession {
  readonly uses: UseCount;
}

export class ExclusiveSessions {
  readonly #options: ExclusiveSessionsOptions;
  /** Most recently used last. */
  readonly #idle = new Map<string, IdleSession[]>();
  readonly #leased = new Set<PermittedSession>();
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
    const permitted = await this.#open(of, () => upstream.resumeSession(of.owner, point));
    permitted.session.questions.knowsAllCalls = () => !hasSiblings;
    return this.#lend(hasSiblings ? { ...of, key: null } : of, permitted);
  }

  /** Lends an idle session to a request that cannot lead to questions; `null` if there is none. */
  async borrow({ owner, key }: KeyedOwner): Promise<SharedLease | null> {
    if (key === null) return null;
    const idle = this.#idle.get(key)?.findLast(({ session }) => !session.dead);
    if (idle === undefined) return null;
    const { session, uses, permit } = idle;
    const end = uses.use();
    permit.used();
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
    for (const permitted of this.#leased) this.#end(permitted);
    this.endIdle();
  }

  #open({ principal }: KeyedOwner, open: () => Promise<Session>): Promise<PermittedSession> {
    return openInPermit(this.#options, principal, open);
  }

  #lend({ key }: KeyedOwner, permitted: PermittedSession): Lease {
    this.#leased.add(permitted);
    const { leases } = this.#options;
    return new CallLease(permitted.session, {
      leases,
      onEnd: (how) => {
        this.#leased.delete(permitted);
        if (how !== 'left') return this.#giveBack(how === 'clean' ? key : null, permitted);
        permitted.session.leave();
        permitted.permit.free();
      },
    });
  }

  /** Takes the idle session that was used last, if it can be used again. */
  async #reuse({ key, owner }: KeyedOwner): Promise<PermittedSession | null> {
    const permitted = key === null ? null : this.#takeIdle(key);
    if (permitted === null) return null;
    this.#leased.add(permitted);
    if (await permitted.session.ready(owner.headers)) return permitted;
    this.#leased.delete(permitted);
    this.#end(permitted);
    return null;
  }

  /** Skips sessions that requests use: a call may end its session at any time. */
  #takeIdle(key: string): PermittedSession | null {
    for (const idle of (this.#idle.get(key) ?? []).toReversed()) {
      if (idle.uses.inUse) continue;
      this.#removeIdle(key, idle);
      idle.uses.stop();
      if (!idle.session.dead) {
        idle.permit.used();
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

  #giveBack(key: string | null, permitted: PermittedSession): void {
    const { upstream, clock, idleTimeoutMs } = this.#options;
    const { session, permit } = permitted;
    const isOver = this.#isClosed || this.#isRetired || upstream.detector.broadcasts;
    if (key === null || isOver || session.dead) return this.#end(permitted);
    const uses = new UseCount(clock, idleTimeoutMs, () => {
      this.#removeIdle(key, idle);
      this.#end(idle);
    });
    const idle: IdleSession = { session, permit, uses };
    this.#idle.set(key, [...(this.#idle.get(key) ?? []), idle]);
    session.keepAlive(true, this);
    this.#keep(key, idle);
  }

  #keep(key: string, idle: IdleSession): void {
    idle.permit.idle(() => {
      this.#removeIdle(key, idle);
      idle.uses.stop();
      this.#end(idle);
    });
  }

  #end({ session, permit }: PermittedSession): void {
    this.#options.onEnding(session.close().finally(() => permit.free()));
  }
}
