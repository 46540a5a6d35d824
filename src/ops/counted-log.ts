/** A log whose refusals are counted as well, so that no caller has to remember to do both. */
import type { Log, LogEvents } from './log.ts';
import type { Metrics } from './metrics.ts';

export function countedLog(log: Log, metrics: Metrics): Log {
  return {
    event(name, fields) {
      if (name === 'pointer.refused') {
        metrics.refused((fields as LogEvents['pointer.refused']).reason);
      }
      log.event(name, fields);
    },
  };
}
