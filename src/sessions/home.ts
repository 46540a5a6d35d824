/**
 * The home of a caller: the one session that all of its calls use, so that what the server keeps in it is there
 * in the next call. A session that the server has forgotten is replaced.
 */
import type { Timer } from '../lib/clock.ts';
import { once } from '../lib/once.ts';
import { UpstreamFailure } from '../model/upstream-failure.ts';
import type { SessionPoint } from '../upstream/transport/transport.ts';
import {
  CallLease,
  type Lease,
  type LeaseRequest,
  type OpenLeases,
  type SharedLease,
} from './lease.ts';
import { canBeAsked, type HomeConcurrency, type SessionOwner } from './session-owner.ts';
import type { HomeSession } from './home-session.ts';
import { HomeSessions, type HomeSessionsOptions } from './home-sessions.ts';
import { elsewhere, takenOver, type KeptSession } from './placement.ts';
import type { QueueLimits } from './permits.ts';
import { CallQueue, type StartedCall, type StartRule } from './call-queue.ts';

export interface HomeOptions extends HomeSessionsOptions {
  /** `null` for a home that no pointer names. */
  readonly key: string | null;
  readonly concurrency: HomeConcurrency;
  readonly queue: QueueLimits;
  readonly idleTimeoutMs: number;
  /** The leases of the route. */
  readonly leases: OpenLeases;
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
  readonly #queue: CallQueue;
  readonly #sessions: HomeSessions;
  /** Requests that wait in the queue or for a session. */
  #pending = 0;
  /** Whether the home was claimed for a request that has not come yet. */
  #isExpected = false;
  #idleSinceMs = 0;
  #idleTimer: Timer | null = null;

  constructor(options: HomeOptions) {
    const { clock, queue } = options;
    this.#options = options;
    this.#sessions = new HomeSessions(options);
    const questions = () => this.#sessions.current?.session.questions;
    this.#queue = new CallQueue({
      ...{ ...queue, clock, session: 'the session of their caller' },
      rule: () => this.#rule(),
      habitOf: (target) => this.#sessions.current?.habits.get(target) ?? 'unknown',
      certainInMs: (asks) => questions()?.certainInMs(asks) ?? 0,
      turn: () => questions()?.turn() ?? null,
    });
  }

  /**
   * Lends the session to a call, when the queue lets the call start: at once if the call has to wait for nothing.
   * @throws UpstreamFailure
   */
  lease(owner: SessionOwner, request: LeaseRequest): Lease | Promise<Lease> {
    const { upstream, permits } = this.#options;
    // Callers take turns: none keeps the only session with one call after the other.
    const mustYield = upstream.hasOneSession && permits.isWaitedFor;
    const { target: name, wantsLog, isWanted } = request;
    const queued = this.#needsQueue(owner, request)
      ? this.#queue.enter(isWanted, { name, wantsLog })
      : null;
    const entry = this.#sessions.current;
    const isAsked = canBeAsked(owner.profile);
    const isNow =
      !(queued instanceof Promise) &&
      entry !== null &&
      !mustYield &&
      (!isAsked || entry.session.questions.isCertain) &&
      entry.session.ready(owner.headers) === true &&
      this.#sessions.stillHere() === null;
    if (isNow) return this.#lend(this.#use(entry), queued, request);
    return this.#whilePending(async () => {
      if (mustYield) this.evict();
      const started = await queued;
      try {
        // A process that hung while the call waited does not know that another one has the home by now.
        if ((await this.#sessions.stillHere()) === false) throw takenOver();
        return this.#lend(await this.#takeSession(owner, isAsked), started, request);
      } catch (error) {
        started?.end();
        throw error;
      }
    });
  }

  /** Lends the session to a request that cannot lead to questions. @throws UpstreamFailure */
  borrow(owner: SessionOwner): Promise<SharedLease> {
    return this.#share(owner, (entry) => this.#giveBack(entry));
  }

  /**
   * Lends the session to a subscription. It ends with the subscription if it has served no call.
   * @param onReplaced called when the home gets another session
   * @throws UpstreamFailure
   */
  async listen(owner: SessionOwner, onReplaced: () => void): Promise<SharedLease> {
    return this.#share(
      owner,
      (entry) => {
        entry.onReplaced.delete(onReplaced);
        const isUnused = entry.users === 1 && !entry.hasServed && !entry.left.any;
        if (isUnused && this.#pending === 0) this.#sessions.dismiss(entry);
        this.#giveBack(entry);
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
      const entry = await this.#sessions.adopt(owner, point);
      entry.left.remove();
      // Most that are resumed wait for an answer.
      entry.habits.set(request.target, 'asks');
      return this.#lend(this.#use(entry), this.#queue.start({ name: request.target }), request);
    });
  }

  /** Whether something uses the session, or waits for it. */
  get isUsed(): boolean {
    return this.#pending > 0 || (this.#sessions.current?.users ?? 0) > 0;
  }

  /** Where another process could go on with the session; `null` if there is none here, or the server names none. */
  get point(): KeptSession | null {
    return this.#sessions.point;
  }

  /** The home was claimed for a request that is about to come. If none does, it ends as one that is idle, and its claim with it. */
  expect(): void {
    if (this.isUsed) return;
    this.#isExpected = true;
    this.#startIdleTime();
  }

  /** Goes on with the session that the home had in another process, unless there is one here. */
  inherit(point: KeptSession, hasUnknownCalls: boolean): void {
    if (!this.#sessions.lacksSession) return;
    this.#sessions.inherit(point, hasUnknownCalls);
    this.#checkIdle();
  }

  /** Whether something here uses the session. */
  has(point: SessionPoint): boolean {
    return this.#sessions.has(point);
  }

  /** The home is here from now on. */
  claimed(): void {
    this.#sessions.claimed();
  }

  /** Leaves the session to another process as soon as nothing here uses it. */
  handOver(): void {
    this.#sessions.handOver();
    this.#checkIdle();
  }

  /** Another process has the home: what uses its sessions here can finish, and hears nothing that belongs to no call. */
  lost(): void {
    this.#isExpected = false;
    this.#sessions.lost();
    this.#checkIdle();
  }

  /** Has another caller use the permit of the session, as soon as no call uses it. */
  evict(): void {
    this.#sessions.evict();
    this.#checkIdle();
  }

  /** Ends the session unless something uses it. */
  endIdle(): void {
    if (!this.isUsed) this.#empty();
  }

  /** Ends all sessions, whoever uses them. */
  close(): void {
    this.#sessions.close();
    this.#empty();
  }

  #share(
    owner: SessionOwner,
    giveBack: (entry: HomeSession) => void,
    onReplaced?: () => void,
  ): Promise<SharedLease> {
    return this.#whilePending(async () => {
      const entry = await this.#takeSession(owner, false);
      if (onReplaced !== undefined) {
        // It was lost meanwhile, and nobody would be told of that any more.
        if (this.#sessions.isLost) {
          this.#giveBack(entry);
          throw elsewhere();
        }
        entry.onReplaced.add(onReplaced);
      }
      return { session: entry.session, giveBack: once(() => giveBack(entry)) };
    });
  }

  async #whilePending<Lent>(lend: () => Promise<Lent>): Promise<Lent> {
    this.#pending += 1;
    this.#isExpected = false;
    try {
      return await lend();
    } finally {
      this.#pending -= 1;
      this.#checkIdle();
    }
  }

  /** Calls of a client that nobody can be asked for need no queue, but for their log messages on one stream for all. */
  #needsQueue({ profile }: SessionOwner, { wantsLog }: LeaseRequest): boolean {
    const { concurrency, upstream } = this.#options;
    if (concurrency !== 'auto') return concurrency === 'queue';
    return canBeAsked(profile) || (wantsLog && upstream.traits?.namesTheCall === false);
  }

  #rule(): StartRule {
    const { concurrency, upstream } = this.#options;
    if (concurrency !== 'auto') return concurrency;
    return upstream.askingStyle === 'on-stream' ? 'together' : 'auto';
  }

  /** Returns a session that can be used, counted as used. */
  async #takeSession(owner: SessionOwner, isAsked: boolean): Promise<HomeSession> {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
      const { current } = this.#sessions;
      const entry = current ?? (await this.#sessions.take(owner));
      if (entry !== this.#sessions.current) continue;
      this.#use(entry);
      // One that was opened for this call alone is as good as another one.
      const isOwn = current === null && this.#options.afterCall !== null;
      const isReady = isOwn || (await entry.session.ready(owner.headers));
      if (isReady && (!isAsked || entry.session.questions.isCertain)) return entry;
      this.#sessions.replace(entry, isReady ? 'uncertain' : 'forgotten');
      this.#giveBack(entry);
    }
    throw new UpstreamFailure('session_gone', 'sessions end as soon as they are opened', {
      mayHaveActed: false,
    });
  }

  #lend(
    entry: HomeSession,
    started: StartedCall | null,
    { target, wantsLog }: LeaseRequest,
  ): Lease {
    const { leases, key, afterCall } = this.#options;
    const isReplacement = wantsLog && this.#sessions.tellLoss();
    started?.sent();
    return new CallLease(entry.session, {
      leases,
      home: key ?? undefined,
      isReplacement,
      isSilent: entry.habits.get(target) === 'silent',
      stillHere: () => this.#sessions.stillHere(),
      onAsked: () => entry.habits.set(target, 'asks'),
      onParked: (isParked) => {
        entry.hasServed ||= isParked;
        started?.park(isParked);
      },
      onEnd: (how) => {
        const isClean = how === 'clean';
        if (how === 'left') entry.left.add();
        entry.hasServed ||= isClean;
        if (isClean && entry.habits.get(target) !== 'asks') entry.habits.set(target, 'silent');
        started?.end();
        if (afterCall?.(how) === 'end') this.#sessions.dismiss(entry);
        this.#giveBack(entry);
      },
    });
  }

  #use(entry: HomeSession): HomeSession {
    entry.users += 1;
    this.#isExpected = false;
    if (entry.users === 1) {
      entry.permit.used();
      entry.session.keepAlive(false, this);
    }
    return entry;
  }

  #giveBack(entry: HomeSession): void {
    entry.users -= 1;
    if (entry.users > 0) return;
    if (entry.session.dead) this.#sessions.replace(entry, 'forgotten');
    if (entry !== this.#sessions.current) this.#sessions.end(entry);
    else if (entry.left.any) this.#sessions.disconnect(entry);
    this.#checkIdle();
  }

  #checkIdle(): void {
    const { upstream, isRetired } = this.#options;
    const entry = this.#sessions.current;
    if (this.isUsed || this.#isExpected) return;
    const { isClosed, isHandedOver, isVacant, isEmpty, hasLostState, permit } = this.#sessions;
    if (isClosed || isHandedOver || isRetired() || upstream.detector.broadcasts) {
      return this.#empty();
    }
    if (isVacant) {
      if (!isEmpty) return;
      if (!hasLostState) return this.#empty();
    }
    entry?.session.keepAlive(true, this);
    this.#startIdleTime();
    // At last, since it can be needed at once.
    permit?.idle(() => this.evict());
  }

  /** One timer serves many idle times: each use would cancel its own. */
  #startIdleTime(): void {
    const { clock, idleTimeoutMs } = this.#options;
    this.#idleSinceMs = clock.elapsed();
    this.#idleTimer ??= clock.setTimer(idleTimeoutMs, () => this.#expire());
  }

  #expire(): void {
    this.#idleTimer = null;
    const { clock, idleTimeoutMs } = this.#options;
    if (this.isUsed) return;
    this.#isExpected = false;
    const idleForMs = this.#idleSinceMs + idleTimeoutMs - clock.elapsed();
    const leftMs = Math.max(idleForMs, this.#sessions.leftForMs);
    if (leftMs <= 0) return this.#empty();
    this.#idleTimer = clock.setTimer(Math.ceil(leftMs), () => this.#expire());
  }

  /** Ends the current session, which nothing uses. */
  #empty(): void {
    this.#idleTimer?.cancel();
    this.#idleTimer = null;
    const isLeft = this.#sessions.clear();
    if (this.#sessions.isEmpty) this.#options.onEmpty(isLeft, this.#sessions.hasLostState);
  }
}
