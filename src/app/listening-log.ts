/** What the log says when clients can connect. */
import type { Config } from '../config/schema.ts';
import type { Log } from '../ops/log.ts';
import { nameOfServer, promotesAny } from '../routes/settings.ts';

/** Logs that clients can connect, and what replicas do not share. @returns the URL of the first route */
export function logListening(
  config: Config,
  origin: string,
  admin: string | null,
  log: Log,
  workers = 1,
): string {
  const { routes, relay } = config;
  const url = `${origin}${routes[0]?.path ?? ''}`;
  const upstreams = routes.map(({ upstream }) => nameOfServer(upstream)).join(', ');
  log.event('gateway.listening', { url, admin, upstreams });
  // A line for each, since a field has too little room for many.
  for (const { id, path, upstream } of routes.length > 1 ? routes : []) {
    const fields = { route: id, url: `${origin}${path}`, upstream: nameOfServer(upstream) };
    log.event('route.listening', fields);
  }
  const shared = homesSharedBy(config, workers);
  log.event('gateway.homes', { shared });
  if (relay !== null && shared !== 'redis') log.event('gateway.sessions_not_shared', {});
  logTasks(config, log);
  return url;
}

function homesSharedBy({ relay, redis }: Config, workers: number) {
  if (relay !== null && redis !== null) return 'redis';
  return workers > 1 ? 'workers' : 'nothing';
}

/** Logs what becomes of tasks where replicas, or the processes of one gateway, share no store. */
function logTasks({ routes, relay, redis }: Config, log: Log): void {
  if (redis !== null || !routes.some(({ tasks }) => promotesAny(tasks))) return;
  log.event(relay === null ? 'tasks.in_memory' : 'tasks.legacy_only', {});
}
