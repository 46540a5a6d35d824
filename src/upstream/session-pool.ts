/**
 * Sessions of one route, kept for those whom they belong to. A session is never shared between
 * principals or between different declared capabilities, and while a call has it, nobody else does.
 */
import type { Clock, Timer } from '../clock.ts';
import { profileKey } from '../protocol/client-profile.ts';
import type { LegacyRevision } from '../protocol/revisions.ts';
import type { Session } from './session.ts';
import type { SessionRequest, Upstream } from './upstream.ts';

/**
 * - `principal`: a principal's calls reuse its sessions, one call at a time on each
 * - `call`: a fresh session for each call, so that callers without a name never meet in one
 * - `shared`: sessions are reused by everybody; only for servers that keep nothing in a session
 */
export type SessionScope = 'principal' | 'call' | 'shared';

export interface SessionOwner extends SessionRequest {
  /** Who is calling, as text that is equal for the same principal only. */
  readonly principalKey: string;
  /** A digest of the credentials that go upstream; other credentials never share a session. */
  readonly credentialsKey: string;
  /** Callers without a name look all alike, and must not find each other's traces in a session. */
  readonly anonymous: boolean;
}

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

interface Idle {
  readonly session: Session;
  readonly timer: Timer;
}

export class SessionPool {
  readonly #upstream: Upstream;
  readonly #options: SessionPoolOptions;
  readonly #clock: Clock;
  /** Most recently used last. */
  readonly #idle = new Map<string, Idle[]>();
  readonly #borrowed = new Map<string, Promise<Session>>();
  readonly #borrowTimers = new Map<string, Timer>();
  readonly #leased = new Set<Session>();
  #closed = false;

  constructor(upstream: Upstream, options: SessionPoolOptions, clock: Clock) {
    this.#upstream = upstream;
    this.#options = options;
    this.#clock = clock;
  }

  /** Sessions that are open now. */
  get size(): number {
    let idle = 0;
    for (const sessions of this.#idle.values()) idle += sessions.length;
    return idle + this.#leased.size + this.#borrowed.size;
  }

  /**
   * Reserves a session for an interactive call: the one used last, so that whatever the server keeps
   * in it stays warm, or a new one.
   * @param fresh never an idle one (the server has just forgotten such a session)
   * @throws UpstreamFailure when a session is needed and cannot be opened
   */
  async lease(owner: SessionOwner, fresh = false): Promise<Lease> {
    const key = this.#key(owner);
    const reused = fresh ? null : this.#takeIdle(key);
    const session = reused ?? (await this.#upstream.openSession(owner));
    return this.#lend(owner, session);
  }

  /** Reserves a session that another replica had, for one of its calls. Throws UpstreamFailure. */
  async adopt(owner: SessionOwner, revision: LegacyRevision): Promise<Lease> {
    return this.#lend(owner, await this.#upstream.adoptSession(owner, revision));
  }

  #lend(owner: SessionOwner, session: Session): Lease {
    this.#leased.add(session);
    let released = false;
    const once = (then: () => void) => () => {
      if (released) return;
      released = true;
      this.#leased.delete(session);
      session.keepAlive(false);
      then();
    };
    return {
      session,
      release: (clean) =>
        once(() =>
          this.#giveBack(this.#key(owner), session, clean && this.#scope(owner) !== 'call'),
        )(),
      leave: once(() => session.leave()),
    };
  }

  /**
   * A session for requests that may not ask anything; they may share one, also with each other.
   * It is kept apart from the sessions of calls where those belong to one call each.
   * @throws UpstreamFailure when a session is needed and cannot be opened
   */
  async borrow(owner: SessionOwner): Promise<Session> {
    const key = this.#key(owner);
    const idle = this.#scope(owner) === 'call' ? undefined : this.#idle.get(key)?.at(-1);
    if (idle !== undefined && !idle.session.dead) return idle.session;
    const open = this.#borrowed.get(key) ?? this.#openBorrowed(key, owner);
    const session = await open;
    if (!session.dead) {
      this.#restartBorrowTimer(key, session);
      return session;
    }
    this.#dropBorrowed(key, session);
    return this.#openBorrowed(key, owner);
  }

  /**
   * A text that is equal for owners who may be served by one session, or `null` when this owner may
   * share with nobody.
   */
  sharingKey(owner: SessionOwner): string | null {
    return this.#scope(owner) === 'call' ? null : this.#key(owner);
  }

  /** Closes every session. */
  async close(): Promise<void> {
    this.#closed = true;
    const sessions = [...this.#leased];
    for (const idle of [...this.#idle.values()].flat()) {
      idle.timer.cancel();
      sessions.push(idle.session);
    }
    for (const timer of this.#borrowTimers.values()) timer.cancel();
    const borrowed = await Promise.allSettled(this.#borrowed.values());
    for (const result of borrowed) {
      if (result.status === 'fulfilled') sessions.push(result.value);
    }
    this.#idle.clear();
    this.#borrowed.clear();
    await Promise.all(sessions.map((session) => session.close()));
  }

  #scope(owner: SessionOwner): SessionScope {
    return this.#options.scope ?? (owner.anonymous ? 'call' : 'principal');
  }

  #key(owner: SessionOwner): string {
    const principal = this.#scope(owner) === 'shared' ? '' : owner.principalKey;
    const client = owner.clientInfo === null ? '' : JSON.stringify(owner.clientInfo);
    return JSON.stringify([principal, profileKey(owner.profile), client, owner.credentialsKey]);
  }

  #takeIdle(key: string): Session | null {
    const sessions = this.#idle.get(key);
    for (let idle = sessions?.pop(); idle !== undefined; idle = sessions?.pop()) {
      idle.timer.cancel();
      if (sessions?.length === 0) this.#idle.delete(key);
      if (!idle.session.dead) return idle.session;
      void idle.session.close();
    }
    return null;
  }

  #giveBack(key: string, session: Session, reusable: boolean): void {
    const sessions = this.#idle.get(key) ?? [];
    const keep =
      reusable && !session.dead && !this.#closed && sessions.length < this.#options.maxIdle;
    if (!keep) {
      void session.close();
      return;
    }
    const timer = this.#clock.setTimer(this.#options.idleTimeoutMs, () => {
      const left = (this.#idle.get(key) ?? []).filter((idle) => idle.session !== session);
      if (left.length > 0) this.#idle.set(key, left);
      else this.#idle.delete(key);
      void session.close();
    });
    this.#idle.set(key, [...sessions, { session, timer }]);
  }

  #openBorrowed(key: string, owner: SessionOwner): Promise<Session> {
    const opening = this.#upstream.openSession(owner);
    this.#borrowed.set(key, opening);
    opening.then(
      (session) => this.#restartBorrowTimer(key, session),
      () => this.#borrowed.delete(key),
    );
    return opening;
  }

  #restartBorrowTimer(key: string, session: Session): void {
    this.#borrowTimers.get(key)?.cancel();
    if (this.#closed) return;
    this.#borrowTimers.set(
      key,
      this.#clock.setTimer(this.#options.idleTimeoutMs, () => this.#dropBorrowed(key, session)),
    );
  }

  #dropBorrowed(key: string, session: Session): void {
    this.#borrowTimers.get(key)?.cancel();
    this.#borrowTimers.delete(key);
    this.#borrowed.delete(key);
    void session.close();
  }
}
