/**
 * Sends progress for open questions. A server that gave its question a progress token may restart its
 * timeout with each progress notification (lifecycle, "Timeouts"), and the user may need long.
 */
import type { Clock, Timer } from '../../lib/clock.ts';
import type { ServerRequestId } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json/json.ts';
import type { ProgressToken } from '../../protocol/meta.ts';

/** A quarter of the request timeout of the official SDKs. */
const INTERVAL_MS = 15_000;

interface OpenQuestion {
  readonly progressToken: ProgressToken;
  progress: number;
}

export class ProgressHeartbeat {
  readonly #clock: Clock;
  readonly #send: (params: JsonObject) => void;
  readonly #open = new Map<ServerRequestId, OpenQuestion>();
  #timer: Timer | null = null;

  /** @param send sends `notifications/progress` with these params */
  constructor(clock: Clock, send: (params: JsonObject) => void) {
    this.#clock = clock;
    this.#send = send;
  }

  /** Starts progress for a question. */
  start(id: ServerRequestId, progressToken: ProgressToken): void {
    this.#open.set(id, { progressToken, progress: 0 });
    this.#timer ??= this.#clock.setTimer(INTERVAL_MS, () => this.#report());
  }

  /** Stops progress for a question: it was answered or withdrawn. */
  stop(id: ServerRequestId): void {
    this.#open.delete(id);
    if (this.#open.size === 0) this.stopAll();
  }

  stopAll(): void {
    this.#open.clear();
    this.#timer?.cancel();
    this.#timer = null;
  }

  #report(): void {
    this.#timer = this.#clock.setTimer(INTERVAL_MS, () => this.#report());
    for (const question of this.#open.values()) {
      question.progress += 1;
      const { progressToken, progress } = question;
      this.#send({ progressToken, progress });
    }
  }
}
