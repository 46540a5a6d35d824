/**
 * Which notifications a listener asked for, which of them its server can give, and whether one that
 * arrived is among them (subscriptions, "Notification Filter").
 */
import { objectMember, type JsonObject } from '../protocol/json/json.ts';
import { concerns } from './resource-uri.ts';

export interface NotificationFilter {
  readonly toolsListChanged: boolean;
  readonly promptsListChanged: boolean;
  readonly resourcesListChanged: boolean;
  readonly resourceSubscriptions: readonly string[];
}

/** What a server can tell about at all. */
export interface NotificationOffer {
  readonly toolsListChanged: boolean;
  readonly promptsListChanged: boolean;
  readonly resourcesListChanged: boolean;
  readonly resourceSubscriptions: boolean;
}

const LISTS = ['tools', 'prompts', 'resources'] as const;
const RESOURCE_UPDATED = 'notifications/resources/updated';

/**
 * The filter of a request whose shape was checked. Each URI counts once; members that are not known
 * here are not honoured.
 * @param maxResources URIs beyond this many are left out, and so not acknowledged
 */
export function readFilter(params: JsonObject, maxResources: number): NotificationFilter {
  const asked = objectMember(params, 'notifications') ?? {};
  const uris = Array.isArray(asked['resourceSubscriptions']) ? asked['resourceSubscriptions'] : [];
  const texts = uris.filter((uri): uri is string => typeof uri === 'string');
  return {
    toolsListChanged: asked['toolsListChanged'] === true,
    promptsListChanged: asked['promptsListChanged'] === true,
    resourcesListChanged: asked['resourcesListChanged'] === true,
    resourceSubscriptions: [...new Set(texts)].slice(0, maxResources),
  };
}

/**
 * What a legacy server can give, by its own word.
 * @param capabilities of its `initialize` result
 * @param hasStream whether it opened the stream on which it says what belongs to no request
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

/** The part of the filter that can be kept to (subscriptions, "Acknowledgment"). */
export function honoured(asked: NotificationFilter, offer: NotificationOffer): NotificationFilter {
  return {
    toolsListChanged: asked.toolsListChanged && offer.toolsListChanged,
    promptsListChanged: asked.promptsListChanged && offer.promptsListChanged,
    resourcesListChanged: asked.resourcesListChanged && offer.resourcesListChanged,
    resourceSubscriptions: offer.resourceSubscriptions ? asked.resourceSubscriptions : [],
  };
}

/** True when the whole filter can be kept to. */
export function isHonoured(filter: NotificationFilter, offer: NotificationOffer): boolean {
  const left = honoured(filter, offer);
  return (
    LISTS.every((list) => left[`${list}ListChanged`] === filter[`${list}ListChanged`]) &&
    left.resourceSubscriptions.length === filter.resourceSubscriptions.length
  );
}

/** True when nothing at all would ever be delivered. */
export function isEmpty(filter: NotificationFilter): boolean {
  return filterMembers(filter).length === 0;
}

/** The filter as a member of a message: what is not in it is not honoured. */
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

/** Whether a notification of the server was asked for; nothing else may be sent (subscriptions, "Opening a Stream"). */
export function admits(filter: NotificationFilter, method: string, params: JsonObject): boolean {
  if (method === RESOURCE_UPDATED) {
    const { uri } = params;
    return (
      typeof uri === 'string' && filter.resourceSubscriptions.some((one) => concerns(one, uri))
    );
  }
  return LISTS.some(
    (list) => filter[`${list}ListChanged`] && method === `notifications/${list}/list_changed`,
  );
}

/** Every notification that this filter can bring, for when it is not known which of them were missed. */
export function everythingIn(
  filter: NotificationFilter,
): { readonly method: string; readonly params: JsonObject }[] {
  const lists = LISTS.filter((list) => filter[`${list}ListChanged`]).map((list) => ({
    method: `notifications/${list}/list_changed`,
    params: {},
  }));
  const updated = filter.resourceSubscriptions.map((uri) => ({
    method: RESOURCE_UPDATED,
    params: { uri },
  }));
  return [...lists, ...updated];
}
