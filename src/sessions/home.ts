/**
 * The home of a caller: the one session that all of its calls use, so that what the server keeps in it is there
 * in the next call. A session that the server has forgotten is replaced.
 */
import { sleep, type Clock, type Timer } from '../lib/clock.ts';
import type { LruMap } from '../lib/containers.ts';
import type { SessionId } from '../protocol/ids.ts';
import type { LegacyRevision } from '../protocol/meta.ts';
import { asUpstreamFailure, UpstreamFailure } from '../upstream/failure.ts';
import type { Session } from '../upstream/session/session.ts';
import {
  CallLease,
  type Lease,
  type LeaseRequest,
  type OpenLeases,
  type SharedLease,
} from './lease.ts';
import { isInteractive, type SessionOwner } from './owner.ts';
import { openInPlace, type PlaceOptions, type Placed } from './place.ts';
import type { QueueLimits, Slot } from './slots.ts';
import { Turns, type Turn, type TurnRule } from './turns.ts';

/** How calls of one home that come at the same time are run; see `Turns`. */
export type HomeConcurrency = 'auto' | 'together' | 'queue';

/**
 * Why a session of earlier calls was replaced.
 * - `forgotten`: the server does not know it any more, or its stream ended
 * - `no_stream`: the server does not open its standalone stream again
 * - `uncertain`: calls that may go on at the server cannot be told from the next one
 * - `needed`: another caller needed its place, and the server or `sessions.max` allows no more sessions
 */
export type ReplacementReason = 'forgotten' | 'no_stream' | 'uncertain' | 'needed';

export interface HomeOptions extends PlaceOptions {
  /** Whose sessions these are, for `Slots`. */
  readonly principal: string | null;
  readonly concurrency: HomeConcurrency;
  readonly queue: QueueLimits;
  readonly idleTimeoutMs: number;
  /** The leases of the route. */
  readonly leases: OpenLeases;
  /** Targets whose calls ended without a question, of all homes of the route. */
  readonly silentTargets: LruMap<string, true>;
  readonly clock: Clock;
  /** Whether no new call comes here, so that no session is kept for one. */
  readonly isRetired: () => boolean;
  /** Called with each session that is ended, until the server was told. */
  readonly onEnding: (ending: Promise<void>) => void;
  readonly onReplaced: (reason: ReplacementReason) => void;
  /** Called with each session that becomes the current one. */
  readonly onSession: (session: Session) => void;
  /** Whether the caller has to be told that the state of an earlier session is gone. */
  readonly hasLostState: boolean;
  /**
   * Called when nothing is left here: the home can be forgotten.
   * @param isSessionLeft whether the server still has the session
   * @param hasLostState whether the caller was not told yet that the state of its session is gone
   */
  readonly onEmpty: (isSessionLeft: boolean, hasLostState: boolean) => void;
}

/** What another process needs to use the session. */
export interface SessionPoint {
  readonly sessionId: SessionId;
  readonly revision: LegacyRevision;
}

/** A session of the home. Beside the current one there can be earlier ones that calls still use. */
interface Seat extends Placed {
  /** Calls and other requests that use the session now. */
  users: number;
  /** Calls that were left in the session, for another replica to resume. */
  left: number;
  hasServed: boolean;
  /** Whether it may be the home of the caller at another replica. */
  isForeign: boolean;
  /** Called when the home gets another session. */
  readonly onReplaced: Set<() => void>;
}

/** A session that nothing here is connected to. The server keeps it. */
interface Asleep {
  readonly point: SessionPoint;
  /** `null` if the home had the session in another process. */
  readonly slot: Slot | null;
  readonly hasServed: boolean;
  readonly isInherited: boolean;
}

const MAX_ATTEMPTS = 3;

export class Home {
  readonly #options: HomeOptions;
  readonly #turns: Turns;
  readonly #seats = new Set<Seat>();
  #current: Seat | null = null;
  #asleep: Asleep | null = null;
  #opening: { readonly headers: string; readonly seat: Promise<Seat> } | null = null;
  /** Requests that wait for a turn or for a session. */
  #pending = 0;
  #idleSinceMs = 0;
  #idleTimer: Timer | null = null;
  /** Whether the next call that wants log messages tells its client that state is gone. */
  #hasLostState: boolean;
  /** Whether another process goes on with the session once nothing here uses it. */
  #isHandedOver = false;
  #isClosed = false;

  constructor(options: HomeOptions) {
    const { clock, queue } = options;
    this.#options = options;
    this.#hasLostState = options.hasLostState;
    this.#turns = new Turns({ ...queue, clock, rule: () => this.#rule() });
  }

  /**
   * Lends the session to a call, when it is the turn of the call: at once if the call has to wait for nothing.
   * @throws UpstreamFailure
   */
  lease(owner: SessionOwner, request: LeaseRequest): Lease | Promise<Lease> {
    const { upstream, slots } = this.#options;
    // Callers take turns: none keeps the only session with one call after the other.
    const givesWay = upstream.hasOneSession && slots.isWaitedFor;
    const turn = this.#needsTurn(owner, request) ? this.#turns.take(request.isWanted) : null;
    const seat = this.#current;
    const isAsked = isInteractive(owner.profile);
    const isNow =
      !(turn instanceof Promise) &&
      seat !== null &&
      !givesWay &&
      this.#settleMs(owner, request) === 0 &&
      (!isAsked || seat.session.isCertain) &&
      seat.session.ready(owner.headers) === true;
    if (isNow) return this.#lend(this.#use(seat), turn, request);
    return this.#whilePending(async () => {
      if (givesWay) this.#giveWay();
      const taken = await turn;
      try {
        const waitMs = this.#settleMs(owner, request);
        if (waitMs > 0) await sleep(this.#options.clock, waitMs);
        return this.#lend(await this.#takeSeat(owner, isAsked), taken, request);
      } catch (error) {
        taken?.end();
        throw error;
      }
    });
  }

  /** Lends the session to a request that cannot lead to questions. @throws UpstreamFailure */
  borrow(owner: SessionOwner): Promise<SharedLease> {
    return this.#share(owner, (seat) => this.#giveBack(seat));
  }

  /**
   * Lends the session to a subscription. It ends with the subscription if it has served no call.
   * @param onReplaced called when the home gets another session
   * @throws UpstreamFailure
   */
  async listen(owner: SessionOwner, onReplaced: () => void): Promise<SharedLease> {
    return this.#share(
      owner,
      (seat) => {
        seat.onReplaced.delete(onReplaced);
        const isUnused = seat.users === 1 && !seat.hasServed && seat.left === 0;
        if (isUnused && this.#pending === 0 && seat === this.#current) this.#current = null;
        this.#giveBack(seat);
      },
      onReplaced,
    );
  }

  /**
   * Lends the session of a call that another process had, or that was left here. The call goes on already.
   * @throws UpstreamFailure if the transport cannot do that
   */
  adopt(owner: SessionOwner, point: SessionPoint, request: LeaseRequest): Promise<Lease> {
    return this.#whilePending(async () => {
      const seat = await this.#adoptSeat(owner, point);
      seat.left = Math.max(0, seat.left - 1);
      return this.#lend(this.#use(seat), this.#turns.begin(), request);
    });
  }

  /** Goes on with the session that the home had in another process, unless there is one here. */
  inherit(point: SessionPoint): void {
    if (!this.#isHomeless) return;
    this.#asleep = { point, slot: null, hasServed: true, isInherited: true };
    this.#checkIdle();
  }

  /** Leaves the session to another process as soon as nothing here uses it. */
  handOver(): void {
    this.#isHandedOver = true;
    this.#checkIdle();
  }

  /** Ends the session unless something uses it. */
  endIdle(): void {
    if (this.#pending > 0 || (this.#current?.users ?? 0) > 0) return;
    this.#empty();
  }

  /** Ends all sessions, whoever uses them. */
  close(): void {
    this.#isClosed = true;
    for (const seat of this.#seats) this.#end(seat);
    this.#empty();
  }

  #share(
    owner: SessionOwner,
    giveBack: (seat: Seat) => void,
    onReplaced?: () => void,
  ): Promise<SharedLease> {
    return this.#whilePending(async () => {
      const seat = await this.#takeSeat(owner, false);
      if (onReplaced !== undefined) seat.onReplaced.add(onReplaced);
      let isReleased = false;
      const release = () => {
        if (isReleased) return;
        isReleased = true;
        giveBack(seat);
      };
      return { session: seat.session, release };
    });
  }

  async #whilePending<Lent>(lend: () => Promise<Lent>): Promise<Lent> {
    this.#pending += 1;
    try {
      return await lend();
    } finally {
      this.#pending -= 1;
      this.#checkIdle();
    }
  }

  /** Calls of a client that nobody can be asked for need no turn, but for their log messages on one stream for all. */
  #needsTurn({ profile }: SessionOwner, { target, wantsLog }: LeaseRequest): boolean {
    const { concurrency, upstream, silentTargets } = this.#options;
    if (concurrency !== 'auto') return concurrency === 'queue';
    const { knownKind } = upstream;
    if (!isInteractive(profile)) {
      return wantsLog && (knownKind === 'http-sse' || knownKind === 'stdio');
    }
    return this.#rule() !== 'probe' || !silentTargets.has(target);
  }

  /** How long calls that were cancelled may still ask, in ms: what they ask must not be taken for the next call's. */
  #settleMs({ profile }: SessionOwner, { target }: LeaseRequest): number {
    const session = this.#current?.session;
    if (session === undefined || this.#options.silentTargets.has(target)) return 0;
    return isInteractive(profile) && session.isCertain ? session.certainInMs : 0;
  }

  #rule(): TurnRule {
    const { concurrency, upstream } = this.#options;
    if (concurrency !== 'auto') return concurrency;
    if (this.#current?.session.mustQueue === true) return 'queue';
    switch (upstream.askingStyle) {
      case 'on-stream':
        return 'together';
      case 'unrelated':
        return 'queue';
      case 'unknown':
        return 'probe';
    }
  }

  /** Returns a session that can be used, counted as used. */
  async #takeSeat(owner: SessionOwner, isAsked: boolean): Promise<Seat> {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
      const seat = this.#current ?? (await this.#open(owner));
      if (seat !== this.#current) continue;
      this.#use(seat);
      const isReady = await seat.session.ready(owner.headers);
      if (isReady && (!isAsked || seat.session.isCertain)) return seat;
      this.#replace(seat, isReady ? 'uncertain' : seat.session.dead ? 'forgotten' : 'no_stream');
      this.#giveBack(seat);
    }
    throw new UpstreamFailure('session_gone', 'sessions end as soon as they are opened', {
      mayHaveActed: false,
    });
  }

  /** Opens a session, once for all who wait for it, or wakes the one that is asleep. */
  async #open(owner: SessionOwner): Promise<Seat> {
    const headers = JSON.stringify(owner.headers);
    const running = this.#opening;
    if (running !== null) {
      return running.seat.catch((error: unknown) => {
        const refused = asUpstreamFailure(error, false).code === 'unauthorized';
        if (!refused || running.headers === headers) throw error;
        // The credentials of an earlier request were refused, as an expired token is.
        return this.#current ?? this.#open(owner);
      });
    }
    const seat = this.#openOrGoOn(owner)
      .then((opened) => {
        this.#current = opened;
        this.#options.onSession(opened.session);
        return opened;
      })
      .finally(() => {
        this.#opening = null;
      });
    this.#opening = { headers, seat };
    return seat;
  }

  /** True if there is no session here, and none on its way. */
  get #isHomeless(): boolean {
    const isAsleep = this.#asleep !== null && this.#asleep.slot !== null;
    return this.#current === null && this.#opening === null && !isAsleep;
  }

  async #openOrGoOn(owner: SessionOwner): Promise<Seat> {
    const asleep = this.#asleep;
    if (asleep === null) return this.#openNew(owner);
    const seat = await this.#wake(owner, asleep);
    seat.hasServed = asleep.hasServed;
    await seat.session.openStandaloneStream(owner.headers);
    return seat;
  }

  /** Connects with a session that nothing here is connected to. If the server has forgotten it, it is replaced. */
  async #wake(owner: SessionOwner, { point, slot }: Asleep): Promise<Seat> {
    const { slots, principal } = this.#options;
    this.#asleep = null;
    slot?.used();
    return this.#adopted(owner, point, slot ?? (await slots.take(principal)));
  }

  async #openNew(owner: SessionOwner): Promise<Seat> {
    const { principal, upstream } = this.#options;
    return this.#seat(
      await openInPlace(this.#options, principal, () => upstream.openSession(owner)),
    );
  }

  async #adoptSeat(owner: SessionOwner, point: SessionPoint): Promise<Seat> {
    const { slots, principal, upstream } = this.#options;
    for (const seat of this.#seats) {
      if (seat.session.id === point.sessionId && !seat.session.dead) return seat;
    }
    const asleep = this.#asleep;
    if (asleep?.point.sessionId === point.sessionId && asleep.slot !== null) {
      this.#current = await this.#wake(owner, asleep);
      return this.#current;
    }
    const seat = await this.#adopted(owner, point, await slots.take(principal));
    if (this.#isHomeless) this.#current = seat;
    else seat.isForeign = upstream.detector.hasSiblings;
    return seat;
  }

  async #adopted(owner: SessionOwner, point: SessionPoint, slot: Slot): Promise<Seat> {
    try {
      return this.#seat({ session: await this.#options.upstream.adoptSession(owner, point), slot });
    } catch (error) {
      slot.free();
      throw error;
    }
  }

  #seat(placed: Placed): Seat {
    const seat: Seat = {
      ...{ ...placed, users: 0, left: 0, hasServed: false, isForeign: false },
      onReplaced: new Set(),
    };
    this.#seats.add(seat);
    return seat;
  }

  #lend(seat: Seat, turn: Turn | null, { target, wantsLog }: LeaseRequest): Lease {
    const { silentTargets, leases } = this.#options;
    const isReplacement = wantsLog && this.#hasLostState;
    if (isReplacement) this.#hasLostState = false;
    return new CallLease(seat.session, {
      leases,
      isReplacement,
      onParked: (isParked) => {
        seat.hasServed ||= isParked;
        turn?.park(isParked);
      },
      onEnd: (how, hasParked) => {
        turn?.end();
        if (how === 'left') {
          seat.left += 1;
        } else {
          const isClean = how === 'clean';
          seat.hasServed ||= isClean;
          if (hasParked) silentTargets.delete(target);
          else if (isClean) silentTargets.set(target, true);
        }
        this.#giveBack(seat);
      },
    });
  }

  #use(seat: Seat): Seat {
    seat.users += 1;
    if (seat.users === 1) {
      seat.slot.used();
      seat.session.keepAlive(false, this);
    }
    return seat;
  }

  #giveBack(seat: Seat): void {
    seat.users -= 1;
    if (seat.users > 0) return;
    if (seat.session.dead) this.#replace(seat, 'forgotten');
    if (seat !== this.#current) this.#end(seat);
    else if (seat.left > 0) this.#sleep(seat);
    this.#checkIdle();
  }

  /** The session is no longer the current one. Calls that use it can finish. */
  #replace(seat: Seat, reason: ReplacementReason): void {
    if (seat !== this.#current) return;
    this.#current = null;
    this.#lose(seat, reason);
    for (const onReplaced of [...seat.onReplaced]) onReplaced();
  }

  #lose({ hasServed }: Pick<Seat, 'hasServed'>, reason: ReplacementReason): void {
    if (!hasServed) return;
    this.#hasLostState = true;
    this.#options.onReplaced(reason);
  }

  /** Ends the session for another caller to have its place, as soon as no call uses it. */
  #giveWay(): void {
    const seat = this.#current;
    const asleep = this.#asleep;
    if (seat !== null) {
      seat.hasServed ||= seat.users > 0;
      this.#replace(seat, 'needed');
      if (seat.users === 0) this.#end(seat);
    } else if (asleep !== null && asleep.slot !== null) {
      this.#lose(asleep, 'needed');
      asleep.slot.free();
      this.#asleep = null;
    }
    this.#checkIdle();
  }

  /** Lets go of a session with calls that another replica may resume: it needs the streams. */
  #sleep(seat: Seat): void {
    const { session, slot, hasServed } = seat;
    const { id } = session;
    this.#current = null;
    this.#seats.delete(seat);
    session.leave();
    if (id === null || this.#isClosed) return slot.free();
    const revision = session.initializeResult.protocolVersion;
    const isInherited = this.#asleep?.isInherited === true;
    this.#asleep = { point: { sessionId: id, revision }, slot, hasServed, isInherited };
  }

  #checkIdle(): void {
    const { upstream, clock, onEmpty, isRetired } = this.#options;
    const seat = this.#current;
    if (this.#pending > 0 || (seat !== null && seat.users > 0)) return;
    const isOver = this.#isClosed || this.#isHandedOver || isRetired();
    if (isOver || upstream.detector.broadcasts) return this.#empty();
    const asleep = this.#asleep;
    const slot = seat?.slot ?? asleep?.slot;
    if (seat === null && asleep === null) {
      if (this.#seats.size > 0) return;
      if (!this.#hasLostState) return onEmpty(false, false);
    }
    slot?.idle(() => this.#giveWay());
    seat?.session.keepAlive(true, this);
    this.#idleSinceMs = clock.elapsed();
    this.#idleTimer ??= clock.setTimer(this.#options.idleTimeoutMs, () => this.#expire());
  }

  /** One timer serves many idle times: each use would cancel its own. */
  #expire(): void {
    this.#idleTimer = null;
    const { clock, idleTimeoutMs } = this.#options;
    if (this.#pending > 0 || (this.#current?.users ?? 0) > 0) return;
    const leftMs = this.#idleSinceMs + idleTimeoutMs - clock.elapsed();
    if (leftMs <= 0) return this.#empty();
    this.#idleTimer = clock.setTimer(Math.ceil(leftMs), () => this.#expire());
  }

  /** Ends the current session, which nothing uses. */
  #empty(): void {
    this.#idleTimer?.cancel();
    this.#idleTimer = null;
    const isLeft = this.#isHandedOver || this.#asleep?.isInherited === true;
    this.#asleep?.slot?.free();
    this.#asleep = null;
    if (this.#current !== null) this.#end(this.#current);
    if (this.#seats.size === 0) this.#options.onEmpty(isLeft, this.#hasLostState);
  }

  #end(seat: Seat): void {
    if (!this.#seats.delete(seat)) return;
    if (this.#current === seat) this.#current = null;
    const { session, slot, left, isForeign } = seat;
    // Another replica can resume a call of the session, or go on with it.
    const isKept = left > 0 || isForeign || this.#isHandedOver;
    if (isKept) session.leave();
    const ending = isKept ? Promise.resolve() : session.close();
    this.#options.onEnding(ending.finally(() => slot.free()));
  }
}
