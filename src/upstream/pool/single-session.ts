/**
 * The one session with a server that broadcasts: it carries one call at a time, for whoever comes next,
 * since what such a server sends without an id of ours can be told from nothing else.
 */
import type { Clock } from '../../lib/clock.ts';
import { UpstreamFailure } from '../failure.ts';
import type { Session } from '../session/session.ts';
import type { CallerHeaders } from '../transport/transport.ts';
import type { Loan } from './shared-sessions.ts';
import { UseCount } from './use-count.ts';

export interface SingleSessionOptions {
  readonly idleTimeoutMs: number;
  /** The most calls that wait for their turn. */
  readonly maxWaiting: number;
}

/** Whose session is wanted, and how it is opened. */
export interface Wanted {
  /** Equal for those who may be served by the same session. */
  readonly key: string;
  readonly headers: CallerHeaders;
  readonly open: () => Promise<Session>;
}

interface Current {
  readonly key: string;
  readonly session: Session;
  readonly uses: UseCount;
}

/** The session, for one call; the next one waits until it is given back. */
export interface Turn {
  readonly session: Session;
  /** @param keep whether the session may serve the next one */
  end(keep: boolean): void;
}

export class SingleSession {
  readonly #options: SingleSessionOptions;
  readonly #clock: Clock;
  readonly #waiting: (() => void)[] = [];
  #taken = false;
  #current: Current | null = null;
  /** One session is opened or replaced after the other. */
  #changing: Promise<unknown> = Promise.resolve();

  constructor(options: SingleSessionOptions, clock: Clock) {
    this.#options = options;
    this.#clock = clock;
  }

  get size(): number {
    return this.#current === null ? 0 : 1;
  }

  /**
   * Waits for the turn of a call, and gives it the session; one of somebody else is closed first.
   * @param before what has to be over before the first call begins
   * @throws UpstreamFailure `upstream_busy` when too many wait already, or when no session can be opened
   */
  async take(wanted: Wanted, before: () => Promise<void>): Promise<Turn> {
    await this.#myTurn();
    try {
      await before();
      const { session } = await this.#change(() => this.#sessionFor(wanted));
      const current = this.#current;
      const release = current?.session === session ? current.uses.use() : () => {};
      return {
        session,
        end: (keep) => {
          release();
          if (!keep || session.dead) this.#drop(session);
          this.#next();
        },
      };
    } catch (error) {
      this.#next();
      throw error;
    }
  }

  /** Lends the session to a request that may not ask anything, beside a call, whoever it was opened for. */
  async borrow(wanted: Wanted): Promise<Loan> {
    const current = await this.#change(async () => {
      const current = this.#current;
      if (current !== null && !current.session.dead) return current;
      return this.#replace(wanted);
    });
    return { session: current.session, release: current.uses.use() };
  }

  async close(): Promise<void> {
    const current = this.#current;
    this.#current = null;
    current?.uses.stop();
    await current?.session.close();
  }

  #myTurn(): Promise<void> | void {
    if (!this.#taken) {
      this.#taken = true;
      return;
    }
    const { maxWaiting } = this.#options;
    if (this.#waiting.length >= maxWaiting) {
      throw new UpstreamFailure(
        'upstream_busy',
        `the server broadcasts, so that it is served one call at a time, and ${maxWaiting} calls wait already`,
        { mayHaveActed: false },
      );
    }
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  #next(): void {
    const next = this.#waiting.shift();
    if (next === undefined) this.#taken = false;
    else next();
  }

  #change<Changed>(change: () => Promise<Changed>): Promise<Changed> {
    const changed = this.#changing.then(change);
    this.#changing = changed.catch(() => {});
    return changed;
  }

  async #sessionFor(wanted: Wanted): Promise<Current> {
    const current = this.#current;
    const fits = current?.key === wanted.key && (await current.session.ready(wanted.headers));
    return fits ? current : this.#replace(wanted);
  }

  async #replace({ key, open }: Wanted): Promise<Current> {
    await this.close();
    const session = await open();
    const uses = new UseCount(this.#clock, this.#options.idleTimeoutMs, () => this.#drop(session));
    this.#current = { key, session, uses };
    return this.#current;
  }

  #drop(session: Session): void {
    if (this.#current?.session === session) {
      this.#current.uses.stop();
      this.#current = null;
    }
    void session.close();
  }
}
