/**
 * The home of a caller: the one session that all of its calls use, so that what the server keeps in it is there
 * in the next call. A session that the server has forgotten is replaced.
 */
import { sleep, type Timer } from '../lib/clock.ts';
import type { LruMap } from '../lib/containers.ts';
import { UpstreamFailure } from '../upstream/failure.ts';
import type { SessionPoint } from '../upstream/transport/transport.ts';
import {
  CallLease,
  type Lease,
  type LeaseRequest,
  type OpenLeases,
  type SharedLease,
} from './lease.ts';
import { canBeAsked, type SessionOwner } from './session-owner.ts';
import { Seats, type Seat, type SeatsOptions } from './seats.ts';
import type { QueueLimits } from './slots.ts';
import { Turns, type Turn, type TurnRule } from './turns.ts';

/** How calls of one home that come at the same time are run; see `Turns`. */
export type HomeConcurrency = 'auto' | 'together' | 'queue';

export interface HomeOptions extends SeatsOptions {
  readonly concurrency: HomeConcurrency;
  readonly queue: QueueLimits;
  readonly idleTimeoutMs: number;
  /** The leases of the route. */
  readonly leases: OpenLeases;
  /** Targets whose calls ended without a question, of all homes of the route. */
  readonly silentTargets: LruMap<string, true>;
  /** Whether no new call comes here, so that no session is kept for one. */
  readonly isRetired: () => boolean;
  /**
   * Called when nothing is left here: the home can be forgotten.
   * @param isSessionLeft whether the server still has the session
   * @param hasLostState whether the caller was not told yet that the state of its session is gone
   */
  readonly onEmpty: (isSessionLeft: boolean, hasLostState: boolean) => void;
}

const MAX_ATTEMPTS = 3;

export class Home {
  readonly #options: HomeOptions;
  readonly #turns: Turns;
  readonly #seats: Seats;
  /** Requests that wait for a turn or for a session. */
  #pending = 0;
  #idleSinceMs = 0;
  #idleTimer: Timer | null = null;

  constructor(options: HomeOptions) {
    const { clock, queue } = options;
    this.#options = options;
    this.#seats = new Seats(options);
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
    const seat = this.#seats.current;
    const isAsked = canBeAsked(owner.profile);
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
        const isUnused = seat.users === 1 && !seat.hasServed && !seat.left.any;
        if (isUnused && this.#pending === 0) this.#seats.dismiss(seat);
        this.#giveBack(seat);
      },
      onReplaced,
    );
  }

  /**
   * Lends the session of a call that another process had, or that was left here. The call goes on already.
   * @param isHome false if another process has the home of the caller, and may go on with the session
   * @throws UpstreamFailure if the transport cannot do that
   */
  adopt(
    owner: SessionOwner,
    point: SessionPoint,
    request: LeaseRequest,
    isHome: boolean,
  ): Promise<Lease> {
    return this.#whilePending(async () => {
      const seat = await this.#seats.adopt(owner, point, isHome);
      seat.left.remove();
      return this.#lend(this.#use(seat), this.#turns.begin(), request);
    });
  }

  /** Goes on with the session that the home had in another process, unless there is one here. */
  inherit(point: SessionPoint): void {
    if (!this.#seats.isHomeless) return;
    this.#seats.inherit(point);
    this.#checkIdle();
  }

  /** Leaves the session to another process as soon as nothing here uses it. */
  handOver(): void {
    this.#seats.handOver();
    this.#checkIdle();
  }

  /** Ends the session unless something uses it. */
  endIdle(): void {
    if (this.#pending > 0 || (this.#seats.current?.users ?? 0) > 0) return;
    this.#empty();
  }

  /** Ends all sessions, whoever uses them. */
  close(): void {
    this.#seats.close();
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
      let isBack = false;
      const giveBackOnce = () => {
        if (isBack) return;
        isBack = true;
        giveBack(seat);
      };
      return { session: seat.session, giveBack: giveBackOnce };
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
    if (!canBeAsked(profile)) {
      return wantsLog && (knownKind === 'http-sse' || knownKind === 'stdio');
    }
    return this.#rule() !== 'probe' || !silentTargets.has(target);
  }

  /** How long calls that were cancelled may still ask, in ms: what they ask must not be taken for the next call's. */
  #settleMs({ profile }: SessionOwner, { target }: LeaseRequest): number {
    const session = this.#seats.current?.session;
    if (session === undefined || this.#options.silentTargets.has(target)) return 0;
    return canBeAsked(profile) && session.isCertain ? session.certainInMs : 0;
  }

  #rule(): TurnRule {
    const { concurrency, upstream } = this.#options;
    if (concurrency !== 'auto') return concurrency;
    if (this.#seats.current?.session.mustQueue === true) return 'queue';
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
      const seat = this.#seats.current ?? (await this.#seats.take(owner));
      if (seat !== this.#seats.current) continue;
      this.#use(seat);
      const isReady = await seat.session.ready(owner.headers);
      if (isReady && (!isAsked || seat.session.isCertain)) return seat;
      this.#seats.replace(
        seat,
        isReady ? 'uncertain' : seat.session.dead ? 'forgotten' : 'no_stream',
      );
      this.#giveBack(seat);
    }
    throw new UpstreamFailure('session_gone', 'sessions end as soon as they are opened', {
      mayHaveActed: false,
    });
  }

  #lend(seat: Seat, turn: Turn | null, { target, wantsLog }: LeaseRequest): Lease {
    const { silentTargets, leases } = this.#options;
    const isReplacement = wantsLog && this.#seats.tellLoss();
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
          seat.left.add();
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
    if (seat.session.dead) this.#seats.replace(seat, 'forgotten');
    if (seat !== this.#seats.current) this.#seats.end(seat);
    else if (seat.left.any) this.#seats.sleep(seat);
    this.#checkIdle();
  }

  #giveWay(): void {
    this.#seats.giveWay();
    this.#checkIdle();
  }

  #checkIdle(): void {
    const { upstream, clock, onEmpty, isRetired } = this.#options;
    const seat = this.#seats.current;
    if (this.#pending > 0 || (seat !== null && seat.users > 0)) return;
    const { isClosed, isHandedOver, isVacant, isEmpty, hasLostState, slot } = this.#seats;
    if (isClosed || isHandedOver || isRetired() || upstream.detector.broadcasts) {
      return this.#empty();
    }
    if (isVacant) {
      if (!isEmpty) return;
      if (!hasLostState) return onEmpty(false, false);
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
    if (this.#pending > 0 || (this.#seats.current?.users ?? 0) > 0) return;
    const idleForMs = this.#idleSinceMs + idleTimeoutMs - clock.elapsed();
    const leftMs = Math.max(idleForMs, this.#seats.leftForMs);
    if (leftMs <= 0) return this.#empty();
    this.#idleTimer = clock.setTimer(Math.ceil(leftMs), () => this.#expire());
  }

  /** Ends the current session, which nothing uses. */
  #empty(): void {
    this.#idleTimer?.cancel();
    this.#idleTimer = null;
    const isLeft = this.#seats.clear();
    if (this.#seats.isEmpty) this.#options.onEmpty(isLeft, this.#seats.hasLostState);
  }
}
