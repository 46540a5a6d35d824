/** Durations as people write them (`10m`), turned into milliseconds once, at the door. */

const UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

export const DURATION = /^(\d{1,15})(ms|s|m|h|d)?$/;

/** In: `500ms`, `30s`, `10m`, `1h`, `7d`, or bare milliseconds. Out: milliseconds, or `null`. */
export function parseDuration(text: string): number | null {
  const match = DURATION.exec(text);
  return match === null ? null : Number(match[1]) * (UNITS[match[2] ?? 'ms'] ?? 1);
}

/** In: milliseconds. Out: the same in the largest unit that needs no fraction. */
export function formatDuration(ms: number): string {
  if (ms === 0) return '0s';
  const units = Object.entries(UNITS).reverse();
  const [unit, size] = units.find(([, size]) => ms % size === 0) ?? ['ms', 1];
  return `${ms / size}${unit}`;
}
