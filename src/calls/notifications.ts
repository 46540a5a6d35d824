/**
 * Notifications of the server on their way to the client that waits. A client that reads slowly misses some of them,
 * since the stream of the server cannot wait for one client.
 */
import { inBackground } from '../lib/background.ts';
import type { Closed } from '../lib/clock.ts';
import type { EdgeRequest, Waiter } from '../model/request.ts';
import { numberOf, type JsonObject } from '../protocol/json.ts';
import { LOG_LEVELS } from '../protocol/meta.ts';
import { fromServer } from '../protocol/translate/cleaning.ts';

/** A waiter, and what its request asks to be notified of. */
export interface ListeningWaiter {
  readonly waiter: Pick<Waiter, 'notify'>;
  readonly request: Pick<EdgeRequest, 'progressToken' | 'logLevel'>;
}

/** Sends progress under the client's own token, and log messages from the level that the client asked for. */
export class Notifications {
  #lastProgress: JsonObject | null = null;

  /** Passes a notification of the server to the waiters that want it. Any other method is dropped. */
  deliver(method: string, sent: JsonObject, waiters: Iterable<ListeningWaiter>): void {
    const params = fromServer(sent);
    if (method === 'notifications/progress') {
      if (!this.#increases(params)) return;
      this.#lastProgress = params;
      for (const waiter of waiters) this.#sendProgress(params, waiter);
    } else if (method === 'notifications/message') {
      for (const { waiter, request } of waiters) {
        if (isWanted(params, request.logLevel)) waiter.notify(method, params);
      }
    }
  }

  /** Sends a waiter that joins later the last progress. */
  catchUp(waiter: ListeningWaiter): void {
    if (this.#lastProgress !== null) this.#sendProgress(this.#lastProgress, waiter);
  }

  /** Uses the token of the request that waits now (progress: it belongs to an active request). */
  #sendProgress(params: JsonObject, { waiter, request: { progressToken } }: ListeningWaiter): void {
    if (progressToken === null) return;
    waiter.notify('notifications/progress', { ...params, progressToken });
  }

  /** Progress must increase with each notification (progress, "Behavior Requirements"). */
  #increases(params: JsonObject): boolean {
    const progress = numberOf(params['progress']);
    const last = numberOf(this.#lastProgress?.['progress']);
    return progress !== null && (last === null || progress > last);
  }
}

/** A request that names no level gets no log messages (logging, "Per-request log level"). */
function isWanted(params: JsonObject, logLevel: string | null): boolean {
  if (logLevel === null || typeof params['level'] !== 'string') return false;
  return LOG_LEVELS.indexOf(params['level']) >= LOG_LEVELS.indexOf(logLevel);
}

/** How many notifications a client missed. */
export interface NotificationLoss {
  readonly progress: number;
  readonly messages: number;
}

/** A waiter whose client misses notifications while it is slow. The newest progress is kept. Log messages are counted. */
export class LossyWaiter implements Waiter {
  readonly closed: Closed;
  readonly #waiter: Waiter;
  readonly #logLevel: string | null;
  #missedProgress = 0;
  #missedMessages = 0;
  /** The newest progress that the client has not seen. */
  #progress: JsonObject | null = null;
  /** Log messages that were dropped since the client was last told. */
  #untold = 0;
  #isWaiting = false;

  /** @param logLevel the lowest level of log messages that the client wants; `null` if it wants none */
  constructor(waiter: Waiter, logLevel: string | null) {
    this.closed = waiter.closed;
    this.#waiter = waiter;
    this.#logLevel = logLevel;
  }

  get backlog(): Promise<void> | null {
    return this.#waiter.backlog;
  }

  notify(method: string, params: JsonObject): void {
    const { backlog } = this.#waiter;
    if (backlog === null) {
      this.#catchUp();
      this.#waiter.notify(method, params);
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
    inBackground(
      backlog.then(() => {
        this.#isWaiting = false;
        // If the client is behind again, the next notification tries once more.
        if (this.#waiter.backlog === null) this.#catchUp();
      }),
    );
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
      this.#waiter.notify('notifications/progress', params);
    }
    if (this.#untold > 0) {
      const data = `${this.#untold} log messages were dropped: they arrived faster than the client read them`;
      this.#untold = 0;
      const level = atLeastWarning(this.#logLevel);
      this.#waiter.notify('notifications/message', { level, logger: 'mrtr-gateway', data });
    }
  }
}

/** @returns a level that the client asked for (logging, "Per-request log level") */
function atLeastWarning(logLevel: string | null): string {
  const wanted = LOG_LEVELS.indexOf(logLevel ?? 'warning');
  return LOG_LEVELS[Math.max(wanted, LOG_LEVELS.indexOf('warning'))] ?? 'warning';
}
