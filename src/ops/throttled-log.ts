/** A line in the log for many events: at most one a minute. */
import type { Clock } from '../lib/clock.ts';

const INTERVAL_MS = 60_000;

/**
 * Creates a function to call for each event of a kind, so that the log has no line for each.
 * @param report called at most once a minute, with the latest event and the number of them since the last time
 */
export function throttledLog<Event>(
  clock: Pick<Clock, 'elapsed'>,
  report: (latest: Event, events: number) => void,
): (event: Event) => void {
  let reportedAtMs = -Infinity;
  let events = 0;
  return (event) => {
    events += 1;
    const now = clock.elapsed();
    if (now - reportedAtMs < INTERVAL_MS) return;
    report(event, events);
    reportedAtMs = now;
    events = 0;
  };
}

/** Creates a function to call for each refusal, with a `throttledLog` for each limit. */
export function limitLog<Limit>(
  clock: Pick<Clock, 'elapsed'>,
  report: (limit: Limit, refused: number) => void,
): (limit: Limit) => void {
  const logs = new Map<Limit, (limit: Limit) => void>();
  return (limit) => {
    const log = logs.get(limit) ?? throttledLog(clock, report);
    logs.set(limit, log);
    log(limit);
  };
}
