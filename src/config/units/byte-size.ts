/** Sizes as people write them (`4MiB`), turned into bytes once, at the door. */

const UNITS: Readonly<Record<string, number>> = {
  B: 1,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
};

export const BYTE_SIZE = /^(\d{1,15})(B|KiB|MiB|GiB)?$/;

/** In: `512KiB`, `4MiB`, `1GiB`, or bare bytes. Out: bytes, or `null`. */
export function parseByteSize(text: string): number | null {
  const match = BYTE_SIZE.exec(text);
  return match === null ? null : Number(match[1]) * (UNITS[match[2] ?? 'B'] ?? 1);
}

/** In: bytes. Out: the same in the largest unit that needs no fraction. */
export function formatByteSize(bytes: number): string {
  const units = Object.entries(UNITS).reverse();
  const [unit, size] = units.find(([, size]) => bytes % size === 0) ?? ['B', 1];
  return `${bytes / size}${unit}`;
}
