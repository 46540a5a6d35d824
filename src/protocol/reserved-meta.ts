/** `_meta` of messages that cross from one side to the other (basic/index, "`_meta`"). */
import { isJsonObject, type JsonObject } from './json/json.ts';
import { META_PREFIX, OWN_META_PREFIX } from './meta.ts';

/**
 * A copy of the message without the `_meta` members that mean something on one side only: reserved
 * names and the progress token. Vendor members and trace context stay; an empty `_meta` goes.
 */
export function withoutReservedMeta(message: JsonObject): JsonObject {
  const { _meta: meta, ...rest } = message;
  if (!isJsonObject(meta)) return rest;
  const kept = Object.entries(meta).filter(([name]) => !isReserved(name));
  return kept.length === 0 ? rest : { ...rest, _meta: Object.fromEntries(kept) };
}

/** True for names that the protocol keeps for itself (a prefix whose second label is `modelcontextprotocol` or `mcp`), and for ours. */
export function isReserved(name: string): boolean {
  if (name === 'progressToken' || isOwnMeta(name)) return true;
  const slash = name.indexOf('/');
  if (slash < 0) return false;
  const [, second] = name.slice(0, slash).split('.');
  return second === 'modelcontextprotocol' || second === 'mcp';
}

/** True for names under which the protocol itself, and no extension of it, or this gateway speaks. */
export function isOwnMeta(name: string): boolean {
  return name.startsWith(META_PREFIX) || name.startsWith(OWN_META_PREFIX);
}
