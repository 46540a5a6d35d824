/**
 * Notifications of the server on their way to the client that waits: progress under the client's own token,
 * and log messages from the level that the client asked for.
 */
import type { EdgeRequest, Leg } from '../../model/request.ts';
import { numberOf, type JsonObject } from '../../protocol/json/json.ts';
import { LOG_LEVELS } from '../../protocol/meta.ts';
import { fromServer } from '../../protocol/translate/from-server.ts';

/** A leg, and what its request asks to be notified of. */
export interface ListeningLeg {
  readonly leg: Pick<Leg, 'notify'>;
  readonly request: Pick<EdgeRequest, 'progressToken' | 'logLevel'>;
}

export class Notifications {
  #lastProgress: JsonObject | null = null;

  /** Passes a notification of the server to the legs that want it. Any other method is dropped. */
  deliver(method: string, sent: JsonObject, legs: Iterable<ListeningLeg>): void {
    const params = fromServer(sent);
    if (method === 'notifications/progress') {
      if (!this.#increases(params)) return;
      this.#lastProgress = params;
      for (const leg of legs) this.#sendProgress(params, leg);
    } else if (method === 'notifications/message') {
      for (const { leg, request } of legs) {
        if (isWanted(params, request.logLevel)) leg.notify(method, params);
      }
    }
  }

  /** Forgets the progress of an attempt that is over. */
  forgetProgress(): void {
    this.#lastProgress = null;
  }

  /** Sends a leg that joins later the last progress. */
  catchUp(leg: ListeningLeg): void {
    if (this.#lastProgress !== null) this.#sendProgress(this.#lastProgress, leg);
  }

  /** Uses the token of the request that waits now (progress: it belongs to an active request). */
  #sendProgress(params: JsonObject, { leg, request: { progressToken } }: ListeningLeg): void {
    if (progressToken === null) return;
    leg.notify('notifications/progress', { ...params, progressToken });
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
