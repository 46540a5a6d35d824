/**
 * Keeps a server waiting for its client. A server that gave its question a progress token may count
 * its patience anew with each progress it hears of (lifecycle, "Timeouts"), and while a human thinks
 * the only progress is that somebody still does.
 */
import type { Clock, Timer } from '../../lib/clock.ts';
import type { ServerRequestId } from '../../protocol/ids.ts';
import { objectMember, type JsonObject } from '../../protocol/json/json.ts';
import { isProgressToken, type ProgressToken } from '../../protocol/meta.ts';

/** A quarter of the time that the official SDKs give a request. */
const PROGRESS_EVERY_MS = 15_000;

interface Waiting {
  readonly progressToken: ProgressToken;
  progress: number;
}

export class Patience {
  readonly #clock: Clock;
  readonly #notify: (params: JsonObject) => void;
  readonly #waiting = new Map<ServerRequestId, Waiting>();
  #timer: Timer | null = null;

  /** @param notify sends `notifications/progress` with these params to the server */
  constructor(clock: Clock, notify: (params: JsonObject) => void) {
    this.#clock = clock;
    this.#notify = notify;
  }

  /** The server waits for an answer from here on. */
  asked(id: ServerRequestId, params: JsonObject): void {
    const progressToken = objectMember(params, '_meta')?.['progressToken'];
    if (!isProgressToken(progressToken)) return;
    this.#waiting.set(id, { progressToken, progress: 0 });
    this.#timer ??= this.#clock.setTimer(PROGRESS_EVERY_MS, () => this.#report());
  }

  /** The server waits no more: it was answered, or took its question back. */
  settled(id: ServerRequestId): void {
    this.#waiting.delete(id);
    if (this.#waiting.size === 0) this.stop();
  }

  stop(): void {
    this.#waiting.clear();
    this.#timer?.cancel();
    this.#timer = null;
  }

  #report(): void {
    for (const waiting of this.#waiting.values()) {
      waiting.progress += 1;
      const { progressToken, progress } = waiting;
      this.#notify({ progressToken, progress });
    }
    this.#timer = this.#clock.setTimer(PROGRESS_EVERY_MS, () => this.#report());
  }
}
