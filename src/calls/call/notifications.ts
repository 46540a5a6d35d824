/**
 * What a server says while it works, on its way to the client that waits: progress under the client's
 * own token, and log messages from the level on that the client asked for.
 */
import { numberOf, type JsonObject } from '../../protocol/json/json.ts';
import { LOG_LEVELS, type ProgressToken } from '../../protocol/meta.ts';
import { fromServer } from '../../protocol/translate/from-server.ts';
import type { Leg } from '../../model/request.ts';

/** What a leg wants to hear. */
export interface ListeningLeg {
  readonly leg: Pick<Leg, 'notify'>;
  readonly progressToken: ProgressToken | null;
  readonly logLevel: string | null;
}

export class Notifications {
  #lastProgress: JsonObject | null = null;

  /** Gives a notification of the server to the listeners that want it. */
  deliver(method: string, sent: JsonObject, listeners: Iterable<ListeningLeg>): void {
    const params = fromServer(sent);
    if (method === 'notifications/progress') {
      if (!this.#increases(params)) return;
      this.#lastProgress = params;
      for (const listener of listeners) this.#progress(params, listener);
    } else if (method === 'notifications/message') {
      for (const listener of listeners) {
        if (passes(params, listener.logLevel)) listener.leg.notify(method, params);
      }
    }
  }

  /** What comes from now on is of another attempt. */
  forgetProgress(): void {
    this.#lastProgress = null;
  }

  /** Tells a leg that joins later how far the work had come. */
  catchUp(listener: ListeningLeg): void {
    if (this.#lastProgress !== null) this.#progress(this.#lastProgress, listener);
  }

  /** The token is the one of the request that waits now (progress: it belongs to an active request). */
  #progress(params: JsonObject, { leg, progressToken }: ListeningLeg): void {
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
function passes(params: JsonObject, logLevel: string | null): boolean {
  if (logLevel === null || typeof params['level'] !== 'string') return false;
  return LOG_LEVELS.indexOf(params['level']) >= LOG_LEVELS.indexOf(logLevel);
}
