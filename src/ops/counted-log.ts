/** A log that also counts its events in the metrics. */
import type { Log, LogEvent, LogEvents } from './log.ts';
import type { Metrics } from './metrics.ts';

type Counts = { readonly [Name in LogEvent]?: (metrics: Metrics, fields: LogEvents[Name]) => void };

const COUNTS: Counts = {
  'pointer.refused': (metrics, { route, reason }) => {
    metrics.refused(reason);
    if (reason === 'unknown-call') metrics.resumed(route, 'lost');
  },
  'clock.refused': (metrics, { of }) => metrics.clockRefused(of),
  'call.resumed': (metrics, { route, rung }) => metrics.resumed(route, rung),
  'call.parked': (metrics, { route }) => metrics.asked(route),
};

export function countedLog(log: Log, metrics: Metrics): Log {
  return {
    event(name, fields) {
      COUNTS[name]?.(metrics, fields);
      log.event(name, fields);
    },
  };
}
