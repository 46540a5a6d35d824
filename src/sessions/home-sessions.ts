/** The sessions of a home: the current one, those that earlier calls still use, and one that nothing is connected to. */
import { LruMap } from '../lib/containers.ts';
import type { SessionId } from '../protocol/ids.ts';
import { asUpstreamFailure } from '../model/upstream-failure.ts';
import { UNKNOWN_CALLS } from '../upstream/session/questions/session-questions.ts';
import type { Session } from '../upstream/session/session.ts';
import type { SessionPoint } from '../upstream/transport/transport.ts';
import type { LeaseEnd } from './lease.ts';
import type { KeptSession } from './placement.ts';
import type { SessionOwner } from './session-owner.ts';
import {
  LeftCalls,
  type DisconnectedSession,
  type HomeSession,
  type LeftCallsOptions,
} from './home-session.ts';
import { openInPermit, type PermitOptions, type PermittedSession, type Permit } from './permits.ts';

/**
 * Why a session of earlier calls was replaced.
 * - `forgotten`: the server no longer knows it, or its stream ended
 * - `uncertain`: calls that may go on at the server cannot be told from the next one
 * - `needed`: another caller needed its permit, and the server or `sessions.max` allows no more sessions
 */
export type ReplacementReason = 'forgotten' | 'uncertain' | 'needed';

/** What `HomePlacement` knows of one home. */
export interface HomeOwnership {
  /** Whether no other process can have the home, and calls in its sessions. */
  isConfirmed(): boolean;
  stillHere(): Promise<boolean> | null;
  askStore(): Promise<boolean> | null;
}

export interface HomeSessionsOptions extends PermitOptions, LeftCallsOptions {
  /** Whose sessions these are, for `Permits`. */
  readonly principal: string | null;
  /** Whether the caller has to be told that the state of an earlier session is gone. */
  readonly hasLostState: boolean;
  /** `null` if homes are not claimed. */
  readonly ownership: HomeOwnership | null;
  /**
   * Called at the end of a call; returns whether the session is kept for others. `null` where calls run together, so that it is
   * kept in any case.
   */
  readonly afterCall: ((how: LeaseEnd) => 'keep' | 'end') | null;
  /** Called with each session that is ended, until the server was told. */
  readonly onEnding: (ending: Promise<void>) => void;
  /** `null` if nobody counts on what the server keeps in a session. */
  readonly onReplaced: ((reason: ReplacementReason) => void) | null;
  /** Called with each session that becomes the current one, if another process can go on with it, and when its calls are others. */
  readonly onSession: (session: KeptSession) => void;
}

/** The most targets of a session of which it is remembered whether they ask. */
const MAX_TARGETS = 1_000;

export class HomeSessions {
  readonly #options: HomeSessionsOptions;
  readonly #all = new Set<HomeSession>();
  #current: HomeSession | null = null;
  #disconnected: DisconnectedSession | null = null;
  #opening: { readonly headers: string; readonly entry: Promise<HomeSession> } | null = null;
  /** Sessions that another process had, or that were left, while they are taken over. */
  readonly #adopting = new Map<SessionId, Promise<HomeSession>>();
  #hasLostState: boolean;
  #isHandedOver = false;
  #isLost = false;
  #isClosed = false;

  constructor(options: HomeSessionsOptions) {
    this.#options = options;
    this.#hasLostState = options.hasLostState;
  }

  get current(): HomeSession | null {
    return this.#current;
  }

  /** The permit of the current session, or of the disconnected one. */
  get permit(): Permit | null {
    return this.#current?.permit ?? this.#disconnected?.permit ?? null;
  }

  get isEmpty(): boolean {
    return this.#all.size === 0;
  }

  /** True if there is neither a current session nor a disconnected one. */
  get isVacant(): boolean {
    return this.#current === null && this.#disconnected === null;
  }

  /** For how long a call can be resumed in the disconnected session, in ms. */
  get leftForMs(): number {
    return this.#disconnected?.left.forMs ?? 0;
  }

  /** True if there is no session here, and none on its way. */
  get lacksSession(): boolean {
    const isAsleep = this.#disconnected !== null && this.#disconnected.permit !== null;
    return this.#current === null && this.#opening === null && !isAsleep;
  }

  /** Where another process could go on with the session; `null` if there is none here, or the server names none. */
  get point(): KeptSession | null {
    if (this.#current !== null) return pointOf(this.#current.session);
    return this.#disconnected?.permit ? this.#disconnected.point : null;
  }

  /** Whether the caller was not told yet that the state of its session is gone. */
  get hasLostState(): boolean {
    return this.#hasLostState;
  }

  /** True if another process goes on with the session once nothing here uses it. */
  get isHandedOver(): boolean {
    return this.#isHandedOver;
  }

  /** True if another process has taken the home over. */
  get isLost(): boolean {
    return this.#isLost;
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

  /** Returns the current session. Without one, reconnects the disconnected one or opens one, once for all who wait for it. */
  async take(owner: SessionOwner): Promise<HomeSession> {
    if (this.#current !== null) return this.#current;
    const headers = JSON.stringify(owner.headers);
    const running = this.#opening;
    if (running?.headers === headers) return running.entry;
    if (running !== null) return againIfRefused(running.entry, () => this.take(owner));
    return this.#takeOnce(headers, this.#openOrGoOn(owner));
  }

  /** Returns a session that another process had, or that was left here. @throws UpstreamFailure */
  async adopt(owner: SessionOwner, point: SessionPoint): Promise<HomeSession> {
    const { permits, principal, ownership } = this.#options;
    const running = this.#adopting.get(point.sessionId);
    if (running !== undefined) {
      return againIfRefused(running, () => this.adopt(owner, point));
    }
    const disconnected = this.#disconnected;
    if (disconnected?.point.sessionId === point.sessionId) {
      const isCurrent = disconnected.permit !== null || this.lacksSession;
      if (isCurrent) {
        return this.#takeOnce(JSON.stringify(owner.headers), this.#reconnect(owner, disconnected));
      }
    }
    return this.#once(point, async () => {
      const entry = await this.#adopted(owner, point, await permits.take(principal));
      // The home that is claimed had another session. Who opened this one without the home can make calls in it.
      if (ownership !== null) entry.session.questions.mayRun([UNKNOWN_CALLS]);
      entry.adopted = this.lacksSession ? 'home' : 'guest';
      if (this.lacksSession) this.#current = entry;
      return entry;
    });
  }

  /** Takes the session that the home had in another process for its own. @param hasUnknownCalls see `DisconnectedSession` */
  inherit(point: KeptSession, hasUnknownCalls: boolean): void {
    const left = new LeftCalls(this.#options);
    this.#disconnected = {
      point,
      permit: null,
      left,
      hasServed: true,
      questions: null,
      isInherited: true,
      hasUnknownCalls,
    };
  }

  /** The home is here from now on: what its sessions were asked meanwhile can be told to be a call's. */
  claimed(): void {
    for (const { session } of this.#all) session.questions.settle();
  }

  /** Whether something here uses the session. */
  has(point: SessionPoint): boolean {
    return [...this.#all].some(({ session }) => session.id === point.sessionId);
  }

  /** Leaves the session to another process as soon as nothing here uses it. */
  handOver(): void {
    this.#isHandedOver = true;
  }

  /** Another process has the home: it needs the standalone streams, and listeners hear nothing here any more. */
  lost(): void {
    this.#isLost = true;
    this.handOver();
    for (const entry of [...this.#all]) {
      entry.session.closeStandaloneStream();
      leaveListeners(entry);
    }
  }

  /**
   * Finds out whether the home is still here. One that was lost is not, also if it comes back.
   * @returns `null` at once if nothing has to be found out
   */
  stillHere(): Promise<boolean> | null {
    return this.#isLost ? Promise.resolve(false) : (this.#options.ownership?.stillHere() ?? null);
  }

  /** The session is no longer the current one. Calls that use it can finish. */
  replace(entry: HomeSession, reason: ReplacementReason): void {
    if (entry !== this.#current) return;
    this.#current = null;
    this.#lose(entry, reason);
    leaveListeners(entry);
  }

  /** Ends the session for another caller to have its permit, as soon as no call uses it. */
  evict(): void {
    const entry = this.#current;
    const disconnected = this.#disconnected;
    if (entry !== null) {
      entry.hasServed ||= entry.users > 0;
      this.replace(entry, 'needed');
      if (entry.users === 0) this.end(entry);
    } else if (disconnected !== null && disconnected.permit !== null) {
      this.#lose(disconnected, 'needed');
      disconnected.permit.free();
      this.#disconnected = null;
    }
  }

  /** Lets go of a session with calls that another replica may resume: it needs the streams. */
  disconnect(entry: HomeSession): void {
    const { session, permit, left, hasServed, adopted } = entry;
    const point = pointOf(session);
    this.#current = null;
    this.#all.delete(entry);
    session.leave();
    if (point === null || this.#isClosed) return permit.free();
    // Calls that another process left in it can still be resumed, whatever is left here.
    const isInherited = adopted !== null;
    const { questions } = session;
    this.#disconnected = {
      ...{ point, permit, left, hasServed, questions, isInherited },
      hasUnknownCalls: false,
    };
  }

  /** Makes the current session, which no call used, an earlier one. */
  dismiss(entry: HomeSession): void {
    if (entry === this.#current) this.#current = null;
  }

  /** Ends all sessions, whoever uses them. */
  close(): void {
    this.#isClosed = true;
    for (const entry of this.#all) this.end(entry);
  }

  /**
   * Ends the current session, which nothing uses.
   * @returns whether the server still has the session
   */
  clear(): boolean {
    const isLeft = this.#isHandedOver || this.#disconnected?.isInherited === true;
    this.#disconnected?.permit?.free();
    this.#disconnected = null;
    if (this.#current !== null) this.end(this.#current);
    return isLeft;
  }

  end(entry: HomeSession): void {
    if (!this.#all.delete(entry)) return;
    this.dismiss(entry);
    const { session, permit, left, adopted } = entry;
    const { afterCall, onEnding } = this.#options;
    // Other calls of the session can be resumed, or another process can go on with it.
    const mayHaveOthers = afterCall === null && adopted !== null;
    const hasOthers = mayHaveOthers && (adopted === 'guest' || session.questions.hasUnfinished);
    const isKept = left.any || hasOthers || this.#isHandedOver;
    if (isKept) session.leave();
    const ending = isKept ? Promise.resolve() : session.close();
    onEnding(ending.finally(() => permit.free()));
  }

  /** Has a session that is on its way be the current one, for all who wait for it. */
  #takeOnce(headers: string, opening: Promise<HomeSession>): Promise<HomeSession> {
    const entry = opening
      .then((opened) => {
        this.#current = opened;
        opened.adopted &&= 'home';
        this.#keep(opened);
        return opened;
      })
      .finally(() => {
        this.#opening = null;
      });
    this.#opening = { headers, entry };
    return entry;
  }

  async #openOrGoOn(owner: SessionOwner): Promise<HomeSession> {
    const disconnected = this.#disconnected;
    if (disconnected === null) return this.#openNew(owner);
    const entry = await this.#reconnect(owner, disconnected);
    await entry.session.openStandaloneStream(owner.headers);
    return entry;
  }

  /**
   * Connects with a session that nothing here is connected to. If the server has forgotten it, it is replaced. If the server cannot
   * be reached, the next request tries again.
   */
  async #reconnect(owner: SessionOwner, disconnected: DisconnectedSession): Promise<HomeSession> {
    const { permits, principal } = this.#options;
    const { point, permit, left, hasServed, questions, isInherited } = disconnected;
    this.#disconnected = null;
    permit?.used();
    try {
      const entry = await this.#once(point, async () => {
        const taken = permit ?? (await permits.take(principal));
        const adopted = await this.#adopted(owner, point, taken, left);
        if (questions === null) adopted.session.questions.inherit(point.calls ?? []);
        else adopted.session.questions.goOnAfter(questions);
        if (disconnected.hasUnknownCalls) adopted.session.questions.mayRun([UNKNOWN_CALLS]);
        return adopted;
      });
      entry.hasServed ||= hasServed;
      if (isInherited) entry.adopted = 'home';
      return entry;
    } catch (error) {
      const isKept = asUpstreamFailure(error, false).code !== 'session_gone';
      if (isKept && !this.#isClosed) this.#disconnected = { ...disconnected, permit: null };
      throw error;
    }
  }

  /** Takes a session over once for all who wait for it, or use it: what a server asks beside its streams comes on one connection. */
  #once({ sessionId }: SessionPoint, adopt: () => Promise<HomeSession>): Promise<HomeSession> {
    const connected = [...this.#all].find(({ session: { id, dead } }) => id === sessionId && !dead);
    const running =
      connected === undefined ? this.#adopting.get(sessionId) : Promise.resolve(connected);
    if (running !== undefined) return running;
    const adopting = adopt().finally(() => this.#adopting.delete(sessionId));
    this.#adopting.set(sessionId, adopting);
    return adopting;
  }

  async #openNew(owner: SessionOwner): Promise<HomeSession> {
    const { principal, upstream } = this.#options;
    return this.#add(
      await openInPermit(this.#options, principal, () => upstream.openSession(owner)),
    );
  }

  async #adopted(
    owner: SessionOwner,
    point: SessionPoint,
    permit: Permit,
    left?: LeftCalls,
  ): Promise<HomeSession> {
    try {
      const session = await this.#options.upstream.resumeSession(owner, point);
      return this.#add({ session, permit }, left);
    } catch (error) {
      permit.free();
      throw error;
    }
  }

  #add(permitted: PermittedSession, left = new LeftCalls(this.#options)): HomeSession {
    const { upstream, ownership } = this.#options;
    const entry: HomeSession = {
      ...{ ...permitted, users: 0, left, hasServed: false, adopted: null },
      habits: new LruMap(MAX_TARGETS),
      onReplaced: new Set(),
    };
    const { questions } = entry.session;
    if (ownership !== null) {
      questions.knowsAllCalls = () => !this.#isLost && ownership.isConfirmed();
      questions.confirm = () => (this.#isLost ? null : ownership.askStore());
      questions.onCalls = () => this.#keep(entry);
    } else {
      // Another process may still use a session that it had.
      questions.knowsAllCalls = () => entry.adopted === null || !upstream.detector.hasSiblings;
    }
    this.#all.add(entry);
    return entry;
  }

  #keep(entry: HomeSession): void {
    if (entry !== this.#current || this.#isLost) return;
    const point = pointOf(entry.session);
    if (point !== null) this.#options.onSession(point);
  }

  #lose({ hasServed }: Pick<HomeSession, 'hasServed'>, reason: ReplacementReason): void {
    const { onReplaced } = this.#options;
    if (!hasServed || onReplaced === null) return;
    this.#hasLostState = true;
    onReplaced(reason);
  }
}

/** Has the listeners of a session go on in another one. */
function leaveListeners({ onReplaced }: HomeSession): void {
  for (const tell of [...onReplaced]) tell();
}

function pointOf({ id, initializeResult, isDescribed, questions }: Session): KeptSession | null {
  if (id === null) return null;
  const { protocolVersion, raw } = initializeResult;
  const initialized = isDescribed ? { initialized: raw } : {};
  const calls = questions.callsToKeep;
  const asking = calls.length > 0 ? { calls } : {};
  return { sessionId: id, revision: protocolVersion, ...initialized, ...asking };
}

/** Tries again if the credentials of an earlier request were refused, as an expired token is. */
function againIfRefused<Taken>(taking: Promise<Taken>, again: () => Promise<Taken>) {
  return taking.catch((error: unknown) => {
    if (asUpstreamFailure(error, false).code !== 'unauthorized') throw error;
    return again();
  });
}
