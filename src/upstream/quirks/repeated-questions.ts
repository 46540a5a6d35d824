/**
 * Servers with rmcp repeat up to 16 messages on a standalone stream that was just opened, with questions that were answered
 * long ago.
 */
import type { Clock } from '../../lib/clock.ts';
import { type Entries, RecentMap } from '../../lib/containers.ts';
import type { ServerRequestId, UpstreamRequestId } from '../../protocol/ids.ts';
import type { SessionCall } from '../session/session-call.ts';

const MIN_ASKED = 256;
/** How long after it was opened a stream can bring what it brought before, in ms. */
const REPEATS_MS = 1_000;

export class RepeatedQuestions {
  readonly #calls: Entries<UpstreamRequestId, SessionCall>;
  readonly #clock: Clock;
  /** What was asked last on streams that name no call, also by calls that have ended. */
  readonly #asked = new RecentMap<ServerRequestId, true>(MIN_ASKED);
  #untilMs = 0;

  constructor(calls: Entries<UpstreamRequestId, SessionCall>, clock: Clock) {
    this.#calls = calls;
    this.#clock = clock;
  }

  asked(id: ServerRequestId): void {
    this.#asked.set(id, true);
  }

  streamOpened(): void {
    this.#untilMs = this.#clock.elapsed() + REPEATS_MS;
  }

  /**
   * True if a stream that was just opened brings a question of before. In a session that another replica had, it is one if
   * a call that was taken over was asked another one since: servers count their questions.
   */
  has(id: ServerRequestId): boolean {
    if (this.#clock.elapsed() >= this.#untilMs) return false;
    if (this.#asked.has(id)) return true;
    for (const call of this.#calls.values())
      if (call.resumedStream !== null && call.wasAskedSince(id)) return true;
    return false;
  }
}
