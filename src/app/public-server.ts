/** The application behind the public listener: the guard, the modern edge and the pass-through of each route. */
import fastify, { type FastifyInstance } from 'fastify';
import type { EdgeRequest } from '../model/request.ts';
import { sleep } from '../lib/clock.ts';
import { ClientErrors, type ClientTimeouts, continueAfterChecks } from '../edge/http/connection.ts';
import { cutWhenStalled } from '../lib/responses.ts';
import { serveRoute, type EdgeRoute } from '../edge/edge.ts';
import { guard } from '../edge/http/guard.ts';
import { isLoopbackHost } from '../edge/http/origin.ts';
import { parameterHeaderProblem } from '../edge/request/parameter-headers.ts';
import { callerOf, isKnownCaller } from '../identity/identity.ts';
import type { Metrics } from '../ops/metrics.ts';
import { registerPassThrough, type PassThrough } from '../passthrough/passthrough.ts';
import { annotatedParameters } from '../protocol/translate/header-annotations.ts';
import { objectMember } from '../protocol/json/json.ts';
import { otherPathHeaderRules, otherPaths } from './other-paths.ts';
import { sessionsOf } from './caller-sessions.ts';
import { supportedVersions, type Route } from './route.ts';
import type { SharedServices } from './shared.ts';

const ERA_WAIT_MS = 3_000;
const MAX_BUFFERED_BYTES = 256 * 1024;

/** Creates the application for the public listener. */
export async function createPublicApp(
  routes: readonly Route[],
  shared: SharedServices,
  metrics: Metrics,
  timeouts: ClientTimeouts,
): Promise<FastifyInstance> {
  const { config, clock } = shared;
  const clientErrors = new ClientErrors();
  const app = fastify({
    logger: false,
    bodyLimit: config.limits.maxBodyBytes,
    // An empty list trusts no proxy either, but is evaluated for every request.
    trustProxy: config.edge.trustedProxies.length > 0 && [...config.edge.trustedProxies],
    // The framework disables Node's own limits; without them a slow client holds a socket forever.
    requestTimeout: timeouts.requestMs,
    keepAliveTimeout: timeouts.idleMs,
    http: {
      headersTimeout: timeouts.headMs,
      // The guard checks it, and responds in the gateway's own form.
      requireHostHeader: false,
      connectionsCheckingInterval: timeouts.checkEveryMs,
    },
    clientErrorHandler: (error, socket) => clientErrors.refuse(error, socket),
    forceCloseConnections: true,
    return503OnClosing: false,
    exposeHeadRoutes: false,
  });
  app.server.maxConnections = config.limits.maxConnections;
  clientErrors.watch(app.server);
  app.addHook('onRequest', (_request, { raw }, next) => {
    cutWhenStalled(raw, timeouts.writeStallMs);
    next();
  });
  const policy = {
    allowedOrigins: config.edge.allowedOrigins,
    allowedHosts: config.edge.allowedHosts,
    allowLoopback: isLoopbackHost(config.listen.host),
  };
  const { legacyClients } = config.edge;
  guard(app, {
    policy,
    legacyClients,
    paths: routes.map((route) => route.config.path),
    maxBodyBytes: config.limits.maxBodyBytes,
    refused: (header, value) => shared.log.event('edge.refused', { header, value }),
  });
  continueAfterChecks(app);
  const others = otherPaths(routes, legacyClients);
  for (const [index, route] of routes.entries()) {
    await app.register(async (scope) => {
      const passThrough = await registerPassThrough(scope, {
        upstream: route.config.upstream.url,
        path: route.config.path,
        others: index === 0 ? others : [],
        headers: route.config.upstream.headers,
        authorization: route.config.upstream.authorization,
        otherPathHeaderRules: (request, path) =>
          otherPathHeaderRules(routes, request, path, { identity: config.identity, clock }),
        onEndpoint: (endpoint) => route.upstream.messagePaths.toldClient(endpoint),
        isKnown: ({ headers }) => isKnownCaller(headers, config.identity),
        connectTimeoutMs: route.config.upstream.connectTimeoutMs,
        headersTimeoutMs: route.config.upstream.headersTimeoutMs,
        maxBodyBytes: config.limits.maxBodyBytes,
        openResponses: shared.openResponses,
        onFailure: ({ httpStatus: status, problem }) =>
          shared.log.event('passthrough.failed', { route: route.config.id, status, problem }),
        ...sessionsOf(route, routes, shared),
      });
      // A scope of its own, since the edge reads bodies and the pass-through streams them.
      await scope.register(async (edge) => {
        serveMcp(edge, route, shared, metrics, passThrough);
      });
    });
  }
  return app;
}

function serveMcp(
  scope: FastifyInstance,
  route: Route,
  shared: SharedServices,
  metrics: Metrics,
  passThrough: PassThrough,
): void {
  const { config, clock, log } = shared;
  const { id, path, upstream } = route.config;
  const edge: EdgeRoute = {
    id,
    path,
    isModern: async ({ headers }) => {
      const known = route.upstream.knownKind;
      if (known !== null) return known === 'modern';
      const kind = route.upstream.detect(headers).catch(() => null);
      return (await Promise.race([kind, sleep(clock, ERA_WAIT_MS)])) === 'modern';
    },
    identify: ({ headers }) =>
      callerOf(headers, { identity: config.identity, authorization: upstream.authorization }),
    capabilities: (request) => route.discovery.capabilitiesFor(request),
    discover: (request) => route.discovery.discover(request),
    forward: (request, closed) => route.lists.list(request, closed),
    parameterHeaders: (request, rawHeaders) => parameterHeaders(route, request, rawHeaders),
    call: (request, leg) => route.calls.serve(request, leg),
    listen: (request, id, leg) => route.subscriptions.listen(request, id, leg),
    passThrough: (request, reply) => passThrough.forward(request, reply),
  };
  serveRoute(scope, edge, {
    policy: {
      legacyClients: config.edge.legacyClients,
      supportedVersions: () => supportedVersions(config, route.upstream),
      maxJsonDepth: config.limits.maxJsonDepth,
    },
    commitAfterMs: config.edge.commitAfterMs,
    keepAliveMs: config.edge.keepAliveMs,
    maxBufferedBytes: MAX_BUFFERED_BYTES,
    openResponses: shared.openResponses,
    clock,
    log,
    observe: (name, method, { status, code }, ms) => {
      metrics.operation(name, method, code, ms);
      log.event('edge.request', { route: name, method, status, code, ms });
    },
  });
}

/** Checks the headers that repeat a tool's parameters, if configured. @returns what is wrong; `null` if nothing is */
async function parameterHeaders(
  { config, catalogue }: Route,
  request: EdgeRequest,
  rawHeaders: readonly string[],
): Promise<string | null> {
  if (config.tools.parameterHeaders === 'strip') return null;
  const schema = objectMember((await catalogue.toolOf(request)) ?? {}, 'inputSchema') ?? {};
  const args = objectMember(request.params, 'arguments') ?? {};
  return parameterHeaderProblem(annotatedParameters(schema) ?? [], args, rawHeaders);
}
