/**
 * A leg that is told less while its client is behind, for streams that cannot wait for one client: of its
 * progress the newest is kept, and log messages are dropped and counted.
 */
import { LOG_LEVELS } from '../protocol/meta.ts';
import type { JsonObject } from '../protocol/json/json.ts';
import type { Leg } from '../model/request.ts';

/** Notifications that a client missed. */
export interface Missed {
  readonly progress: number;
  readonly messages: number;
}

export class ThinnedLeg implements Leg {
  readonly closed: AbortSignal;
  readonly #leg: Leg;
  readonly #logLevel: string | null;
  readonly #missed = { progress: 0, messages: 0 };
  /** What was said last of a progress that the client has not heard of. */
  #progress: JsonObject | null = null;
  /** Log messages that were dropped since the client was told last. */
  #untold = 0;
  #waiting = false;

  /** @param logLevel the level from which on the client wants log messages */
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
      if (this.#progress !== null) this.#missed.progress += 1;
      this.#progress = params;
    } else {
      this.#missed.messages += 1;
      this.#untold += 1;
    }
    if (this.#waiting) return;
    this.#waiting = true;
    void backlog.then(() => {
      this.#waiting = false;
      // It may be behind again: then the next time that it is not.
      if (this.#leg.backlog === null) this.#catchUp();
    });
  }

  /** Tells what was kept, before the answer; gives what the client missed, or `null`. */
  end(): Missed | null {
    this.#catchUp();
    const { progress, messages } = this.#missed;
    return progress + messages === 0 ? null : { progress, messages };
  }

  #catchUp(): void {
    if (this.#progress !== null) {
      const params = this.#progress;
      this.#progress = null;
      this.#leg.notify('notifications/progress', params);
    }
    if (this.#untold > 0) {
      const data = `${this.#untold} log messages were dropped: they came faster than the client took them`;
      this.#untold = 0;
      const level = atLeastWarning(this.#logLevel);
      this.#leg.notify('notifications/message', { level, logger: 'mrtr-gateway', data });
    }
  }
}

/** A level that the client asked for (logging, "Per-request log level"). */
function atLeastWarning(logLevel: string | null): string {
  const wanted = LOG_LEVELS.indexOf(logLevel ?? 'warning');
  return LOG_LEVELS[Math.max(wanted, LOG_LEVELS.indexOf('warning'))] ?? 'warning';
}
