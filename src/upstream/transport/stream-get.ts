/** One GET that opens or resumes a stream: it opens, fails, or the server takes it and holds the head of its response back. */
import type { Clock, Timer } from '../../lib/clock.ts';
import type { UpstreamFailure } from '../../model/upstream-failure.ts';
import type { ResumeOptions } from './resumption.ts';

/** How long a server that accepts a GET can hold the head of the response back, in ms. */
export const HELD_HEAD_MS = 1_000;

export class StreamGet {
  /** There is no response yet. */
  isPending = true;
  readonly #clock: Clock;
  readonly #options: ResumeOptions;
  readonly #done = Promise.withResolvers<void>();
  /** Resolves when the stream is open. Rejects with UpstreamFailure if it cannot be opened. */
  readonly done = this.#done.promise;
  /** When it was written on a connection, in ms of `Clock.elapsed`. Before that, silence says nothing of the server. */
  #sentAtMs: number | null = null;
  #held: Timer | null = null;

  constructor(clock: Clock, options: ResumeOptions) {
    this.#clock = clock;
    this.#options = options;
  }

  /** How long ago it was written on a connection, in ms; `null` if it was not. */
  get ageMs(): number | null {
    return this.#sentAtMs === null ? null : this.#clock.elapsed() - this.#sentAtMs;
  }

  sent(): void {
    this.#sentAtMs = this.#clock.elapsed();
    const { onHeld, heldAfterMs = HELD_HEAD_MS } = this.#options;
    if (onHeld !== undefined) this.#held = this.#clock.setTimer(heldAfterMs, onHeld);
  }

  opened(): void {
    this.#end();
    this.#options.onOpen(this.ageMs ?? 0);
    this.#done.resolve();
  }

  failed(failure: UpstreamFailure): void {
    this.#end();
    this.#done.reject(failure);
  }

  #end(): void {
    this.isPending = false;
    this.#held?.cancel();
  }
}
