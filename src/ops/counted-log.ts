/** Counts what is logged, so that no event has to be told twice. */
import type { Log, LogEvent, LogEvents } from './log.ts';
import type { Metrics } from './metrics.ts';

type EventCounters = {
  readonly [Name in LogEvent]?: (metrics: Metrics, fields: LogEvents[Name]) => void;
};

const COUNTS: EventCounters = {
  'pointer.refused': (metrics, { route, reason }) => {
    metrics.refusals.inc({ reason });
    metrics.outcomes.add(route, 'refused', 1);
    if (reason === 'unknown-call') metrics.resumes.inc({ route, recovered_by: 'lost' });
  },
  'clock.refused': (metrics, { of }) => metrics.clockRefusals.inc({ of }),
  'call.resumed': (metrics, { route, recoveredBy, waitedMs }) => {
    metrics.resumes.inc({ route, recovered_by: recoveredBy });
    if (waitedMs === undefined) return;
    metrics.answers.observe(waitedMs, route);
    metrics.outcomes.add(route, 'peopleMs', waitedMs);
  },
  'call.answered_ahead': (metrics, { route }) => metrics.answersAhead.inc({ route }),
  'call.parked': (metrics, { route }) => metrics.rounds.inc({ route }),
  'call.ended': (metrics, { route, method, target, end, errorType, workMs }) => {
    metrics.outcomes.ended(route, end, errorType, workMs);
    const isDone = end === 'complete' && errorType === null;
    if (isDone && method === 'tools/call') metrics.learnTools(route, [target]);
    if (end === 'complete') metrics.upstreamUp(route, true);
    metrics.callEnded(route, end === 'expired' ? 'abandoned' : end);
    metrics.clientOperation(route, method, target, errorType, workMs);
  },
  'call.release_expired': (metrics, { route }) => metrics.callEnded(route, 'abandoned'),
  'upstream.replied': (metrics, { route, method, errorType, ms }) =>
    metrics.clientOperation(route, method, '', errorType, ms),
  'upstream.failed': (metrics, { route, code }) => {
    if (code === 'upstream_unavailable') metrics.upstreamUp(route, false);
  },
  'upstream.circuit_opened': (metrics, { route }) => metrics.upstreamUp(route, false),
  'upstream.circuit_closed': (metrics, { route }) => metrics.upstreamUp(route, true),
  'session.opened': (metrics, { route }) => metrics.upstreamUp(route, true),
  'session.ended': (metrics, { route, ms }) => metrics.sessions.observe(ms, route),
  'relay.hop': (metrics, { route, outcome }) => metrics.hops.inc({ route, outcome }),
  'passthrough.failed': (metrics, { route }) => metrics.passFailures.inc({ route }),
};

/** Wraps a log so that its events are counted. */
export function countedLog(log: Log, metrics: Metrics): Log {
  return {
    event(name, fields) {
      COUNTS[name]?.(metrics, fields);
      log.event(name, fields);
    },
    takes: (name) => COUNTS[name] !== undefined || log.takes(name),
    setLevel: (level) => log.setLevel?.(level),
  };
}
