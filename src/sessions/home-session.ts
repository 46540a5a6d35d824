/** One session of a home, what uses it, and the calls that were left in it. */
import type { Clock } from '../lib/clock.ts';
import type { LruMap } from '../lib/containers.ts';
import type { KeptSession } from './placement.ts';
import type { SessionQuestions } from '../upstream/session/questions/session-questions.ts';
import type { Permit, PermittedSession } from './permits.ts';

export interface LeftCallsOptions {
  /** Returns for how long a call that is left now can be resumed, in ms. */
  readonly leftForMs: () => number;
  readonly clock: Clock;
}

/** Counts the calls that were left in a session, for another replica or for later. */
export class LeftCalls {
  readonly #options: LeftCallsOptions;
  #count = 0;
  #untilMs = 0;

  constructor(options: LeftCallsOptions) {
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
    this.#untilMs = Math.max(this.#untilMs, clock.elapsed() + leftForMs());
  }

  /** One was resumed. */
  remove(): void {
    this.#count = Math.max(0, this.#count - 1);
  }
}

/** A session of the home, and what uses it. */
export interface HomeSession extends PermittedSession {
  /** Calls and other requests that use the session now. */
  users: number;
  readonly left: LeftCalls;
  hasServed: boolean;
  /** Whether the last call of each target has asked in this session. */
  readonly habits: LruMap<string, 'silent' | 'asks'>;
  /**
   * Set if another process had it: `guest` if it was taken over for a call while the home had another session. That is not ended
   * with the call, since others can be resumed in it.
   */
  adopted: 'home' | 'guest' | null;
  /** Called when the home gets another session. */
  readonly onReplaced: Set<() => void>;
}

/** A session that nothing here is connected to. The server keeps it. */
export interface DisconnectedSession {
  readonly point: KeptSession;
  /** `null` if the home had the session in another process. */
  readonly permit: Permit | null;
  readonly left: LeftCalls;
  readonly hasServed: boolean;
  /** What was known of its calls here; `null` if the home had the session in another process. */
  readonly questions: SessionQuestions | null;
  readonly isInherited: boolean;
  /** Whether calls run in it that the home does not know. */
  readonly hasUnknownCalls: boolean;
}
