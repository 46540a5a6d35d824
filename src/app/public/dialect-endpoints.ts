/** The endpoints of a route's dialects: the route itself, behind other wires. */
import type { FastifyInstance } from 'fastify';
import { dialectPaths } from '../../config/schema.ts';
import { DIALECTS } from '../../dialects/dialects.ts';
import { ModernEndpoint, type EdgeOptions, type EdgeRoute } from '../../edge/edge.ts';
import { refuse } from '../../edge/response-writer.ts';
import { readDialectRequest } from '../../edge/request/dialect-request.ts';
import { serveDraftTaskMethod } from '../../tasks/methods.ts';
import { callersOf } from './callers.ts';
import { dialectSessions } from './dialect-sessions.ts';
import type { Route } from '../routes/route.ts';
import type { PublicServices } from '../shared-services.ts';

/**
 * Creates the endpoints of a route's dialects.
 * @param edge the route on its own path
 * @param only narrows what is read
 * @returns the endpoints with their paths
 */
export function dialectEndpoints(
  route: Route,
  edge: EdgeRoute,
  options: EdgeOptions,
  shared: PublicServices,
  only = (read: EdgeOptions['read']) => read,
): (readonly [path: string, ModernEndpoint])[] {
  // A draft has tasks for all tools or for none.
  const tasks = route.tasks?.takesAnyCall === true ? route.tasks : null;
  const { maxJsonDepth } = shared.config.limits;
  return dialectPaths(route.config).map(([name, path]) => {
    const { codec } = DIALECTS[name];
    const offersTasks = tasks !== null;
    const policy = {
      codec,
      offersTasks,
      maxJsonDepth,
      ...dialectSessions(route.config.id, name, shared),
    };
    const callers = callersOf(route, shared, path);
    const endpoint = new ModernEndpoint(
      {
        ...edge,
        path,
        identify: (request) => callers.identify(request),
        parameterHeaders: () => null,
        task: tasks && ((request, leg) => serveDraftTaskMethod(tasks, request, leg)),
        // The reader finds nothing legacy here, so the server is modern.
        passThrough: async (_request, reply) => refuse(reply.hijack().raw, 502, MODERN_SERVER),
      },
      {
        ...options,
        read: only((request, body, caller) => readDialectRequest(request, body, caller, policy)),
      },
    );
    return [path, endpoint] as const;
  });
}

const MODERN_SERVER =
  'The server speaks 2026-07-28 itself: dialects are translated for legacy servers';

/** Serves a dialect. There is no stream and no session to end: nothing on its path reaches the server untranslated. */
export function installDialect(app: FastifyInstance, path: string, endpoint: ModernEndpoint): void {
  endpoint.install(app);
  app.route({
    method: app.supportedMethods.filter((method) => method !== 'POST'),
    url: path,
    handler: async (request, reply) => {
      const message = `${request.method} is not served on the path of a dialect`;
      refuse(reply.hijack().raw, 405, message, { allow: 'POST' });
    },
  });
}
