/** Modern requests to a path that no route has: their clients are told which paths there are, and so is the operator. */
import type { IncomingMessage } from 'node:http';
import { publicPaths } from '../config/schema.ts';
import { NO_SUCH_PATH } from '../edge/response-writer.ts';
import type { Clock } from '../lib/clock.ts';
import type { Log } from '../ops/log.ts';
import { throttledLog } from '../ops/throttled-log.ts';
import type { Route } from '../routes/route.ts';
import type { PublicServices } from '../routes/shared-services.ts';

const MAX_PATH_CHARACTERS = 200;
const MAX_PATHS = 20;

/**
 * Creates a function to call for each modern request to a path that no route has. It resolves to what its client is told, and
 * to `null` if the path can be one of a server that is modern itself.
 *
 * Whom the gateway does not identify learns no names of routes, except of one that it nearly wrote: that there is such a route
 * is shown by its 401 anyway.
 */
export function wrongPaths(
  routes: readonly Route[],
  shared: PublicServices,
): (request: IncomingMessage, path: string) => Promise<string | null> {
  const { identity } = shared;
  const paths = routes.map(({ config }) => config.path);
  const logged = wrongPathLog(
    routes.flatMap(({ config }) => publicPaths(config)),
    shared,
  );
  return async (request, sentTo) => {
    logged(sentTo);
    if (routes.some(({ server }) => server.upstream.knownKind === 'modern')) return null;
    const near = paths.filter((path) => looseForm(path) === looseForm(sentTo));
    if (near.length > 0) return messageOf(near);
    const { kind } = await identity.identify(request);
    return kind === 'known' ? messageOf(paths) : NO_SUCH_PATH;
  };
}

function messageOf(paths: readonly string[]): string {
  const more = paths.length > MAX_PATHS ? `, and ${paths.length - MAX_PATHS} more` : '';
  return `${NO_SUCH_PATH}; expected ${paths.slice(0, MAX_PATHS).join(', ')}${more}`;
}

/** @returns the same for paths that differ in case, or in slashes at the end or in a row */
function looseForm(path: string): string {
  return path.toLowerCase().replaceAll(/\/+/g, '/').replace(/\/$/, '');
}

/**
 * Creates a function to call for each modern request to a path that no route has. It logs the latest of them, since its
 * client may show nothing of what it is told.
 * @param paths those of the routes
 */
export function wrongPathLog(
  paths: readonly string[],
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): (path: string) => void {
  return throttledLog(clock, (sentTo, requests) => {
    const path = sentTo.slice(0, MAX_PATH_CHARACTERS);
    log.event('edge.wrong_path', { path, paths: paths.join(', '), requests });
  });
}
