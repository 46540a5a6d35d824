/** The revisions of the protocol, and `_meta` (basic/index, "`_meta`"): reserved names, and the values of some of them. */
import { isJsonInteger, isJsonObject, type ExactNumber, type JsonObject } from './json.ts';

const META_PREFIX = 'io.modelcontextprotocol/';
/** The prefix of what this gateway itself tells clients. */
const OWN_META_PREFIX = 'mrtr-gateway/';
/** The names of `_meta` members that this gateway reads or writes. */
export const Meta = {
  protocolVersion: 'io.modelcontextprotocol/protocolVersion',
  clientCapabilities: 'io.modelcontextprotocol/clientCapabilities',
  clientInfo: 'io.modelcontextprotocol/clientInfo',
  logLevel: 'io.modelcontextprotocol/logLevel',
  serverInfo: 'io.modelcontextprotocol/serverInfo',
  subscriptionId: 'io.modelcontextprotocol/subscriptionId',
  relatedTask: 'io.modelcontextprotocol/related-task',
  reason: 'mrtr-gateway/reason',
  mayHaveActed: 'mrtr-gateway/mayHaveActed',
} as const;

/** The severities of log messages (logging, "Log Levels"), least severe first. */
export const LOG_LEVELS: readonly string[] = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
];

/** Ties progress to a request: the requester chooses it, and the other side repeats it (progress). */
export type ProgressToken = string | number | ExactNumber;

/** Tells whether a value is a progress token: a string or an integer, of any size. */
export function isProgressToken(value: unknown): value is ProgressToken {
  return typeof value === 'string' || isJsonInteger(value);
}

/**
 * Returns a message without the `_meta` members that have a meaning on one side only: reserved names and
 * the progress token. Vendor members and trace context stay. An empty `_meta` is removed.
 */
export function withoutReservedMeta(message: JsonObject): JsonObject {
  if (!Object.hasOwn(message, '_meta')) return message;
  const { _meta: meta, ...rest } = message;
  if (!isJsonObject(meta)) return rest;
  const kept = withoutReserved(meta);
  return Object.keys(kept).length === 0 ? rest : { ...rest, _meta: kept };
}

/** Returns the members of a `_meta` that have a meaning on both sides. No parser lets a member `__proto__` in. */
export function withoutReserved(meta: JsonObject): JsonObject {
  const kept: JsonObject = {};
  for (const name in meta) if (!isReserved(name)) kept[name] = meta[name]!;
  return kept;
}

const OF_MCP = /^[^./]*\.(?:modelcontextprotocol|mcp)(?:\.[^/]*)?\//;

/** Tells whether MCP reserves a name (the second label of its prefix is `modelcontextprotocol` or `mcp`), or we do. */
export function isReserved(name: string): boolean {
  return name === 'progressToken' || isOwnMeta(name) || OF_MCP.test(name);
}

/** Tells whether only the protocol itself (not an extension of it) or this gateway uses a name. */
export function isOwnMeta(name: string): boolean {
  return name.startsWith(META_PREFIX) || name.startsWith(OWN_META_PREFIX);
}

/** The only modern revision that is served to clients. */
export const MODERN_REVISION = '2026-07-28';

/** Legacy revisions that upstreams can speak, newest first (lifecycle, "Version Negotiation"). */
export const LEGACY_REVISIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'] as const;
export type LegacyRevision = (typeof LEGACY_REVISIONS)[number];

/** Tells whether a value names a legacy revision that this gateway speaks. */
export function isLegacyRevision(value: unknown): value is LegacyRevision {
  return (LEGACY_REVISIONS as readonly unknown[]).includes(value);
}

/** Compares revisions: they are dates, and compare as text. */
export function isAtLeast(revision: LegacyRevision, other: LegacyRevision): boolean {
  return revision >= other;
}
