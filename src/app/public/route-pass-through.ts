/** Connects the pass-through with a route: what goes to its server untranslated, and what is told of that. */
import type { FastifyInstance } from 'fastify';
import { refuse } from '../../edge/response-writer.ts';
import { once } from '../../lib/once.ts';
import type { Metrics } from '../../ops/metrics.ts';
import {
  registerNoPassThrough,
  registerPassThrough,
  type PassThrough,
} from '../../passthrough/passthrough.ts';
import { isHttpRoute, type HttpRoute, type Route } from '../routes/route.ts';
import type { PublicServices } from '../shared-services.ts';
import { passesLimits } from './admissions.ts';
import type { RouteCallers } from './callers.ts';
import { knownCaller, otherPathHeaderRules, otherPaths, sessionsOf } from './other-paths.ts';

/** Passes nothing through. */
export const NO_PASS_THROUGH: PassThrough = {
  forward: async (_request, reply) => refuse(reply.hijack().raw, 404, 'Not found'),
};

/**
 * Registers the pass-through of a route. The first route over HTTP has the other paths as well.
 * @param scope of the route; the pass-through streams bodies
 * @param httpRoutes the routes of the configuration that have a server over HTTP
 * @returns the pass-through, for requests that turn out to be for it, within the limits of the route
 */
export function routePassThrough(
  scope: FastifyInstance,
  route: Route,
  httpRoutes: readonly HttpRoute[],
  callers: RouteCallers,
  shared: PublicServices,
  metrics: Metrics,
): PassThrough {
  if (!isHttpRoute(route)) return registerNoPassThrough(scope, route.config.path);
  const { config, log, openResponses } = shared;
  const { config: server, upstream, circuit } = route.server.http;
  const { id } = route.config;
  const tellOfLegacyClient = once(() => log.event('route.legacy_client', { route: id }));
  const passThrough = registerPassThrough(scope, {
    upstream: server.url,
    path: route.config.path,
    others: route === httpRoutes[0] ? otherPaths(httpRoutes, config.edge.legacyClients) : [],
    headers: server.headers,
    authorization: server.authorization,
    headersOf: ({ raw }) => ({ ...route.tokenExchange?.headersOf(raw) }),
    otherPathHeaderRules: (request, path) =>
      otherPathHeaderRules(httpRoutes, request, path, shared),
    hostHeader: server.hostHeader,
    challenge: (challenge) => route.resource?.challenge(challenge) ?? challenge,
    onToken: (status, challenge) => route.resource?.answered(status, challenge),
    onEndpoint: (endpoint) => upstream.messagePaths.toldClient(endpoint),
    refusalOf: ({ raw }) => callers.refusalOf(raw),
    onOutcome: (status) => circuit.ended(status),
    connectTimeoutMs: server.connectTimeoutMs,
    headersTimeoutMs: server.headersTimeoutMs,
    maxBodyBytes: config.limits.maxBodyBytes,
    openResponses,
    onPassed: (isEndpoint) => {
      metrics.passed.inc({ route: id });
      if (isEndpoint && upstream.knownKind !== 'modern') tellOfLegacyClient();
    },
    onFailure: ({ httpStatus: status, problem }) => {
      if (upstream.knownKind === 'modern') upstream.doubt();
      log.event('passthrough.failed', { route: id, status, problem });
    },
    ...sessionsOf(route, httpRoutes, shared),
  });
  return withinLimits(passThrough, route, shared);
}

/** Limits what is passed through to the endpoint of a server. */
function withinLimits(
  passThrough: PassThrough,
  route: HttpRoute,
  shared: PublicServices,
): PassThrough {
  return {
    forward: async (request, reply, onServerRefused) => {
      const caller = () => knownCaller(request, route, shared);
      if (await passesLimits(route, request, reply, caller)) {
        await passThrough.forward(request, reply, onServerRefused);
      }
    },
  };
}
