/**
 * One `subscriptions/listen` request while it is served: it hears nothing before its acknowledgement,
 * nothing that it did not ask for, and everything under its own subscription id.
 */
import type { Leg } from '../model/request.ts';
import type { ClientRequestId } from '../protocol/ids.ts';
import { isJsonObject, type JsonObject } from '../protocol/json/json.ts';
import { Meta } from '../protocol/meta.ts';
import { fromServer } from '../protocol/translate/from-server.ts';
import { admits, everythingIn, filterObject, type NotificationFilter } from './filter.ts';

export interface Notification {
  readonly method: string;
  readonly params: JsonObject;
}

/** Changes that arrive while the acknowledgement is not out yet; the oldest go when there are more. */
const MAX_WAITING = 100;

export class Listener {
  readonly asked: NotificationFilter;
  /** Resolves when it is over, for whatever reason. */
  readonly ended: Promise<void>;
  readonly #id: ClientRequestId;
  readonly #leg: Pick<Leg, 'notify' | 'closed'>;
  readonly #end: () => void;
  /** By what they say: hearing of the same change twice in a row is no news. */
  readonly #waiting = new Map<string, Notification>();
  #acknowledged: NotificationFilter | null = null;
  #over = false;

  constructor(id: ClientRequestId, asked: NotificationFilter, leg: Pick<Leg, 'notify' | 'closed'>) {
    this.#id = id;
    this.asked = asked;
    this.#leg = leg;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ended = promise;
    this.#end = resolve;
    if (leg.closed.aborted) this.end();
    else leg.closed.addEventListener('abort', () => this.end(), { once: true });
  }

  /** What was acknowledged, or `null` before that. */
  get acknowledged(): NotificationFilter | null {
    return this.#acknowledged;
  }

  get over(): boolean {
    return this.#over;
  }

  /** Opens the stream with what the client may count on, and what came in the meantime. */
  acknowledge(filter: NotificationFilter): void {
    if (this.#over || this.#acknowledged !== null) return;
    this.#acknowledged = filter;
    this.#send('notifications/subscriptions/acknowledged', {
      notifications: filterObject(filter),
    });
    for (const { method, params } of this.#waiting.values()) this.hear(method, params);
    this.#waiting.clear();
  }

  /** Takes a notification of the server; sends it when it was asked for. */
  hear(method: string, params: JsonObject): void {
    if (this.#over) return;
    if (this.#acknowledged !== null) {
      if (admits(this.#acknowledged, method, params)) this.#send(method, params);
    } else if (admits(this.asked, method, params)) {
      this.#keep(method, params);
    }
  }

  /** Changes may have gone unheard: the client is told to look at everything that it listens to. */
  catchUp(): void {
    if (this.#acknowledged === null) return;
    for (const { method, params } of everythingIn(this.#acknowledged)) this.hear(method, params);
  }

  /** No more notifications; `ended` resolves. */
  end(): void {
    this.#over = true;
    this.#waiting.clear();
    this.#end();
  }

  #keep(method: string, params: JsonObject): void {
    const key = JSON.stringify([method, params['uri'] ?? null]);
    this.#waiting.set(key, { method, params });
    const [oldest] = this.#waiting.keys();
    if (this.#waiting.size > MAX_WAITING && oldest !== undefined) this.#waiting.delete(oldest);
  }

  #send(method: string, params: JsonObject): void {
    const rest = fromServer(params);
    const meta = isJsonObject(rest['_meta']) ? rest['_meta'] : {};
    this.#leg.notify(method, { ...rest, _meta: { ...meta, [Meta.subscriptionId]: this.#id } });
  }
}
