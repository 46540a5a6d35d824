/**
 * One `subscriptions/listen` request. It sends nothing before its acknowledgement, nothing that was not
 * asked for, and everything with its subscription id.
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

/** The number of notifications kept until the acknowledgement is sent. The oldest are dropped first. */
const MAX_WAITING = 100;

export class Listener {
  readonly asked: NotificationFilter;
  /** Resolves when the listener ends, for whatever reason. */
  readonly ended: Promise<void>;
  readonly #id: ClientRequestId;
  readonly #leg: Pick<Leg, 'notify' | 'closed'>;
  readonly #end: () => void;
  /** Keyed by content, to drop duplicates. */
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

  /** The acknowledged filter, or `null` before the acknowledgement. */
  get acknowledged(): NotificationFilter | null {
    return this.#acknowledged;
  }

  get over(): boolean {
    return this.#over;
  }

  /** Sends the acknowledgement, and then the notifications that arrived before it. */
  acknowledge(filter: NotificationFilter): void {
    if (this.#over || this.#acknowledged !== null) return;
    this.#acknowledged = filter;
    this.#send('notifications/subscriptions/acknowledged', {
      notifications: filterObject(filter),
    });
    for (const { method, params } of this.#waiting.values()) this.hear(method, params);
    this.#waiting.clear();
  }

  /** Takes a notification of the server, and sends it if the client asked for it. */
  hear(method: string, params: JsonObject): void {
    if (this.#over) return;
    if (this.#acknowledged !== null) {
      if (admits(this.#acknowledged, method, params)) this.#send(method, params);
    } else if (admits(this.asked, method, params)) {
      this.#keep(method, params);
    }
  }

  /** Notifies the client of everything that it listens to, since notifications may have been missed. */
  catchUp(): void {
    if (this.#acknowledged === null) return;
    for (const { method, params } of everythingIn(this.#acknowledged)) this.hear(method, params);
  }

  /** Ends the listener: it sends nothing more, and `ended` resolves. */
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
