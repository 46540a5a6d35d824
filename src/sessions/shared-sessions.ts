/**
 * Sessions for requests that cannot lead to questions: several may use one at once. There is one for each
 * key. Clients can invent keys, so their number is limited.
 */
import type { Clock, Timer } from '../lib/clock.ts';
import type { Session } from '../upstream/session/session.ts';
import type { CallerHeaders } from '../upstream/transport/transport.ts';
import { UpstreamFailure } from '../model/upstream-failure.ts';
import type { SharedLease } from './lease.ts';

export interface SharedSessionsOptions {
  readonly idleTimeoutMs: number;
  /** Beyond this number sessions that are not in use are closed, the least recently used first. */
  readonly max: number;
}

interface Shared {
  readonly opening: Promise<Session>;
  readonly uses: UseCount;
}

const MAX_ATTEMPTS = 3;

export class SharedSessions {
  readonly #options: SharedSessionsOptions;
  readonly #clock: Clock;
  /** Most recently used last. */
  readonly #sessions = new Map<string, Shared>();

  constructor(options: SharedSessionsOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  get size(): number {
    return this.#sessions.size;
  }

  /**
   * Takes the session of a key, and opens it if there is none that can be used.
   * @throws UpstreamFailure if it cannot be opened
   */
  async borrow(
    key: string,
    headers: CallerHeaders,
    open: () => Promise<Session>,
  ): Promise<SharedLease> {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
      const shared = this.#sessions.get(key) ?? this.#open(key, open);
      const giveBack = shared.uses.use();
      this.#keep(key, shared);
      try {
        const session = await shared.opening;
        if (await session.ready(headers)) return { session, giveBack };
        this.#drop(key, shared);
      } catch (error) {
        this.#drop(key, shared);
        giveBack();
        throw error;
      }
      giveBack();
    }
    throw new UpstreamFailure('session_gone', 'sessions end as soon as they are opened', {
      mayHaveActed: false,
    });
  }

  /** Ends each session as soon as no request uses it. */
  retire(): void {
    for (const [key, shared] of [...this.#sessions]) this.#drop(key, shared);
  }

  /** Closes all sessions. */
  async close(): Promise<void> {
    const all = [...this.#sessions.values()];
    this.#sessions.clear();
    await Promise.all(
      all.map(async ({ opening, uses }) => {
        uses.stop();
        await opening.then((session) => session.close()).catch(() => {});
      }),
    );
  }

  #open(key: string, open: () => Promise<Session>): Shared {
    const uses = new UseCount(this.#clock, this.#options.idleTimeoutMs, () => {
      if (this.#sessions.get(key) === shared) this.#sessions.delete(key);
      void shared.opening.then((session) => session.close()).catch(() => {});
    });
    const shared: Shared = { opening: open(), uses };
    return shared;
  }

  /** Keeps a session as the most recently used one. */
  #keep(key: string, shared: Shared): void {
    this.#sessions.delete(key);
    this.#sessions.set(key, shared);
    for (const [oldKey, old] of this.#sessions) {
      if (this.#sessions.size <= this.#options.max) break;
      if (!old.uses.inUse) this.#drop(oldKey, old);
    }
  }

  /** Gives the session to no new request. Requests that already use it can finish. */
  #drop(key: string, shared: Shared): void {
    if (this.#sessions.get(key) === shared) this.#sessions.delete(key);
    shared.uses.retire();
  }
}

/** Counts the requests that use a session, and calls back when it was idle for some time. */
export class UseCount {
  readonly #clock: Clock;
  readonly #idleMs: number;
  readonly #over: () => void;
  #users = 0;
  #timer: Timer | null = null;
  #retired = false;

  /**
   * @param idleMs how long the session may be idle, in ms; it is idle at first
   * @param over called once, when it was idle for so long, or was retired and is not in use
   */
  constructor(clock: Clock, idleMs: number, over: () => void) {
    this.#clock = clock;
    this.#idleMs = idleMs;
    this.#over = over;
    this.#idle();
  }

  get inUse(): boolean {
    return this.#users > 0;
  }

  /** Counts one more user, until the returned function is called. */
  use(): () => void {
    this.#users += 1;
    this.stop();
    let isBack = false;
    return () => {
      if (isBack) return;
      isBack = true;
      this.#users -= 1;
      if (this.#users === 0) this.#idle();
    };
  }

  /** Ends the session as soon as it is not in use. */
  retire(): void {
    if (this.#retired) return;
    this.#retired = true;
    if (this.#users === 0) this.#idle();
  }

  /** Stops the timer: idle time is no longer reported. */
  stop(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }

  #idle(): void {
    this.stop();
    if (this.#retired) this.#over();
    else this.#timer = this.#clock.setTimer(this.#idleMs, this.#over);
  }
}
