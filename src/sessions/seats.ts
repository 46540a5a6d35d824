/** The sessions of a home: the current one, those that earlier calls still use, and one that nothing is connected to. */
import { asUpstreamFailure } from '../upstream/failure.ts';
import type { Session } from '../upstream/session/session.ts';
import type { SessionPoint } from '../upstream/transport/transport.ts';
import type { SessionOwner } from './session-owner.ts';
import type { Clock } from '../lib/clock.ts';
import { openInPlace, type PlaceOptions, type Placed } from './place.ts';
import type { Slot } from './slots.ts';

/**
 * Why a session of earlier calls was replaced.
 * - `forgotten`: the server does not know it any more, or its stream ended
 * - `no_stream`: the server does not open its standalone stream again
 * - `uncertain`: calls that may go on at the server cannot be told from the next one
 * - `needed`: another caller needed its place, and the server or `sessions.max` allows no more sessions
 */
export type ReplacementReason = 'forgotten' | 'no_stream' | 'uncertain' | 'needed';

export interface SeatsOptions extends PlaceOptions {
  /** Whose sessions these are, for `Slots`. */
  readonly principal: string | null;
  /** Whether the caller has to be told that the state of an earlier session is gone. */
  readonly hasLostState: boolean;
  /** Called with each session that is ended, until the server was told. */
  readonly onEnding: (ending: Promise<void>) => void;
  readonly onReplaced: (reason: ReplacementReason) => void;
  /** Called with each session that becomes the current one. */
  readonly onSession: (session: Session) => void;
  /** For how long a call that was left can be resumed, in ms. */
  readonly leftForMs: number;
  readonly clock: Clock;
}

/** Counts the calls that were left in a session, for another replica or for later. */
class LeftCalls {
  readonly #options: Pick<SeatsOptions, 'leftForMs' | 'clock'>;
  #count = 0;
  #untilMs = 0;

  constructor(options: Pick<SeatsOptions, 'leftForMs' | 'clock'>) {
    this.#options = options;
  }

  /** For how long one can still be resumed, in ms; 0 if there is none. */
  get forMs(): number {
    return this.#count === 0 ? 0 : Math.max(0, this.#untilMs - this.#options.clock.elapsed());
  }

  get any(): boolean {
    return this.forMs > 0;
  }

  add(): void {
    const { clock, leftForMs } = this.#options;
    this.#count = this.any ? this.#count + 1 : 1;
    this.#untilMs = clock.elapsed() + leftForMs;
  }

  /** One was resumed. */
  remove(): void {
    this.#count = Math.max(0, this.#count - 1);
  }
}

/** A session of the home, and what uses it. */
export interface Seat extends Placed {
  /** Calls and other requests that use the session now. */
  users: number;
  readonly left: LeftCalls;
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
  readonly left: LeftCalls;
  readonly hasServed: boolean;
  readonly isInherited: boolean;
}

export class Seats {
  readonly #options: SeatsOptions;
  readonly #all = new Set<Seat>();
  #current: Seat | null = null;
  #asleep: Asleep | null = null;
  #opening: { readonly headers: string; readonly seat: Promise<Seat> } | null = null;
  #hasLostState: boolean;
  #isHandedOver = false;
  #isClosed = false;

  constructor(options: SeatsOptions) {
    this.#options = options;
    this.#hasLostState = options.hasLostState;
  }

  get current(): Seat | null {
    return this.#current;
  }

  /** The place of the current session, or of the one that is asleep. */
  get slot(): Slot | null {
    return this.#current?.slot ?? this.#asleep?.slot ?? null;
  }

  get isEmpty(): boolean {
    return this.#all.size === 0;
  }

  /** True if there is neither a current session nor one that is asleep. */
  get isVacant(): boolean {
    return this.#current === null && this.#asleep === null;
  }

  /** For how long a call can be resumed in the session that is asleep, in ms. */
  get leftForMs(): number {
    return this.#asleep?.left.forMs ?? 0;
  }

  /** True if there is no session here, and none on its way. */
  get isHomeless(): boolean {
    const isAsleep = this.#asleep !== null && this.#asleep.slot !== null;
    return this.#current === null && this.#opening === null && !isAsleep;
  }

  /** Whether the caller was not told yet that the state of its session is gone. */
  get hasLostState(): boolean {
    return this.#hasLostState;
  }

  /** True if another process goes on with the session once nothing here uses it. */
  get isHandedOver(): boolean {
    return this.#isHandedOver;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** Returns whether the caller has to be told that state is gone, and takes it as told. */
  tellLoss(): boolean {
    const isLost = this.#hasLostState;
    this.#hasLostState = false;
    return isLost;
  }

  /** Returns the current session. Without one, wakes the one that is asleep or opens one, once for all who wait for it. */
  async take(owner: SessionOwner): Promise<Seat> {
    if (this.#current !== null) return this.#current;
    const headers = JSON.stringify(owner.headers);
    const running = this.#opening;
    if (running !== null) {
      return running.seat.catch((error: unknown) => {
        const refused = asUpstreamFailure(error, false).code === 'unauthorized';
        if (!refused || running.headers === headers) throw error;
        // The credentials of an earlier request were refused, as an expired token is.
        return this.take(owner);
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

  /** Returns a session that another process had, or that was left here. @throws UpstreamFailure */
  async adopt(owner: SessionOwner, point: SessionPoint, isHome: boolean): Promise<Seat> {
    const { slots, principal, upstream } = this.#options;
    for (const seat of this.#all) {
      if (seat.session.id === point.sessionId && !seat.session.dead) return seat;
    }
    const asleep = this.#asleep;
    if (asleep?.point.sessionId === point.sessionId && asleep.slot !== null) {
      this.#current = await this.#wake(owner, asleep);
      return this.#current;
    }
    const seat = await this.#adopted(owner, point, await slots.take(principal));
    if (this.isHomeless && isHome) this.#current = seat;
    else seat.isForeign = upstream.detector.hasSiblings;
    return seat;
  }

  /** Takes the session that the home had in another process for its own. */
  inherit(point: SessionPoint): void {
    const left = new LeftCalls(this.#options);
    this.#asleep = { point, slot: null, left, hasServed: true, isInherited: true };
  }

  /** Leaves the session to another process as soon as nothing here uses it. */
  handOver(): void {
    this.#isHandedOver = true;
  }

  /** The session is no longer the current one. Calls that use it can finish. */
  replace(seat: Seat, reason: ReplacementReason): void {
    if (seat !== this.#current) return;
    this.#current = null;
    this.#lose(seat, reason);
    for (const onReplaced of [...seat.onReplaced]) onReplaced();
  }

  /** Ends the session for another caller to have its place, as soon as no call uses it. */
  giveWay(): void {
    const seat = this.#current;
    const asleep = this.#asleep;
    if (seat !== null) {
      seat.hasServed ||= seat.users > 0;
      this.replace(seat, 'needed');
      if (seat.users === 0) this.end(seat);
    } else if (asleep !== null && asleep.slot !== null) {
      this.#lose(asleep, 'needed');
      asleep.slot.free();
      this.#asleep = null;
    }
  }

  /** Lets go of a session with calls that another replica may resume: it needs the streams. */
  sleep(seat: Seat): void {
    const { session, slot, left, hasServed } = seat;
    const { id } = session;
    this.#current = null;
    this.#all.delete(seat);
    session.leave();
    if (id === null || this.#isClosed) return slot.free();
    const revision = session.initializeResult.protocolVersion;
    const isInherited = this.#asleep?.isInherited === true;
    this.#asleep = { point: { sessionId: id, revision }, slot, left, hasServed, isInherited };
  }

  /** Makes the current session, which no call used, an earlier one. */
  dismiss(seat: Seat): void {
    if (seat === this.#current) this.#current = null;
  }

  /** Ends all sessions, whoever uses them. */
  close(): void {
    this.#isClosed = true;
    for (const seat of this.#all) this.end(seat);
  }

  /**
   * Ends the current session, which nothing uses.
   * @returns whether the server still has the session
   */
  clear(): boolean {
    const isLeft = this.#isHandedOver || this.#asleep?.isInherited === true;
    this.#asleep?.slot?.free();
    this.#asleep = null;
    if (this.#current !== null) this.end(this.#current);
    return isLeft;
  }

  end(seat: Seat): void {
    if (!this.#all.delete(seat)) return;
    this.dismiss(seat);
    const { session, slot, left, isForeign } = seat;
    // Another replica can resume a call of the session, or go on with it.
    const isKept = left.any || isForeign || this.#isHandedOver;
    if (isKept) session.leave();
    const ending = isKept ? Promise.resolve() : session.close();
    this.#options.onEnding(ending.finally(() => slot.free()));
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
  async #wake(owner: SessionOwner, { point, slot, left }: Asleep): Promise<Seat> {
    const { slots, principal } = this.#options;
    this.#asleep = null;
    slot?.used();
    return this.#adopted(owner, point, slot ?? (await slots.take(principal)), left);
  }

  async #openNew(owner: SessionOwner): Promise<Seat> {
    const { principal, upstream } = this.#options;
    return this.#seat(
      await openInPlace(this.#options, principal, () => upstream.openSession(owner)),
    );
  }

  async #adopted(
    owner: SessionOwner,
    point: SessionPoint,
    slot: Slot,
    left?: LeftCalls,
  ): Promise<Seat> {
    try {
      const session = await this.#options.upstream.adoptSession(owner, point);
      return this.#seat({ session, slot }, left);
    } catch (error) {
      slot.free();
      throw error;
    }
  }

  #seat(placed: Placed, left = new LeftCalls(this.#options)): Seat {
    const seat: Seat = {
      ...{ ...placed, users: 0, left, hasServed: false, isForeign: false },
      onReplaced: new Set(),
    };
    this.#all.add(seat);
    return seat;
  }

  #lose({ hasServed }: Pick<Seat, 'hasServed'>, reason: ReplacementReason): void {
    if (!hasServed) return;
    this.#hasLostState = true;
    this.#options.onReplaced(reason);
  }
}
