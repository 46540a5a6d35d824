/**
 * Resumptions that come to nothing: the server accepts the GET, and ends the response without an event, again and again.
 * rmcp does so when it no longer has the stream. The Java SDK takes each GET for the standalone stream, and ends the one
 * before it. A server that only wants its clients to ask again sends an event with an id first (2025-11-25 transports,
 * "Sending Messages to the Server").
 */
import type { Clock } from '../../lib/clock.ts';
import { UpstreamFailure } from '../../model/upstream-failure.ts';
import type { StreamEnd } from '../transport/resumption.ts';

/** A response that lasts longer may have been cut by a proxy, in ms. */
const AT_ONCE_MS = 2_000;
const MANY = 10;
const LONG_MS = 30_000;

export class ResumeRetryLimiter {
  readonly #clock: Clock;
  #times = 0;
  #sinceMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The server has sent something. */
  heard(): void {
    this.#times = 0;
  }

  /**
   * A resumed connection has ended.
   * @param ageMs how long ago its GET was written, in ms
   */
  ended({ failure, wasIdle }: StreamEnd, ageMs: number): void {
    const nowMs = this.#clock.elapsed();
    if (failure !== null || wasIdle || ageMs >= AT_ONCE_MS) this.#times = 0;
    else if ((this.#times += 1) === 1) this.#sinceMs = nowMs;
  }

  /** @throws UpstreamFailure if the server was given enough chances to continue the stream */
  check(): void {
    if (this.#times < MANY || this.#clock.elapsed() - this.#sinceMs < LONG_MS) return;
    throw new UpstreamFailure(
      'upstream_protocol_error',
      `it ended the resumed stream ${this.#times} times in a row without an event`,
      { mayHaveActed: true },
    );
  }
}
