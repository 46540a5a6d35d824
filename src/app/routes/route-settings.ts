/** What follows from the settings of a route. It loads nothing of what serves the route. */
import type { RouteConfig } from '../../config/schema.ts';
import { promotesAny } from '../../tasks/promotion.ts';

/** Names the server of a route without its query or its arguments, which can contain a key. */
export function nameOfServer({ url, process }: RouteConfig['upstream']): string {
  return process === null ? `${url.origin}${url.pathname}` : `the command ${process.command}`;
}

/** Over stdio, each session is a process. */
export function maxSessions({ sessions: { max }, upstream: { process } }: RouteConfig): number {
  return process === null ? max : Math.min(max, process.maxProcesses);
}

/** A call can be parked for as long as it may before it becomes a task, and lives a little longer than that. */
export function longestCallMs({ parking, tasks }: RouteConfig): number {
  const ofTasks = promotesAny(tasks) ? tasks.afterMs + tasks.ttlMs + 60_000 : 0;
  return parking.callTtlMs + ofTasks;
}
