/** What a client can listen to, and how it is told of it (subscriptions, "Notification Filter"). */
import type { JsonObject } from './json.ts';

/** The lists whose changes are told. */
export const CHANGING_LISTS = ['tools', 'prompts', 'resources'] as const;
export const ACKNOWLEDGED = 'notifications/subscriptions/acknowledged';
export const RESOURCE_UPDATED = 'notifications/resources/updated';

export interface Notification {
  readonly method: string;
  readonly params: JsonObject;
}

/** Returns every notification that a filter admits, for a listener that may have missed some. */
export function changesIn(filter: JsonObject): Notification[] {
  const lists = CHANGING_LISTS.filter((list) => filter[`${list}ListChanged`] === true);
  const uris = filter['resourceSubscriptions'] ?? [];
  return [
    ...lists.map((list) => ({ method: `notifications/${list}/list_changed`, params: {} })),
    ...(Array.isArray(uris) ? uris : []).map((uri) => ({
      method: RESOURCE_UPDATED,
      params: { uri },
    })),
  ];
}
