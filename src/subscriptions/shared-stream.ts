/**
 * One session with a legacy server whose notifications feed many listeners. It opens for the first
 * listener, is replaced if it is lost while there are listeners, and closes after the last one.
 */
import { inBackground } from '../lib/background.ts';
import { sleep, type Clock, type Timer } from '../lib/clock.ts';
import { objectMember, type JsonObject } from '../protocol/json.ts';
import type { Session } from '../upstream/session/session.ts';
import type { ChangeListener } from '../upstream/session/session-state.ts';
import { notDescribed } from '../upstream/session/server-description.ts';
import type { CallerHeaders } from '../upstream/transport/transport.ts';
import { asUpstreamFailure, UpstreamFailure } from '../model/upstream-failure.ts';
import {
  honoured,
  isEmpty,
  isHonoured,
  offerOf,
  type NotificationOffer,
  type Listener,
} from './filter.ts';
import { WatchedResources, type ConnectionNumber } from './watched-resources.ts';

/** The part of a session that is used here. */
export type NotifyingSession = Pick<
  Session,
  | 'initializeResult'
  | 'isDescribed'
  | 'canPush'
  | 'canPushLater'
  | 'openStandaloneStream'
  | 'observe'
  | 'request'
  | 'keepAlive'
  | 'reveals'
>;

export interface NotifyingLease {
  readonly session: NotifyingSession;
  giveBack(clean: boolean): void;
}

export interface SharedStreamOptions {
  /**
   * Leases a session, which no other stream listens to. Rejects with UpstreamFailure.
   * @param onReplaced called when calls of the same caller go on in another session
   */
  readonly lease: (onReplaced: () => void) => Promise<NotifyingLease>;
  readonly headers: CallerHeaders;
  readonly clock: Clock;
  /** Reports that the stream was lost. It is reopened, or given up. */
  readonly onTrouble: (failure: UpstreamFailure) => void;
  /** Reports that the last listener left. A later listener needs another stream. */
  readonly onEnd: () => void;
}

/** One session, from its opening to its loss. */
interface ListeningSession {
  readonly lease: NotifyingLease;
  readonly connectionNumber: ConnectionNumber;
  readonly offer: NotificationOffer;
  readonly openedAtMs: number;
  /** Resolves when the server was asked for every watched resource. */
  readonly moved: Promise<void>;
  readonly gone: AbortController;
}

/** How long an acknowledgement waits for the server's replies on resources, in ms. */
const SUBSCRIBE_WAIT_MS = 2_000;
const GIVE_UP_AFTER_MS = 30_000;
/** After this time, in ms, a session counts as stable, and its loss does not count as a repeated failure. */
const STEADY_MS = 10_000;
const FIRST_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 8_000;
/** The shortest interval of catch-ups, in ms: a server that keeps closing its stream must not flood clients. */
const CATCH_UP_EVERY_MS = 30_000;

export class SharedStream {
  readonly #options: SharedStreamOptions;
  readonly #over = new AbortController();
  /** Each with the resources that it is counted for. */
  readonly #listeners = new Map<Listener, Set<string>>();
  readonly #watched: WatchedResources;
  #connection: Promise<ListeningSession> | null = null;
  #current: ListeningSession | null = null;
  #connectionNumber: ConnectionNumber = 0;
  #attempts = 0;
  #troubleSinceMs: number;
  #catchUpTimer: Timer | null = null;
  #caughtUpAtMs = -Infinity;

  constructor(options: SharedStreamOptions) {
    this.#options = options;
    this.#troubleSinceMs = options.clock.elapsed();
    this.#watched = new WatchedResources({
      subscribe: (uri) => this.#request('resources/subscribe', uri),
      unsubscribe: async (uri) => {
        await this.#request('resources/unsubscribe', uri);
      },
    });
  }

  /**
   * Adds a listener and acknowledges what the server offers. The caller must call `leave`, even if this throws.
   * @returns the `serverInfo` of the server, or `null`
   * @throws UpstreamFailure if no session can be opened, or the server does not open its stream for now
   */
  async join(listener: Listener): Promise<JsonObject | null> {
    this.#listeners.set(listener, new Set());
    this.#connection ??= this.#open();
    const { lease, offer } = await this.#connection;
    const { resourceSubscriptions } = honoured(listener.asked, offer);
    const watched = await this.#watch(listener, resourceSubscriptions);
    // The session may have been replaced while the server was asked.
    const still = honoured(listener.asked, (await this.#connection).offer);
    const both = still.resourceSubscriptions.filter((uri) => watched.includes(uri));
    listener.acknowledge({ ...still, resourceSubscriptions: both });
    return objectMember(lease.session.initializeResult.raw, 'serverInfo') ?? null;
  }

  /** Removes the listener. With the last one the session closes. */
  leave(listener: Listener): void {
    const counted = this.#listeners.get(listener);
    if (counted === undefined) return;
    this.#listeners.delete(listener);
    const told = [...counted].map((uri) => this.#watched.leave(uri));
    counted.clear();
    if (this.#listeners.size === 0) this.#finish(Promise.all(told));
  }

  async #watch(listener: Listener, uris: readonly string[]): Promise<readonly string[]> {
    const counted = this.#listeners.get(listener);
    if (counted === undefined || uris.length === 0) return [];
    const taken = await Promise.all(
      uris.map(async (uri) => {
        counted.add(uri);
        const subscribed = (await this.#soon(this.#watched.join(uri))) === true;
        if (!subscribed && counted.delete(uri)) inBackground(this.#watched.leave(uri));
        return subscribed;
      }),
    );
    return uris.filter((_uri, index) => taken[index] === true);
  }

  async #open(): Promise<ListeningSession> {
    const { lease: newLease, headers, clock } = this.#options;
    let isReplaced = false;
    const lease = await newLease(() => {
      isReplaced = true;
      if (this.#current?.lease === lease) this.#onLost(this.#current, replaced());
    });
    const { session } = lease;
    if (!this.#over.signal.aborted) await session.openStandaloneStream(headers);
    const failure = isReplaced ? replaced() : this.#problemOf(session);
    if (failure !== null) {
      lease.giveBack(false);
      throw failure;
    }
    const connectionNumber = (this.#connectionNumber += 1);
    const connection: ListeningSession = {
      lease,
      connectionNumber,
      offer: offerOf(session.initializeResult.capabilities, session.canPush),
      openedAtMs: clock.elapsed(),
      moved: Promise.resolve().then(() => this.#watched.moveTo(connectionNumber)),
      gone: new AbortController(),
    };
    this.#current = connection;
    session.keepAlive(true, lease);
    session.observe(this.#observerOf(connection));
    return connection;
  }

  /** @returns why listeners cannot have a session that was opened for them; `null` if they can */
  #problemOf(session: NotifyingSession): UpstreamFailure | null {
    if (this.#over.signal.aborted) return noListeners();
    if (!session.isDescribed) return notDescribed();
    return this.#isWantedLater(session) ? notNow() : null;
  }

  /** Whether listeners want what the server can send once its stream is open, and not now. */
  #isWantedLater({ canPushLater, initializeResult }: NotifyingSession): boolean {
    if (!canPushLater) return false;
    const later = offerOf(initializeResult.capabilities, true);
    return [...this.#listeners.keys()].some(({ asked }) => !isEmpty(honoured(asked, later)));
  }

  #observerOf(connection: ListeningSession): ChangeListener {
    return {
      changed: (method, params) => {
        if (connection.lease.session.reveals(JSON.stringify(params))) return;
        for (const listener of this.#listeners.keys()) listener.hear(method, params);
      },
      missed: () => this.#catchUp(),
      lost: (failure) => this.#onLost(connection, failure),
    };
  }

  #onLost(connection: ListeningSession, failure: UpstreamFailure): void {
    if (this.#current !== connection) return;
    this.#drop();
    if (this.#over.signal.aborted) return;
    const nowMs = this.#options.clock.elapsed();
    if (nowMs - connection.openedAtMs >= STEADY_MS) {
      this.#attempts = 0;
      this.#troubleSinceMs = nowMs;
    }
    this.#connection = this.#reopen(failure);
    this.#connection.catch(() => {});
  }

  /** Opens another session for the listeners. If that fails for too long, ends them. */
  async #reopen(first: UpstreamFailure): Promise<ListeningSession> {
    const { clock, onTrouble } = this.#options;
    onTrouble(first);
    for (let failure = first; ;) {
      const tooLong = clock.elapsed() - this.#troubleSinceMs >= GIVE_UP_AFTER_MS;
      if (failure.code === 'unauthorized' || tooLong) {
        if (failure !== first) onTrouble(failure);
        // Listeners without an acknowledgement get the failure as their reply.
        for (const listener of this.#acknowledged()) listener.end();
        throw failure;
      }
      await sleep(clock, this.#nextWaitMs(), this.#over.signal);
      if (this.#over.signal.aborted) throw noListeners();
      try {
        const connection = await this.#open();
        inBackground(this.#settleIn(connection));
        return connection;
      } catch (error) {
        failure = asUpstreamFailure(error, false);
      }
    }
  }

  #nextWaitMs(): number {
    const attempt = this.#attempts;
    this.#attempts += 1;
    return attempt === 0 ? 0 : Math.min(FIRST_BACKOFF_MS * 2 ** (attempt - 1), MAX_BACKOFF_MS);
  }

  /** Ends listeners whose filter the new session does not honour, so that they subscribe again. */
  async #settleIn({ moved, offer, gone }: ListeningSession): Promise<void> {
    for (const listener of this.#acknowledged()) {
      if (listener.acknowledged !== null && !isHonoured(listener.acknowledged, offer)) {
        listener.end();
      }
    }
    await this.#soon(moved);
    if (!gone.signal.aborted) this.#catchUp();
  }

  #acknowledged(): Listener[] {
    return [...this.#listeners.keys()].filter(({ acknowledged }) => acknowledged !== null);
  }

  #catchUp(): void {
    const { clock } = this.#options;
    if (this.#catchUpTimer !== null || this.#over.signal.aborted) return;
    const now = () => {
      this.#catchUpTimer = null;
      this.#caughtUpAtMs = clock.elapsed();
      for (const listener of this.#acknowledged()) listener.catchUp();
    };
    const waitMs = this.#caughtUpAtMs + CATCH_UP_EVERY_MS - clock.elapsed();
    if (waitMs <= 0) now();
    else this.#catchUpTimer = clock.setTimer(waitMs, now);
  }

  /** @returns the number of the connection on which the server accepted, or `null`; the acknowledgement then lacks the resource */
  async #request(method: string, uri: string): Promise<ConnectionNumber | null> {
    const connection = this.#current;
    if (connection === null) return null;
    const { lease, connectionNumber, gone } = connection;
    try {
      const { headers } = this.#options;
      const reply = await lease.session.request(method, { uri }, headers, gone.signal);
      return 'result' in reply ? connectionNumber : null;
    } catch {
      return null;
    }
  }

  #finish(told: Promise<unknown>): void {
    this.#over.abort();
    this.#catchUpTimer?.cancel();
    this.#options.onEnd();
    inBackground(this.#soon(told).then(() => this.#drop()));
  }

  /** Waits for the server, but not for long. */
  #soon<Done>(work: Promise<Done>): Promise<Done | void> {
    const waiting = new AbortController();
    const late = sleep(this.#options.clock, SUBSCRIBE_WAIT_MS, waiting.signal);
    return Promise.race([work, late]).finally(() => waiting.abort());
  }

  #drop(): void {
    const connection = this.#current;
    this.#current = null;
    if (connection === null) return;
    connection.gone.abort();
    // The session can be the home of the caller, which goes on.
    connection.lease.session.keepAlive(false, connection.lease);
    connection.lease.giveBack(false);
  }
}

function replaced(): UpstreamFailure {
  const problem = 'calls of the caller go on in another session';
  return new UpstreamFailure('session_gone', problem, { mayHaveActed: false });
}

function notNow(): UpstreamFailure {
  const problem = 'the server does not open its stream for changes for now';
  return new UpstreamFailure('upstream_unavailable', problem, { mayHaveActed: false });
}

function noListeners(): UpstreamFailure {
  return new UpstreamFailure('session_gone', 'no listeners are left', { mayHaveActed: false });
}
