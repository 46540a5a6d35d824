/**
 * Judges a resumption by when the reply came: on the connection that was open when the answer was sent, with a later one
 * only, or as a repetition of what was missed, which shows nothing.
 */
import type { Clock } from '../../lib/clock.ts';
import type { ResumptionOutcome } from '../discovery/resumptions.ts';

/** A replay follows the head of the response at once. What comes later than this is new, in ms. */
const REPLAY_MS = 1_000;

export class ResumptionVerdict {
  readonly #clock: Clock;
  /** When this connection resumed the stream, in ms of `Clock.elapsed`; `null` for that of the POST. */
  #resumedAtMs: number | null = null;
  /** Whether an answer was sent since the stream was resumed: when this connection was open, or earlier. */
  #answered: 'no' | 'here' | 'early' = 'no';

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The head of a response has come, or the server holds it back. */
  resumed(): void {
    this.#resumedAtMs = this.#clock.elapsed();
  }

  /** An answer to a question of this stream is sent. @param isOpen whether the head of the response has come */
  answering(isOpen: boolean): void {
    if (this.#resumedAtMs !== null) this.#answered = isOpen ? 'here' : 'early';
  }

  /** The reply came. @returns what that shows, or `null` for nothing */
  replied(): ResumptionOutcome | null {
    const resumedAtMs = this.#resumedAtMs;
    this.#resumedAtMs = null;
    if (resumedAtMs === null) return null;
    const isReplay = this.#clock.elapsed() - resumedAtMs <= REPLAY_MS;
    if (this.#answered === 'here' || !isReplay) return 'delivered';
    return this.#answered === 'early' ? 'late' : null;
  }

  /** The connection has ended. @param wasIdle whether the gateway closed it to look for more */
  disconnected(wasIdle: boolean): void {
    this.#resumedAtMs = null;
    if (this.#answered === 'here') this.#answered = wasIdle ? 'early' : 'no';
  }
}
