/** Durations and sizes as people write them, and as the code uses them: in ms and in bytes. */
import type { Rate } from '../limits/rates.ts';

const DURATION_UNITS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

export const DURATION = /^(\d{1,15})(ms|s|m|h|d)?$/;

/** Parses `500ms`, `30s`, `10m`, `1h`, `7d`, or plain milliseconds. @returns milliseconds, or `null` */
export function parseDuration(text: string): number | null {
  const match = DURATION.exec(text);
  return match === null ? null : Number(match[1]) * (DURATION_UNITS[match[2] ?? 'ms'] ?? 1);
}

/** Formats milliseconds in the largest unit that needs no fraction. */
export function formatDuration(ms: number): string {
  if (ms === 0) return '0s';
  const units = Object.entries(DURATION_UNITS).reverse();
  const [unit, size] = units.find(([, size]) => ms % size === 0) ?? ['ms', 1];
  return `${ms / size}${unit}`;
}

export const RATE = /^([1-9]\d{0,8})\/(\d{0,6})([smhd])$/;
const MAX_WINDOW_MS = 86_400_000;

/** Parses `100/s`, `60/1m` or `5/10s`. @returns `null` for anything else, and for a time of more than a day */
export function parseRate(text: string): Rate | null {
  const [, requests, count, unit = ''] = RATE.exec(text) ?? [];
  if (requests === undefined) return null;
  const windowMs = Number(count === '' ? 1 : count) * (DURATION_UNITS[unit] ?? 0);
  return windowMs > 0 && windowMs <= MAX_WINDOW_MS
    ? { requests: Number(requests), windowMs }
    : null;
}

const SIZE_UNITS: Readonly<Record<string, number>> = {
  B: 1,
  KiB: 1024,
  MiB: 1024 ** 2,
  GiB: 1024 ** 3,
};

export const BYTE_SIZE = /^(\d{1,15})(B|KiB|MiB|GiB)?$/;

/** Parses `512KiB`, `4MiB`, `1GiB`, or plain bytes. @returns bytes, or `null` */
export function parseByteSize(text: string): number | null {
  const match = BYTE_SIZE.exec(text);
  return match === null ? null : Number(match[1]) * (SIZE_UNITS[match[2] ?? 'B'] ?? 1);
}

/** Formats bytes in the largest unit that needs no fraction. */
export function formatByteSize(bytes: number): string {
  const units = Object.entries(SIZE_UNITS).reverse();
  const [unit, size] = units.find(([, size]) => bytes % size === 0) ?? ['B', 1];
  return `${bytes / size}${unit}`;
}
