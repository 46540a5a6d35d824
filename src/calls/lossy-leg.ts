/**
 * A leg whose client misses notifications while it is slow, for streams that cannot wait for one client. The
 * newest progress is kept. Log messages are dropped and counted.
 */
import { LOG_LEVELS } from '../protocol/meta.ts';
import type { JsonObject } from '../protocol/json/json.ts';
import type { Leg } from '../model/request.ts';

/** How many notifications a client missed. */
export interface NotificationLoss {
  readonly progress: number;
  readonly messages: number;
}

export class LossyLeg implements Leg {
  readonly closed: AbortSignal;
  readonly #leg: Leg;
  readonly #logLevel: string | null;
  #missedProgress = 0;
  #missedMessages = 0;
  /** The newest progress that the client has not seen. */
  #progress: JsonObject | null = null;
  /** Log messages that were dropped since the client was last told. */
  #untold = 0;
  #isWaiting = false;

  /** @param logLevel the lowest level of log messages that the client wants; `null` if it wants none */
  constructor(leg: Leg, logLevel: string | null) {
    this.closed = leg.closed;
    this.#leg = leg;
    this.#logLevel = logLevel;
  }

  get backlog(): Promise<void> | null {
    return this.#leg.backlog;
  }

  notify(method: string, params: JsonObject): void {
    const { backlog } = this.#leg;
    if (backlog === null) {
      this.#catchUp();
      this.#leg.notify(method, params);
      return;
    }
    if (method === 'notifications/progress') {
      if (this.#progress !== null) this.#missedProgress += 1;
      this.#progress = params;
    } else {
      this.#missedMessages += 1;
      this.#untold += 1;
    }
    if (this.#isWaiting) return;
    this.#isWaiting = true;
    void backlog.then(() => {
      this.#isWaiting = false;
      // If the client is behind again, the next notification tries once more.
      if (this.#leg.backlog === null) this.#catchUp();
    });
  }

  /** Sends what was kept, before the reply. @returns what the client missed, or `null` */
  end(): NotificationLoss | null {
    this.#catchUp();
    if (this.#missedProgress + this.#missedMessages === 0) return null;
    return { progress: this.#missedProgress, messages: this.#missedMessages };
  }

  #catchUp(): void {
    if (this.#progress !== null) {
      const params = this.#progress;
      this.#progress = null;
      this.#leg.notify('notifications/progress', params);
    }
    if (this.#untold > 0) {
      const data = `${this.#untold} log messages were dropped: they arrived faster than the client read them`;
      this.#untold = 0;
      const level = atLeastWarning(this.#logLevel);
      this.#leg.notify('notifications/message', { level, logger: 'mrtr-gateway', data });
    }
  }
}

/** @returns a level that the client asked for (logging, "Per-request log level") */
function atLeastWarning(logLevel: string | null): string {
  const wanted = LOG_LEVELS.indexOf(logLevel ?? 'warning');
  return LOG_LEVELS[Math.max(wanted, LOG_LEVELS.indexOf('warning'))] ?? 'warning';
}
