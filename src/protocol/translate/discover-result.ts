/**
 * Translates a legacy `initialize` result for `server/discover`. Only what the gateway can serve is
 * advertised.
 */
import { metaMember } from './edge-result.ts';
import { fromServer } from './from-server.ts';
import { serverExtensions } from './client-profile.ts';
import { objectMember, type JsonObject } from '../json/json.ts';

export interface DiscoverContext {
  readonly supportedVersions: readonly string[];
  /** How long the client can cache the result, in ms. */
  readonly ttlMs: number;
  /** Whether the upstream has a stream for its own messages, so that `subscriptions/listen` is served. */
  readonly canReceiveNotifications: boolean;
}

/** Translates the upstream's `initialize` result. */
export function discoverResult(initialized: JsonObject, context: DiscoverContext): JsonObject {
  const { instructions } = initialized;
  return {
    resultType: 'complete',
    supportedVersions: [...context.supportedVersions],
    capabilities: modernCapabilities(
      objectMember(initialized, 'capabilities') ?? {},
      context.canReceiveNotifications,
    ),
    ...(typeof instructions === 'string' ? { instructions } : {}),
    ttlMs: context.ttlMs,
    // What a server offers can differ by caller, so no shared cache may store it.
    cacheScope: 'private',
    ...metaMember(
      objectMember(fromServer(initialized), '_meta') ?? {},
      objectMember(initialized, 'serverInfo') ?? null,
    ),
  };
}

/**
 * Translates the capabilities of a legacy server. `tasks` became an extension that this gateway does not
 * serve, and unknown or experimental traffic is not translated: neither is advertised. Extensions that
 * work through a translation are.
 */
export function modernCapabilities(
  capabilities: JsonObject,
  canReceiveNotifications: boolean,
): JsonObject {
  const modern: JsonObject = {};
  for (const name of ['tools', 'prompts', 'resources']) {
    const capability = objectMember(capabilities, name);
    if (capability === undefined) continue;
    const kept: JsonObject = {};
    for (const flag of name === 'resources' ? ['subscribe', 'listChanged'] : ['listChanged']) {
      if (canReceiveNotifications && capability[flag] === true) kept[flag] = true;
    }
    modern[name] = kept;
  }
  for (const name of ['logging', 'completions']) {
    if (objectMember(capabilities, name) !== undefined) modern[name] = {};
  }
  const extensions = serverExtensions(capabilities);
  if (Object.keys(extensions).length > 0) modern['extensions'] = { ...extensions };
  return modern;
}
