/**
 * Sessions that several requests may use at once, one for each key, as long as none of them asks
 * anything. Keys come from what clients say of themselves, so only so many are kept.
 */
import type { Clock } from '../../lib/clock.ts';
import type { Session } from '../session/session.ts';
import type { CallerHeaders } from '../transport/transport.ts';
import { UpstreamFailure } from '../failure.ts';
import { UseCount } from './use-count.ts';

/** A session that is used beside others; whoever has it gives it back. */
export interface Loan {
  readonly session: Session;
  release(): void;
}

export interface SharedSessionsOptions {
  readonly idleTimeoutMs: number;
  /** Beyond this many those go that nobody uses, the one used longest ago first. */
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
   * The session of this key, which is opened when there is none that can be used.
   * @throws UpstreamFailure when it cannot be opened
   */
  async borrow(key: string, headers: CallerHeaders, open: () => Promise<Session>): Promise<Loan> {
    for (let attempt = 1; attempt <= MAX_ATTEMPTS; attempt += 1) {
      const shared = this.#sessions.get(key) ?? this.#open(key, open);
      const release = shared.uses.use();
      this.#keep(key, shared);
      try {
        const session = await shared.opening;
        if (await session.ready(headers)) return { session, release };
        this.#drop(key, shared);
      } catch (error) {
        this.#drop(key, shared);
        release();
        throw error;
      }
      release();
    }
    throw new UpstreamFailure('session_gone', 'sessions end as soon as they are opened', {
      mayHaveActed: false,
    });
  }

  /** Ends all of them at once. */
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

  /** As the one that was used last. */
  #keep(key: string, shared: Shared): void {
    this.#sessions.delete(key);
    this.#sessions.set(key, shared);
    for (const [oldKey, old] of this.#sessions) {
      if (this.#sessions.size <= this.#options.max) break;
      if (!old.uses.inUse) this.#drop(oldKey, old);
    }
  }

  /** Nobody gets it any more, unless the key has another one meanwhile; who has it may finish. */
  #drop(key: string, shared: Shared): void {
    if (this.#sessions.get(key) === shared) this.#sessions.delete(key);
    shared.uses.retire();
  }
}
