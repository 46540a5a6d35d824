/**
 * Homes that no other process knows and no pointer names. Their sessions carry one call at a time, or none: those of callers whose
 * calls have a session each, of lists of such callers, and of listeners whose home is not here.
 */
import { ReleasingMap } from '../lib/containers.ts';
import type { LegacyServer } from '../upstream/legacy-server.ts';
import type { SessionPoint } from '../upstream/transport/transport.ts';
import { Home, type HomeOptions } from './home.ts';
import type { Lease, LeaseRequest, SharedLease } from './lease.ts';
import { onlyForCalls, type Permits } from './permits.ts';
import type { SessionOwner, Sharing } from './session-owner.ts';

/** What homes of either kind are made of. */
export type HomeSetup = Omit<HomeOptions, OwnOption>;
type OwnOption =
  | ('key' | 'concurrency' | 'afterCall' | 'ownership')
  | ('hasLostState' | 'onReplaced' | 'onSession' | 'onEmpty');

export interface OwnHomesOptions {
  readonly upstream: LegacyServer;
  readonly sharing: Sharing;
  readonly setup: (owner: SessionOwner) => HomeSetup;
  /** For the sessions of subscriptions: without a limit, since one that is open for long would keep calls from having theirs. */
  readonly listening: Permits;
}

/** The most homes that are kept for lists. Clients can invent callers. */
const MAX_FOR_LISTS = 256;
/** A request that cannot lead to questions, in the place of a call. */
const NO_CALL: LeaseRequest = { target: '', wantsLog: false, fresh: false, isWanted: () => true };

export class OwnHomes {
  readonly #options: OwnHomesOptions;
  readonly #all = new Set<Home>();
  /** Those whose session is kept for the next call, by who may use it, most recently used last. */
  readonly #free = new Map<string, Home[]>();
  /** Those for lists, most recently used last. */
  readonly #forLists = new ReleasingMap<string, Home>();
  readonly #listening = new Set<Home>();

  constructor(options: OwnHomesOptions) {
    this.#options = options;
  }

  /**
   * Lends a session to a call: the one used last, since the server may keep state in it, or a new one.
   * @throws UpstreamFailure if a session is needed and cannot be opened
   */
  lease(owner: SessionOwner, request: LeaseRequest): Lease | Promise<Lease> {
    const key = this.#options.sharing.sharingKey(owner);
    const free = key === null || request.fresh ? undefined : this.#takeFree(key);
    return (free ?? this.#forCalls(owner, key)).lease(owner, request);
  }

  /**
   * Takes over a session of another process, to resume one of its calls, and no other: nobody knows whether that process still uses
   * the session.
   * @throws UpstreamFailure
   */
  adopt(owner: SessionOwner, point: SessionPoint, request: LeaseRequest): Promise<Lease> {
    const { upstream, sharing } = this.#options;
    const key = upstream.detector.hasSiblings ? null : sharing.sharingKey(owner);
    return this.#forCalls(owner, key).adopt(owner, point, request);
  }

  /** Lends a session to a request that cannot lead to questions: one that no call uses. @throws UpstreamFailure */
  async borrow(owner: SessionOwner): Promise<SharedLease> {
    const { upstream, sharing } = this.#options;
    const free = this.#free.get(sharing.sharingKey(owner) ?? '')?.at(-1);
    if (free !== undefined) return free.borrow(owner);
    if (!upstream.hasOneSession) return this.#listIn(owner);
    const lease = await this.lease(owner, NO_CALL);
    return { session: lease.session, giveBack: () => lease.giveBack(true) };
  }

  /** Lends a session to a subscription. No calls are made in it. @throws UpstreamFailure */
  listen(owner: SessionOwner, onReplaced: () => void): Promise<SharedLease> {
    const onOneSession = () => Promise.reject(onlyForCalls());
    const onEmpty = () => this.#listening.delete(home);
    const { listening: permits } = this.#options;
    const home = this.#build(owner, { permits, onOneSession, onEmpty });
    this.#listening.add(home);
    return home.listen(owner, onReplaced);
  }

  /** Ends the sessions of subscriptions. Who listens finds out whether there is another one for it. */
  endListening(): void {
    for (const home of [...this.#listening]) home.evict();
  }

  /** Ends the sessions that nothing uses. */
  endIdle(): void {
    for (const home of [...this.#all]) home.endIdle();
  }

  /** Ends all sessions, whoever uses them. */
  close(): void {
    for (const home of [...this.#all]) home.close();
  }

  #build(owner: SessionOwner, options: Pick<HomeOptions, 'onEmpty'> & Partial<HomeOptions>): Home {
    const home = new Home({
      ...this.#options.setup(owner),
      ...{ key: null, concurrency: 'together', afterCall: null, ownership: null },
      ...{ hasLostState: false, onReplaced: null, onSession: () => {} },
      ...options,
      onEmpty: (isSessionLeft, hasLostState) => {
        this.#all.delete(home);
        options.onEmpty(isSessionLeft, hasLostState);
      },
    });
    this.#all.add(home);
    return home;
  }

  /** @param key equal for owners that may use the session one after the other; `null` if none may */
  #forCalls(owner: SessionOwner, key: string | null): Home {
    const home: Home = this.#build(owner, {
      afterCall: (how) => {
        if (key === null || how !== 'clean') return 'end';
        this.#free.set(key, [...(this.#free.get(key) ?? []), home]);
        return 'keep';
      },
      onEmpty: () => {
        if (key !== null) this.#removeFree(key, home);
      },
    });
    return home;
  }

  /** Skips sessions that requests use: a call may end its session at any time. */
  #takeFree(key: string): Home | undefined {
    const home = this.#free.get(key)?.findLast(({ isUsed }) => !isUsed);
    if (home !== undefined) this.#removeFree(key, home);
    return home;
  }

  #removeFree(key: string, gone: Home): void {
    const left = (this.#free.get(key) ?? []).filter((home) => home !== gone);
    if (left.length > 0) this.#free.set(key, left);
    else this.#free.delete(key);
  }

  /** Several requests of a caller may use such a session at once. */
  #listIn(owner: SessionOwner): Promise<SharedLease> {
    // Anonymous callers share a session here, whatever their clients are called.
    const asked = owner.kind === 'anonymous' ? { ...owner, clientInfo: null } : owner;
    const key = this.#options.sharing.key(asked);
    const onEmpty = () => {
      if (this.#forLists.get(key) === home) this.#forLists.delete(key);
    };
    const home = this.#forLists.get(key) ?? this.#build(asked, { onEmpty });
    this.#forLists.delete(key);
    this.#forLists.set(key, home);
    const loan = home.borrow(asked);
    for (const old of this.#forLists.values()) {
      if (this.#forLists.size <= MAX_FOR_LISTS) break;
      old.endIdle();
    }
    return loan;
  }
}
