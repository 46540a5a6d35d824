/** Counts what is logged, so that no event has to be told twice. */
import type { Outcomes } from './live/outcomes.ts';
import type { Log, LogEvent, LogEvents } from './log.ts';
import type { Metrics } from './metrics.ts';

type Counts = {
  readonly [Name in LogEvent]?: (
    metrics: Metrics,
    fields: LogEvents[Name],
    outcomes: Outcomes,
  ) => void;
};

const COUNTS: Counts = {
  'pointer.refused': (metrics, { route, reason }, outcomes) => {
    metrics.refused(reason);
    outcomes.refused(route);
    if (reason === 'unknown-call') metrics.resumed(route, 'lost');
  },
  'clock.refused': (metrics, { of }) => metrics.clockRefused(of),
  'call.resumed': (metrics, { route, rung, waitedMs }, outcomes) => {
    metrics.resumed(route, rung);
    if (waitedMs === undefined) return;
    metrics.answered(route, waitedMs);
    outcomes.answered(route, waitedMs);
  },
  'call.answered_ahead': (metrics, { route }) => metrics.answeredAhead(route),
  'call.parked': (metrics, { route }) => metrics.asked(route),
  'call.ended': (metrics, { route, method, target, end, errorType, workMs }, outcomes) => {
    outcomes.ended(route, end, errorType, workMs);
    const isDone = end === 'complete' && errorType === null;
    if (isDone && method === 'tools/call') metrics.learnTools(route, [target]);
    if (end === 'complete') metrics.upstreamUp(route, true);
    metrics.ended(route, end === 'expired' ? 'abandoned' : end);
    metrics.clientOperation(route, method, target, errorType, workMs);
  },
  'upstream.replied': (metrics, { route, method, errorType, ms }) =>
    metrics.clientOperation(route, method, '', errorType, ms),
  'upstream.failed': (metrics, { route, code }) => {
    if (code === 'upstream_unavailable') metrics.upstreamUp(route, false);
  },
  'session.opened': (metrics, { route }) => metrics.upstreamUp(route, true),
  'session.ended': (metrics, { route, ms }) => metrics.sessionEnded(route, ms),
  'relay.hop': (metrics, { route, outcome }) => metrics.relayed(route, outcome),
  'passthrough.failed': (metrics, { route }) => metrics.passFailed(route),
};

/** Wraps a log so that the metrics and the live page count its events. */
export function countedLog(log: Log, metrics: Metrics, outcomes: Outcomes): Log {
  return {
    event(name, fields) {
      COUNTS[name]?.(metrics, fields, outcomes);
      log.event(name, fields);
    },
  };
}
