/** The revisions of the Model Context Protocol that this gateway speaks. */

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
