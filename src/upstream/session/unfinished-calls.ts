/** Calls of a session that ended without a reply. The server may still run them, and they may still ask. */
import type { Clock } from '../../lib/clock.ts';
import type { UpstreamRequestId } from '../../protocol/ids.ts';

/** A call, as far as it matters here. */
export interface UnfinishedCall {
  readonly id: UpstreamRequestId;
  /** The server took the cancellation, and every question of the call was answered or withdrawn. */
  readonly wasStopped: boolean;
}

/**
 * How long a call can still ask after the server was told to stop it, in ms. A receiver of
 * `notifications/cancelled` SHOULD stop (cancellation, "Behavior Requirements"), but tools of the TypeScript
 * SDK run on unless they look at their signal, and nothing reports their end. A tool that was waiting for an
 * answer gets it with the cancellation, and asks again at once or not at all.
 */
const STOPPED_CALL_MS = 5_000;
/** The same for a call that the server was not told to stop, or that waits for an answer. */
const UNFINISHED_CALL_MS = 600_000;
/** The oldest is forgotten first. */
const MAX_CALLS = 1_000;

export class UnfinishedCalls {
  readonly #clock: Clock;
  readonly #calls = new Map<UpstreamRequestId, { call: UnfinishedCall; endedAtMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  add(call: UnfinishedCall): void {
    this.#calls.set(call.id, { call, endedAtMs: this.#clock.elapsed() });
    for (const oldest of this.#calls.keys()) {
      if (this.#calls.size <= MAX_CALLS) break;
      this.#calls.delete(oldest);
    }
  }

  /** The call has ended after all, or is resumed. @returns whether it was one of these */
  delete(id: UpstreamRequestId): boolean {
    return this.#calls.delete(id);
  }

  get isEmpty(): boolean {
    if (this.#calls.size > 0) this.#forgetOld();
    return this.#calls.size === 0;
  }

  /** True if the server was told to stop all of them, so that they are over soon. */
  get allStopped(): boolean {
    this.#forgetOld();
    for (const { call } of this.#calls.values()) if (!call.wasStopped) return false;
    return true;
  }

  /** Returns the ids of those that can still ask. */
  ids(): UpstreamRequestId[] {
    this.#forgetOld();
    return [...this.#calls.keys()];
  }

  /** In how many ms all of them can ask no more. */
  get overInMs(): number {
    const leftMs = [...this.#calls.values()].map((entry) => this.#leftMs(entry));
    return Math.max(0, ...leftMs);
  }

  #forgetOld(): void {
    for (const [id, entry] of this.#calls) if (this.#leftMs(entry) <= 0) this.#calls.delete(id);
  }

  #leftMs({ call, endedAtMs }: { call: UnfinishedCall; endedAtMs: number }): number {
    const limitMs = call.wasStopped ? STOPPED_CALL_MS : UNFINISHED_CALL_MS;
    return endedAtMs + limitMs - this.#clock.elapsed();
  }
}
