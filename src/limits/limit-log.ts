/** Reports what limits refuse without a line for each refusal. */
import type { Clock } from '../lib/clock.ts';

const INTERVAL_MS = 60_000;

/**
 * Creates what is to be called for each refusal.
 * @param report called for each limit at most once a minute, with the number of refusals since the last time
 */
export function limitLog<Limit>(
  clock: Pick<Clock, 'elapsed'>,
  report: (limit: Limit, refused: number) => void,
): (limit: Limit) => void {
  const limits = new Map<Limit, { reportedAtMs: number; refused: number }>();
  return (limit) => {
    const seen = limits.get(limit) ?? { reportedAtMs: -Infinity, refused: 0 };
    limits.set(limit, seen);
    seen.refused += 1;
    const now = clock.elapsed();
    if (now - seen.reportedAtMs < INTERVAL_MS) return;
    report(limit, seen.refused);
    Object.assign(seen, { reportedAtMs: now, refused: 0 });
  };
}
