/** The log as a part of one route sees it: it names no route. */
import type { Log, LogEvent, LogEvents } from './log.ts';

type RouteEvent = {
  [Name in LogEvent]: LogEvents[Name] extends { route: string } ? Name : never;
}[LogEvent];

export interface RouteLog {
  event<Name extends RouteEvent>(name: Name, fields: Omit<LogEvents[Name], 'route'>): void;
  /** Logs the first event of this name, and no more of them. */
  once<Name extends RouteEvent>(name: Name, fields: Omit<LogEvents[Name], 'route'>): void;
}

/** Binds the log to a route. */
export function routeLog(log: Pick<Log, 'event'>, route: string): RouteLog {
  const logged = new Set<RouteEvent>();
  const event: RouteLog['event'] = <Name extends RouteEvent>(
    name: Name,
    fields: Omit<LogEvents[Name], 'route'>,
  ) => log.event(name, { route, ...fields } as LogEvents[Name]);
  const once: RouteLog['once'] = (name, fields) => {
    if (!logged.has(name)) event(name, fields);
    logged.add(name);
  };
  return { event, once };
}
