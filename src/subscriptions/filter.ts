/**
 * The notifications that a listener asked for, those that its server offers, and whether one that arrived
 * is among them (subscriptions, "Notification Filter"); and the listener itself.
 */
import { objectMember, type JsonObject, isJsonObject } from '../protocol/json.ts';
import {
  ACKNOWLEDGED,
  changesIn,
  CHANGING_LISTS as LISTS,
  RESOURCE_UPDATED,
  type Notification,
} from '../protocol/changes.ts';
import type { Waiter } from '../model/request.ts';
import type { ClientRequestId } from '../protocol/ids.ts';
import { Meta } from '../protocol/meta.ts';
import { fromServer } from '../protocol/translate/cleaning.ts';

export interface NotificationFilter {
  readonly toolsListChanged: boolean;
  readonly promptsListChanged: boolean;
  readonly resourcesListChanged: boolean;
  readonly resourceSubscriptions: readonly string[];
}

/** The notifications that a server can send. */
export interface NotificationOffer {
  readonly toolsListChanged: boolean;
  readonly promptsListChanged: boolean;
  readonly resourcesListChanged: boolean;
  readonly resourceSubscriptions: boolean;
}

/**
 * Reads the filter of a request whose shape was checked. Drops duplicate URIs and unknown members.
 * @param maxResources URIs beyond this number are dropped, and so not acknowledged
 */
export function readFilter(params: JsonObject, maxResources: number): NotificationFilter {
  const asked = objectMember(params, 'notifications') ?? {};
  const uris = Array.isArray(asked['resourceSubscriptions']) ? asked['resourceSubscriptions'] : [];
  const strings = uris.filter((uri): uri is string => typeof uri === 'string');
  return {
    toolsListChanged: asked['toolsListChanged'] === true,
    promptsListChanged: asked['promptsListChanged'] === true,
    resourcesListChanged: asked['resourcesListChanged'] === true,
    resourceSubscriptions: [...new Set(strings)].slice(0, maxResources),
  };
}

/** Reads the ids of the tasks that a listener asks for, each once (tasks extension, "Task Status Notifications"). */
export function readTaskIds(params: JsonObject): string[] {
  const { taskIds = [] } = objectMember(params, 'notifications') ?? {};
  const ids = Array.isArray(taskIds) ? taskIds : [];
  return [...new Set(ids.filter((id): id is string => typeof id === 'string'))];
}

/**
 * Reads what a legacy server offers.
 * @param capabilities of its `initialize` result
 * @param hasStream whether the server opened its standalone stream
 */
export function offerOf(capabilities: JsonObject, hasStream: boolean): NotificationOffer {
  const has = (name: string, flag: string) =>
    hasStream && objectMember(capabilities, name)?.[flag] === true;
  return {
    toolsListChanged: has('tools', 'listChanged'),
    promptsListChanged: has('prompts', 'listChanged'),
    resourcesListChanged: has('resources', 'listChanged'),
    resourceSubscriptions: has('resources', 'subscribe'),
  };
}

/** Returns the part of the filter that the server can honour (subscriptions, "Acknowledgment"). */
export function honoured(asked: NotificationFilter, offer: NotificationOffer): NotificationFilter {
  return {
    toolsListChanged: asked.toolsListChanged && offer.toolsListChanged,
    promptsListChanged: asked.promptsListChanged && offer.promptsListChanged,
    resourcesListChanged: asked.resourcesListChanged && offer.resourcesListChanged,
    resourceSubscriptions: offer.resourceSubscriptions ? asked.resourceSubscriptions : [],
  };
}

/** Returns true if the server can honour the whole filter. */
export function isHonoured(filter: NotificationFilter, offer: NotificationOffer): boolean {
  const left = honoured(filter, offer);
  return (
    LISTS.every((list) => left[`${list}ListChanged`] === filter[`${list}ListChanged`]) &&
    left.resourceSubscriptions.length === filter.resourceSubscriptions.length
  );
}

/** Returns true if the filter admits no notification. */
export function isEmpty(filter: NotificationFilter): boolean {
  return filterMembers(filter).length === 0;
}

/** Writes the filter as a member of a message. What it does not contain is not honoured. */
export function filterObject(filter: NotificationFilter): JsonObject {
  return Object.fromEntries(filterMembers(filter));
}

function filterMembers(filter: NotificationFilter): [string, true | string[]][] {
  const flags = LISTS.map((list) => `${list}ListChanged` as const)
    .filter((flag) => filter[flag])
    .map((flag): [string, true] => [flag, true]);
  const uris = [...filter.resourceSubscriptions];
  return uris.length === 0 ? flags : [...flags, ['resourceSubscriptions', uris]];
}

/** Returns true if the notification was asked for. Others must not be sent (subscriptions, "Opening a Stream"). */
export function admits(filter: NotificationFilter, method: string, params: JsonObject): boolean {
  if (method === RESOURCE_UPDATED) {
    const { uri } = params;
    if (typeof uri !== 'string' || filter.resourceSubscriptions.length === 0) return false;
    const part = normalize(uri);
    return normalized(filter.resourceSubscriptions).some((whole) => isPartOf(part, whole));
  }
  return LISTS.some(
    (list) => filter[`${list}ListChanged`] && method === `notifications/${list}/list_changed`,
  );
}

/** The URIs of filters, normalized once: each notification is compared with all of them. */
const NORMALIZED = new WeakMap<readonly string[], readonly string[]>();

function normalized(uris: readonly string[]): readonly string[] {
  const known = NORMALIZED.get(uris) ?? uris.map(normalize);
  NORMALIZED.set(uris, known);
  return known;
}

/**
 * Returns true if the updated resource is the subscribed one, or a part of it: servers can name a
 * sub-resource (schema, `ResourceUpdatedNotificationParams`), and some normalize the URIs they were given.
 */
function isPartOf(part: string, whole: string): boolean {
  if (whole === part) return true;
  if (!part.startsWith(whole)) return false;
  return whole.endsWith('/') || ['/', '?', '#'].includes(part.charAt(whole.length));
}

function normalize(uri: string): string {
  return URL.parse(uri)?.href ?? uri;
}

/** The number of notifications kept until the acknowledgement is sent. The oldest are dropped first. */
const MAX_WAITING = 100;

/**
 * One `subscriptions/listen` request. It sends nothing before its acknowledgement, nothing that was not
 * asked for, and everything with its subscription id.
 */
export class Listener {
  readonly asked: NotificationFilter;
  /** Resolves when the listener ends, for whatever reason. */
  readonly ended: Promise<void>;
  readonly #id: ClientRequestId;
  readonly #waiter: Pick<Waiter, 'notify' | 'closed'>;
  readonly #end: () => void;
  readonly #taskIds: readonly string[];
  /** Keyed by content, to drop duplicates. */
  readonly #waiting = new Map<string, Notification>();
  #acknowledged: NotificationFilter | null = null;
  #over = false;
  #reason: string | null = null;

  /** @param taskIds of the tasks that it follows */
  constructor(
    id: ClientRequestId,
    asked: NotificationFilter,
    waiter: Pick<Waiter, 'notify' | 'closed'>,
    taskIds: readonly string[] = [],
  ) {
    this.#taskIds = taskIds;
    this.#id = id;
    this.asked = asked;
    this.#waiter = waiter;
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ended = promise;
    this.#end = resolve;
    if (waiter.closed.aborted) this.end();
    else waiter.closed.addEventListener('abort', () => this.end());
  }

  /** The acknowledged filter, or `null` before the acknowledgement. */
  get acknowledged(): NotificationFilter | null {
    return this.#acknowledged;
  }

  /** Why it has ended, for the client; `null` if there is nothing to say. */
  get reason(): string | null {
    return this.#reason;
  }

  get over(): boolean {
    return this.#over;
  }

  /** Sends the acknowledgement, and then the notifications that arrived before it. */
  acknowledge(filter: NotificationFilter): void {
    if (this.#over || this.#acknowledged !== null) return;
    this.#acknowledged = filter;
    this.#send(ACKNOWLEDGED, {
      notifications: {
        ...filterObject(filter),
        ...(this.#taskIds.length === 0 ? {} : { taskIds: [...this.#taskIds] }),
      },
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

  /** Sends what the gateway itself has to say, after the acknowledgement. */
  tell(method: string, params: JsonObject): void {
    if (!this.#over) this.#notify(method, params);
  }

  /** Notifies the client of everything that it listens to, since notifications may have been missed. */
  catchUp(): void {
    if (this.#acknowledged === null) return;
    const missed = changesIn(filterObject(this.#acknowledged));
    for (const { method, params } of missed) this.hear(method, params);
  }

  /**
   * Ends the listener: it sends nothing more, and `ended` resolves.
   * @param reason for the client
   */
  end(reason: string | null = null): void {
    if (!this.#over) this.#reason = reason;
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
    this.#notify(method, fromServer(params));
  }

  #notify(method: string, rest: JsonObject): void {
    const meta = isJsonObject(rest['_meta']) ? rest['_meta'] : {};
    this.#waiter.notify(method, { ...rest, _meta: { ...meta, [Meta.subscriptionId]: this.#id } });
  }
}
