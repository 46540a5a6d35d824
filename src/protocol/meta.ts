/** The revisions of the protocol, and the names and values in `_meta` that have a meaning (basic/index, "`_meta`"). */
import { isJsonInteger, type ExactNumber } from './json.ts';

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
  help: 'mrtr-gateway/help',
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
