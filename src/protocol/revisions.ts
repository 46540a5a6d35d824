/** The revisions of the Model Context Protocol that this gateway speaks, on either side. */

/** The only modern revision served at the edge. */
export const MODERN_REVISION = '2026-07-28';

/** Legacy revisions accepted from an upstream, newest first (lifecycle, "Version Negotiation"). */
export const LEGACY_REVISIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'] as const;
export type LegacyRevision = (typeof LEGACY_REVISIONS)[number];

export function isLegacyRevision(value: unknown): value is LegacyRevision {
  return (LEGACY_REVISIONS as readonly unknown[]).includes(value);
}

/** True when `revision` is at least `other`; revisions are dates and compare as text. */
export function isAtLeast(revision: LegacyRevision, other: LegacyRevision): boolean {
  return revision >= other;
}
