/**
 * The sessions of one route. Principals never share a session, nor do clients that declare different
 * capabilities, and a session carries one interactive call at a time.
 */
import type { Clock } from '../lib/clock.ts';
import { profileKey } from '../protocol/translate/client-profile.ts';
import type { LegacyRevision } from '../protocol/revisions.ts';
import type { Session } from '../upstream/session/session.ts';
import { SharedSessions, UseCount, type SharedLease } from './shared-sessions.ts';
import { SingleSession, type SessionRequirement } from './single-session.ts';
import type { Upstream } from '../upstream/upstream.ts';
import type { SessionOwner } from './owner.ts';

/**
 * - `principal`: a principal's calls reuse its sessions, one call at a time on each
 * - `call`: a new session for each call, so that anonymous callers never share one
 * - `shared`: all callers reuse all sessions; only for servers that keep no state in a session
 */
export type SessionScope = 'principal' | 'call' | 'shared';

export interface SessionPoolOptions {
  /** `null`: `call` for anonymous owners, `principal` for others. */
  readonly scope: SessionScope | null;
  readonly idleTimeoutMs: number;
  /** The most idle sessions kept for one owner. */
  readonly maxIdle: number;
}

/** A session, reserved for one call. */
export interface Lease {
  readonly session: Session;
  /** Gives the session back. `clean` says that the server had finished with the call. */
  release(clean: boolean): void;
  /** Lets go of the session without ending it, for another replica to take up. */
  leave(): void;
}

/** A session between two calls. Requests that cannot lead to questions may use it. */
interface Idle {
  readonly session: Session;
  readonly uses: UseCount;
}

/** The most calls that wait for their turn at a server that broadcasts. */
const MAX_WAITING = 100;
/** The most sessions that are kept for requests that cannot lead to questions. */
const MAX_SHARED = 256;

export class SessionPool {
  readonly #upstream: Upstream;
  readonly #options: SessionPoolOptions;
  readonly #clock: Clock;
  /** Most recently used last. */
  readonly #idle = new Map<string, Idle[]>();
  readonly #shared: SharedSessions;
  readonly #leased = new Set<Session>();
  /** Sessions of subscriptions. They carry no call. */
  readonly #listening = new Set<Session>();
  /** Serves all callers once the server was seen to broadcast. */
  readonly #single: SingleSession;
  /** Sessions whose end is being sent to the server. */
  readonly #ending = new Set<Promise<void>>();
  readonly #waiting = new Set<() => void>();
  #closed = false;

  constructor(upstream: Upstream, options: SessionPoolOptions, clock: Clock) {
    this.#upstream = upstream;
    this.#options = options;
    this.#clock = clock;
    const { idleTimeoutMs } = options;
    this.#shared = new SharedSessions({ idleTimeoutMs, max: MAX_SHARED }, clock);
    this.#single = new SingleSession({ idleTimeoutMs, maxWaiting: MAX_WAITING }, clock);
  }

  /** Sessions that are open now. */
  get size(): number {
    let idle = 0;
    for (const sessions of this.#idle.values()) idle += sessions.length;
    const used = this.#leased.size + this.#listening.size;
    return idle + used + this.#shared.size + this.#single.size;
  }

  /**
   * Reserves a session for an interactive call: the one used last, since the server may keep state in it,
   * or a new one.
   * @param fresh whether to take no idle session: the server has just forgotten one
   * @param isWanted returns false once the call does not want the session any more
   * @throws UpstreamFailure if a session is needed and cannot be opened
   */
  async lease(
    owner: SessionOwner,
    fresh = false,
    isWanted: () => boolean = () => true,
  ): Promise<Lease> {
    if (this.#upstream.detector.broadcasts) return this.#takeTurn(owner, isWanted);
    const reused = fresh ? null : await this.#reuse(owner);
    const session = reused ?? (await this.#upstream.openSession(owner));
    if (!this.#upstream.detector.broadcasts) return this.#lend(owner, session);
    // Opening it showed that the server broadcasts: it must not carry a call beside others.
    this.#unlease(session);
    void this.#end(session);
    return this.#takeTurn(owner, isWanted);
  }

  /**
   * Opens a session for one subscription only. No calls are made on it.
   * @throws UpstreamFailure if it cannot be opened
   */
  async leaseToListen(owner: SessionOwner): Promise<Lease> {
    const session = await this.#upstream.openSession(owner);
    return this.#lend(owner, session, this.#listening);
  }

  /** Takes over a session of another replica, to resume one of its calls. Throws UpstreamFailure. */
  async adopt(owner: SessionOwner, revision: LegacyRevision): Promise<Lease> {
    return this.#lend(owner, await this.#upstream.adoptSession(owner, revision));
  }

  #lend(owner: SessionOwner, session: Session, held = this.#leased): Lease {
    held.add(session);
    let released = false;
    const once = (then: () => void) => () => {
      if (released) return;
      released = true;
      this.#unlease(session, held);
      session.keepAlive(false, lease);
      then();
    };
    const lease: Lease = {
      session,
      release: (clean) =>
        once(() =>
          this.#giveBack(this.#key(owner), session, clean && this.#scope(owner) !== 'call'),
        )(),
      leave: once(() => session.leave()),
    };
    return lease;
  }

  /**
   * Takes a session for a request that cannot lead to questions. Several requests may share it.
   * @throws UpstreamFailure if a session is needed and cannot be opened
   */
  async borrow(owner: SessionOwner): Promise<SharedLease> {
    if (this.#upstream.detector.broadcasts) return this.#single.borrow(this.#wanted(owner));
    return (await this.#borrowIdle(owner)) ?? this.#borrowShared(owner);
  }

  /** Waits until the one session of a server that broadcasts is free. */
  async #takeTurn(owner: SessionOwner, isWanted: () => boolean): Promise<Lease> {
    await this.#closeIdle();
    const before = () => this.#unleased();
    const { session, end } = await this.#single.take(this.#wanted(owner), before, isWanted);
    let ended = false;
    const once = (keep: boolean, then = () => {}) => {
      if (ended) return;
      ended = true;
      session.keepAlive(false, lease);
      then();
      end(keep);
    };
    const lease: Lease = {
      session,
      release: (clean) => once(clean && this.#scope(owner) !== 'call'),
      leave: () => once(false, () => session.leave()),
    };
    return lease;
  }

  #wanted(owner: SessionOwner): SessionRequirement {
    const open = () => this.#upstream.openSession(owner);
    return { key: this.#key(owner), headers: owner.headers, open };
  }

  #unlease(session: Session, held = this.#leased): void {
    held.delete(session);
    if (this.#leased.size === 0) for (const resolve of this.#waiting) resolve();
  }

  /** Resolves when all calls have ended that began before the server was seen to broadcast. */
  async #unleased(): Promise<void> {
    while (this.#leased.size > 0) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting.add(resolve);
      await promise;
      this.#waiting.delete(resolve);
    }
  }

  /**
   * Returns a text that is equal for owners that may share a session, or `null` for an owner that must not
   * share one.
   */
  sharingKey(owner: SessionOwner): string | null {
    return this.#scope(owner) === 'call' ? null : this.#key(owner);
  }

  /** Closes every session. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const session of [...this.#leased, ...this.#listening]) void this.#end(session);
    await Promise.all([this.#single.close(), this.#closeIdle()]);
    // Sessions that were returned a moment ago are being ended, too; the server has to be told.
    while (this.#ending.size > 0) await Promise.all(this.#ending);
  }

  #end(session: Session): Promise<void> {
    const ending = session.close().finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
    return ending;
  }

  async #closeIdle(): Promise<void> {
    const idle = [...this.#idle.values()].flat();
    this.#idle.clear();
    for (const { uses } of idle) uses.stop();
    await Promise.all([this.#shared.close(), ...idle.map(({ session }) => this.#end(session))]);
  }

  #scope(owner: SessionOwner): SessionScope {
    return this.#options.scope ?? (owner.anonymous ? 'call' : 'principal');
  }

  #key(owner: SessionOwner): string {
    const principal = this.#scope(owner) === 'shared' ? '' : owner.principalKey;
    const client = owner.clientInfo === null ? '' : JSON.stringify(owner.clientInfo);
    return JSON.stringify([principal, profileKey(owner.profile), client, owner.credentialsKey]);
  }

  /** Takes the idle session that was used last, if it can be used again. */
  async #reuse(owner: SessionOwner): Promise<Session | null> {
    const session = this.#takeIdle(this.#key(owner));
    if (session === null) return null;
    this.#leased.add(session);
    if (await session.ready(owner.headers)) return session;
    this.#unlease(session);
    void this.#end(session);
    return null;
  }

  /** Skips sessions that requests use: a call may end its session at any time. */
  #takeIdle(key: string): Session | null {
    for (const idle of (this.#idle.get(key) ?? []).toReversed()) {
      if (idle.uses.inUse) continue;
      this.#removeIdle(key, idle);
      idle.uses.stop();
      if (!idle.session.dead) return idle.session;
      void this.#end(idle.session);
    }
    return null;
  }

  #removeIdle(key: string, gone: Idle): void {
    const left = (this.#idle.get(key) ?? []).filter((idle) => idle !== gone);
    if (left.length > 0) this.#idle.set(key, left);
    else this.#idle.delete(key);
  }

  async #borrowIdle(owner: SessionOwner): Promise<SharedLease | null> {
    if (this.#scope(owner) === 'call') return null;
    const idle = this.#idle.get(this.#key(owner))?.findLast(({ session }) => !session.dead);
    if (idle === undefined) return null;
    const { session, uses } = idle;
    const release = uses.use();
    if (await session.ready(owner.headers)) return { session, release };
    release();
    return null;
  }

  #borrowShared(owner: SessionOwner): Promise<SharedLease> {
    // Anonymous callers share a session here, whatever their clients are called.
    const { headers } = owner;
    const asked = owner.anonymous ? { ...owner, clientInfo: null } : owner;
    return this.#shared.borrow(this.#key(asked), headers, () => this.#upstream.openSession(asked));
  }

  #giveBack(key: string, session: Session, reusable: boolean): void {
    const sessions = this.#idle.get(key) ?? [];
    const keep =
      reusable &&
      !session.dead &&
      !this.#closed &&
      !this.#upstream.detector.broadcasts &&
      sessions.length < this.#options.maxIdle;
    if (!keep) {
      void this.#end(session);
      return;
    }
    const uses = new UseCount(this.#clock, this.#options.idleTimeoutMs, () => {
      this.#removeIdle(key, idle);
      void this.#end(session);
    });
    const idle: Idle = { session, uses };
    this.#idle.set(key, [...sessions, idle]);
  }
}
