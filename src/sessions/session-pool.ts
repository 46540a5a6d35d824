/**
 * The sessions of one route. Principals share none unless the operator says so, nor do clients of different capabilities.
 */
import type { Clock } from '../lib/clock.ts';
import { ReleasingMap, LruMap } from '../lib/containers.ts';
import { LocalCounts } from '../lib/counts.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import type { LegacyServer } from '../upstream/legacy-server.ts';
import { Home } from './home.ts';
import {
  CallLease,
  OpenLeases,
  type Lease,
  type LeaseEnd,
  type LeaseRequest,
  type SharedLease,
} from './lease.ts';
import { Sharing, type HomeName, type SessionOwner } from './session-owner.ts';
import { elsewhere, type HomePlacement, type HomePoint } from './placement.ts';
import type { SessionPoolOptions } from './pool-options.ts';
import { onlyForCalls, openInPermit, Permits, type Permit } from './permits.ts';
import { OwnHomes, type HomeSetup } from './own-homes.ts';
import { SingleSession, type SessionRequirement } from './single-session.ts';

/** The most homes whose callers are remembered as ones that were not told yet that state is gone. */
const MAX_UNTOLD = 1_000;

export class SessionPool {
  readonly #upstream: LegacyServer;
  readonly #options: SessionPoolOptions;
  readonly #clock: Clock;
  #placement: HomePlacement | null;
  readonly #sharing: Sharing;
  readonly #permits: Permits;
  readonly #homes = new ReleasingMap<string, Home>();
  /** Homes that another process has taken over, while something uses them here. */
  readonly #former = new Set<Home>();
  /** Homes whose session ended for another caller. */
  readonly #untold = new LruMap<string, true>(MAX_UNTOLD);
  /** For the sessions of subscriptions whose caller has no home here. They have no limit. */
  readonly #listening: Permits;
  readonly #own: OwnHomes;
  /** Serves all callers once the server was seen to broadcast. */
  readonly #single: SingleSession;
  /** Sessions whose end is being sent to the server. */
  readonly #ending = new Set<Promise<void>>();
  /** Calls that have a session, other than that of a server that broadcasts. */
  readonly #leases = new OpenLeases();
  /** Whether homes are left to other processes, so that none is claimed any more. */
  #isStopping = false;
  #isRetired = false;

  constructor(upstream: LegacyServer, options: SessionPoolOptions, clock: Clock) {
    this.#upstream = upstream;
    this.#options = options;
    this.#clock = clock;
    this.#sharing = new Sharing(options);
    const { idleTimeoutMs, queue, max, maxPerPrincipal } = options;
    const { counts = new LocalCounts(), name = '' } = options;
    const limits = {
      ...{ maxPerPrincipal, queue, name },
      get max() {
        return upstream.hasOneSession ? 1 : max;
      },
    };
    this.#permits = new Permits(limits, counts, clock);
    const noLimits = { queue, name, max: Infinity, maxPerPrincipal: Infinity };
    this.#listening = new Permits(noLimits, new LocalCounts(), clock);
    this.#own = new OwnHomes({
      ...{ upstream, sharing: this.#sharing, listening: this.#listening },
      setup: (owner) => this.#setup(owner),
    });
    this.#single = new SingleSession({ idleTimeoutMs, queue }, clock);
    this.#placement = options.placement ?? null;
    this.#placement?.listen({
      claimed: (key) => this.#homes.get(key)?.claimed(),
      lost: (key) => this.#lost(key),
    });
  }

  /** Sessions that are open now. */
  get size(): number {
    return this.#permits.size + this.#listening.size;
  }

  /** Takes the permit of a session that is not lent to calls. @throws UpstreamFailure as `Permits.take` */
  takePermit(principal: string | null): Promise<Permit> {
    return this.#permits.take(principal);
  }

  /**
   * Finds out where the calls of an owner have to be made, and has the home here if nobody has it.
   * @param mayRemember whether the process will do that had the home when this one last asked: it can have another one by now
   * @returns `null` at once if that is here; otherwise the process that has the home, or `null`
   * @throws DirectoryUnavailable
   */
  holderOf(owner: SessionOwner, mayRemember = false): Promise<PointerOwner | null> | null {
    return this.#holderOf(owner, this.#sharing.homeFor(owner), mayRemember);
  }

  /** The same for the home that a pointer names. @throws DirectoryUnavailable */
  async holderOfHome(owner: SessionOwner, key: string): Promise<PointerOwner | null> {
    return this.#holderOf(owner, this.#sharing.homeNamed(key), false);
  }

  /** Whether processes claim the home that a pointer names. If not, each of its calls is in a home of its own. */
  claims(key: string): boolean {
    const isClaimed = this.#placement !== null && !this.#upstream.detector.broadcasts;
    return isClaimed && this.#sharing.homeNamed(key) !== null;
  }

  /** Whether this process has claimed the home that a pointer names. */
  hasHome(key: string): boolean {
    return this.#placement?.isHere(key) === true;
  }

  /** Resolves to true if the home of an owner is here, also for one that nobody has had so far. Never rejects. */
  async isHome(owner: SessionOwner): Promise<boolean> {
    const home = this.#sharing.homeFor(owner);
    if (home === null) return false;
    const found = this.#isStopping ? null : this.holderOf(owner);
    // While the store is unreachable, a request without effects does without the home.
    if (found !== null) await found.catch(() => null);
    return this.#placement === null || this.#placement.isHere(home.key);
  }

  /** Leaves each home to another process, if one can go on with it, as soon as nothing here uses it. */
  handOver(): void {
    this.#isStopping = true;
    if (this.#placement?.hasSuccessor !== true) return;
    for (const home of [...this.#homes.values()]) home.handOver();
  }

  /**
   * Lends a session to a call: the home of its caller, or one of its own.
   * @throws UpstreamFailure if a session is needed and cannot be opened, or the call waits in vain
   */
  lease(owner: SessionOwner, request: LeaseRequest): Lease | Promise<Lease> {
    if (this.#upstream.detector.broadcasts) return this.#leaseSingle(owner, request);
    const home = this.#sharing.homeFor(owner);
    const lent =
      home === null
        ? this.#own.lease(owner, request)
        : this.#homeOf(owner, home).lease(owner, request);
    if (!(lent instanceof Promise)) return lent;
    return lent.then((lease) => {
      if (!this.#upstream.detector.broadcasts) return lease;
      // Opening it showed that the server broadcasts: it must not carry a call beside others.
      lease.giveBack(false);
      return this.#leaseSingle(owner, request);
    });
  }

  /**
   * Lends a session to a subscription: the home of its caller, so that it hears what changes in the session of the calls. A caller
   * without a home here gets one for this subscription only, on which no calls are made.
   * @param onReplaced called when the home gets another session
   * @throws UpstreamFailure if a session is needed and cannot be opened
   */
  async leaseToListen(owner: SessionOwner, onReplaced: () => void): Promise<SharedLease> {
    const home = this.#upstream.detector.broadcasts ? null : this.#sharing.homeFor(owner);
    if (home !== null && (await this.isHome(owner))) {
      return this.#homeOf(owner, home).listen(owner, onReplaced);
    }
    if (!this.canListen) throw onlyForCalls();
    return this.#own.listen(owner, onReplaced);
  }

  /**
   * Takes over the session of a call that another replica had, or that was left.
   * @throws UpstreamFailure if the transport cannot do that, or another process has the home of the session
   */
  async adopt(owner: SessionOwner, point: HomePoint, request: LeaseRequest): Promise<Lease> {
    const { broadcasts } = this.#upstream.detector;
    const home = broadcasts ? null : this.#sharing.homeNamed(point.home);
    if (home === null) return this.#own.adopt(owner, point, request);
    if (this.#placement?.isConfirmed(home.key) === false) throw elsewhere();
    return this.#homeOf(owner, home).adopt(owner, point, request);
  }

  /**
   * Lends a session to a request that cannot lead to questions. Several requests may share it.
   * @throws UpstreamFailure if a session is needed and cannot be opened
   */
  async borrow(owner: SessionOwner): Promise<SharedLease> {
    if (this.#upstream.detector.broadcasts) return this.#single.borrow(this.#wanted(owner));
    const home = this.#sharing.homeFor(owner);
    // A home elsewhere must not get a second session here.
    if (home !== null && (await this.isHome(owner))) return this.#homeOf(owner, home).borrow(owner);
    return this.#own.borrow(owner);
  }

  /** Whether sessions of subscriptions can be opened beside those of calls. */
  get canListen(): boolean {
    return !this.#upstream.hasOneSession;
  }

  /**
   * Waits until no caller has the only session of the server. @returns a function that leaves it to others
   * @throws UpstreamFailure `upstream_busy`
   */
  async reserveOnlySession(): Promise<() => void> {
    if (this.#upstream.hasOneSession) await this.#endListening();
    const permit = await this.#permits.take(null);
    return () => permit.free();
  }

  /** See `Sharing.sharingKey`. */
  sharingKey(owner: SessionOwner): string | null {
    return this.#sharing.sharingKey(owner);
  }

  /** Whether no new call comes here. */
  get isRetired(): boolean {
    return this.#isRetired;
  }

  /** Ends each session as soon as nothing uses it, since no new call comes here. */
  retire(): void {
    this.#isRetired = true;
    this.#placement?.abandon();
    this.#placement = null;
    for (const home of [...this.#homes.values()]) home.endIdle();
    this.#own.endIdle();
  }

  /** Closes every session. */
  async close(): Promise<void> {
    this.#permits.close();
    this.#listening.close();
    // No call runs any more. Another process can go on with the sessions.
    this.handOver();
    this.#placement?.close();
    for (const home of [...this.#homes.values(), ...this.#former]) home.close();
    this.#own.close();
    await this.#single.close();
    // Sessions that were returned a moment ago are being ended, too; the server has to be told.
    await this.#allEnded();
  }

  #holderOf(
    owner: SessionOwner,
    home: HomeName | null,
    mayRemember: boolean,
  ): Promise<PointerOwner | null> | null {
    const placement = this.#placement;
    if (placement === null || home === null || this.#upstream.detector.broadcasts) return null;
    if (!placement.isHere(home.key)) return this.#claimHome(placement, owner, home, mayRemember);
    const still = placement.stillHere(home.key);
    if (still === null) return null;
    return still.then((isHere) => (isHere ? null : this.#claimHome(placement, owner, home)));
  }

  #homeOf(owner: SessionOwner, { key, concurrency }: HomeName): Home {
    const known = this.#homes.get(key);
    if (known !== undefined) return known;
    const placement = this.#placement;
    const hasLostState = this.#untold.has(key);
    this.#untold.delete(key);
    const home = new Home({
      ...this.#setup(owner),
      key,
      hasLostState,
      concurrency,
      afterCall: null,
      ownership: placement && {
        isConfirmed: () => placement.isConfirmed(key),
        stillHere: () => placement.stillHere(key),
        askStore: () => placement.askStore(key),
      },
      onReplaced: (reason) => this.#options.onReplaced?.(reason),
      onSession: (point) => placement?.keep(key, point),
      onEmpty: (isSessionLeft, isUntold) => {
        if (this.#former.delete(home)) return;
        this.#homes.delete(key);
        if (isUntold) this.#untold.set(key, true);
        placement?.giveUp(key, isSessionLeft);
      },
    });
    this.#homes.set(key, home);
    if (this.#isStopping && placement?.hasSuccessor === true) home.handOver();
    return home;
  }

  #setup(owner: SessionOwner): HomeSetup {
    const { queue, idleTimeoutMs, leftForMs } = this.#options;
    return {
      ...{ upstream: this.#upstream, permits: this.#permits },
      onOneSession: () => this.#endListening(),
      ...{ queue, idleTimeoutMs, leftForMs },
      principal: this.#sharing.principal(owner),
      leases: this.#leases,
      clock: this.#clock,
      isRetired: () => this.#isRetired,
      onEnding: (ending) => this.#noteEnding(ending),
    };
  }

  /** Another process has the home now. What runs here goes on, and is no part of the home if that comes back. */
  #lost(key: string): void {
    const home = this.#homes.get(key);
    if (home === undefined) return;
    this.#homes.delete(key);
    this.#former.add(home);
    home.lost();
  }

  async #claimHome(
    placement: HomePlacement,
    owner: SessionOwner,
    home: HomeName,
    mayRemember = false,
  ): Promise<PointerOwner | null> {
    const claim = await placement.claim(home.key, mayRemember);
    if (claim.type === 'elsewhere') return claim.holder;
    // The claim ends with the home, also if the request that waits for it does not use it; or with this process, if that stops.
    if (!this.#isStopping) this.#homeOf(owner, home).expect();
    // It got a session before it could be claimed, while the store was unreachable.
    const own = this.#homes.get(home.key)?.point ?? null;
    if (own !== null) placement.keep(home.key, own);
    else if (claim.session !== null) {
      // The home was here before, and calls of then go on in its session.
      const { session } = claim;
      const hasOthers = [...this.#former].some((former) => former.has(session));
      this.#homeOf(owner, home).inherit(session, hasOthers);
    }
    return null;
  }

  /** Waits until the one session of a server that broadcasts is free. */
  async #leaseSingle(owner: SessionOwner, { isWanted }: LeaseRequest): Promise<Lease> {
    await this.#endIdle();
    // Calls that began before the server was seen to broadcast have to end first.
    const before = () => this.#leases.none();
    const { session, end } = await this.#single.lease(this.#wanted(owner), before, isWanted);
    const onEnd = (how: LeaseEnd) => {
      if (how === 'left') session.leave();
      end(how === 'clean' && this.#sharing.scope(owner) !== 'call');
    };
    return new CallLease(session, { leases: null, onEnd });
  }

  #wanted(owner: SessionOwner): SessionRequirement {
    const open = () =>
      openInPermit(this.#setup(owner), null, () => this.#upstream.openSession(owner));
    return { key: this.#sharing.key(owner), headers: owner.headers, open };
  }

  #noteEnding(ended: Promise<void>): void {
    const ending = ended.finally(() => this.#ending.delete(ending));
    this.#ending.add(ending);
  }

  /** A server that has one session refuses the next one until it has heard of the end of the last. */
  async #endListening(): Promise<void> {
    this.#own.endListening();
    await this.#allEnded();
  }

  async #endIdle(): Promise<void> {
    for (const home of [...this.#homes.values()]) home.endIdle();
    this.#own.endIdle();
    await this.#allEnded();
  }

  async #allEnded(): Promise<void> {
    while (this.#ending.size > 0) await Promise.all(this.#ending);
  }
}
