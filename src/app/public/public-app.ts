/**
 * The application behind the public listener, for one configuration: the guard, the modern edge and the pass-through of
 * each route. A reload creates another one. The listener and its connections stay (`public-listener.ts`).
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import fastify, { type FastifyInstance } from 'fastify';
import { cutWhenStalled } from '../../lib/responses.ts';
import { ModernEndpoint } from '../../edge/edge.ts';
import type { EdgeOptions } from '../../edge/options.ts';
import { Guard } from '../../edge/http/guard.ts';
import { isLoopbackHost } from '../../lib/loopback.ts';
import { isMethod, serviceOf } from '../../edge/request/methods.ts';
import { refusalReason, refuse } from '../../edge/response-writer.ts';
import { ErrorCode } from '../../protocol/json-rpc.ts';
import type { Metrics } from '../../ops/metrics.ts';
import { once } from '../../lib/once.ts';
import {
  registerNoPassThrough,
  registerPassThrough,
  type PassThrough,
} from '../../passthrough/passthrough.ts';
import { publicPaths } from '../../config/schema.ts';
import { dialectEndpoints, installDialect } from './dialect-endpoints.ts';
import { ROOT_METADATA_PATH } from '../../protocol/protected-resource.ts';
import { callersOf, type RouteCallers } from './callers.ts';
import { serveOwnMetadata } from './own-metadata.ts';
import type { PublicListener } from './public-listener.ts';
import { knownCaller, otherPathHeaderRules, otherPaths, sessionsOf } from './other-paths.ts';
import { passesLimits } from './admissions.ts';
import { isHttpRoute, type Route } from '../routes/route.ts';
import type { PublicServices } from '../shared-services.ts';
import { edgeOptions, edgeRoute } from './edge-route.ts';

/** For one event of a response. The framework and its plugins add as many as the default allows. */
const MAX_LISTENERS = 20;

/** The routes of one configuration, as clients reach them. */
export interface PublicApp {
  readonly serve: RequestListener;
  /** Serves no more retries of a former route. */
  forget(former: Route): void;
  /** Closes it as soon as all its responses have ended. */
  retire(): void;
}

/**
 * Creates the application for the public listener.
 * @param former routes that are served no more, but for retries of their calls. The last one of a path counts
 */
export async function createPublicApp(
  routes: readonly Route[],
  former: readonly Route[],
  shared: PublicServices,
  metrics: Metrics,
  { connections, timeouts }: Pick<PublicListener, 'connections' | 'timeouts'>,
): Promise<PublicApp> {
  const { config } = shared;
  const app = fastify({
    logger: false,
    bodyLimit: config.limits.maxBodyBytes,
    // An empty list trusts no proxy either, but is evaluated for every request.
    trustProxy: config.edge.trustedProxies.length > 0 && [...config.edge.trustedProxies],
    return503OnClosing: false,
    exposeHeadRoutes: false,
  });
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
  const guard = new Guard({
    policy,
    legacyClients,
    paths: routes.flatMap((route) => publicPaths(route.config)),
    maxBodyBytes: config.limits.maxBodyBytes,
    requestHeaders: [
      ...config.identity.credentialHeaders,
      ...routes.flatMap((route) => route.config.upstream.forwardHeaders),
    ],
    refused: (header, value) => shared.log.event('edge.refused', { header, value }),
  });
  guard.install(app);
  app.addHook('preParsing', (_request, { raw }, payload, next) => {
    connections.continue(raw);
    next(null, payload);
  });
  const endpoints = new Map<string, ModernEndpoint>();
  serveOwnMetadata(app, shared);
  const httpRoutes = routes.filter(isHttpRoute);
  installMetadata(app, routes);
  const others = otherPaths(httpRoutes, legacyClients);
  const passThroughOf = (scope: FastifyInstance, route: Route, callers: RouteCallers) => {
    if (!isHttpRoute(route)) return registerNoPassThrough(scope, route.config.path);
    const { config: server, upstream, circuit } = route.server.http;
    const { id } = route.config;
    const tellOfLegacyClient = once(() => shared.log.event('route.legacy_client', { route: id }));
    return registerPassThrough(scope, {
      upstream: server.url,
      path: route.config.path,
      others: route === httpRoutes[0] ? others : [],
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
      openResponses: shared.openResponses,
      onPassed: (isEndpoint) => {
        metrics.passed.inc({ route: id });
        if (isEndpoint && upstream.knownKind !== 'modern') tellOfLegacyClient();
      },
      onFailure: ({ httpStatus: status, problem }) => {
        if (upstream.knownKind === 'modern') upstream.doubt();
        shared.log.event('passthrough.failed', { route: route.config.id, status, problem });
      },
      ...sessionsOf(route, httpRoutes, shared),
    });
  };
  for (const route of routes) {
    const callers = callersOf(route, shared);
    await app.register(async (scope) => {
      const passThrough = await passThroughOf(scope, route, callers);
      // A scope of its own, since the edge reads bodies and the pass-through streams them.
      await scope.register(async (edge) => {
        const served = edgeRoute(route, callers, shared, limitedBy(route, shared, passThrough));
        const options = edgeOptions(route, shared, metrics, connections);
        const endpoint = new ModernEndpoint(served, options);
        endpoint.install(edge);
        endpoints.set(route.config.path, endpoint);
        for (const [path, dialect] of dialectEndpoints(route, served, options, shared)) {
          installDialect(edge, path, dialect);
          endpoints.set(path, dialect);
        }
      });
    });
  }
  const formerPaths = new Map<Route, string[]>();
  for (const route of former.toReversed()) {
    const served = edgeRoute(route, callersOf(route, shared), shared, NO_PASS_THROUGH);
    const options = edgeOptions(route, shared, metrics, connections);
    const own = new ModernEndpoint(served, { ...options, read: retriesOf(options.read) });
    const dialects = dialectEndpoints(route, served, options, shared, retriesOf);
    const free = [[route.config.path, own] as const, ...dialects].filter(
      ([path]) => !endpoints.has(path),
    );
    for (const [path, endpoint] of free) endpoints.set(path, endpoint);
    formerPaths.set(
      route,
      free.map(([path]) => path),
    );
  }
  await app.ready();
  let open = 0;
  let isRetired = false;
  const closeIfOver = () => {
    if (isRetired && open === 0) void app.close();
  };
  return {
    serve: (request, response) => {
      open += 1;
      response.setMaxListeners(MAX_LISTENERS);
      response.on('close', () => {
        if (response.writableFinished) metrics.responded(response.statusCode);
        logRefusal(shared, request, response);
        open -= 1;
        closeIfOver();
      });
      const endpoint = request.method === 'POST' ? endpoints.get(request.url ?? '') : undefined;
      if (endpoint === undefined) app.routing(request, response);
      else if (guard.passes(request, response, true)) {
        void endpoint.post(request, response, app.routing);
      }
    },
    forget: (route) => {
      for (const path of formerPaths.get(route) ?? []) endpoints.delete(path);
      formerPaths.delete(route);
    },
    retire: () => {
      isRetired = true;
      closeIfOver();
    },
  };
}

/** Logs a request to which the gateway itself responded with an error. The query is left out: it can have a token in it. */
function logRefusal(
  { log, identity }: PublicServices,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const problem = refusalReason(response);
  if (problem === undefined) return;
  const { method = '', url = '' } = request;
  const client = identity.addressOf(request);
  log.event('edge.rejected', {
    method,
    path: url.split('?', 1)[0] ?? '',
    status: response.statusCode,
    problem,
    ...(client !== undefined && { client }),
  });
}

/** Reads only what goes on with what a route has begun: its calls, and its tasks. */
function retriesOf(read: EdgeOptions['read']): EdgeOptions['read'] {
  return (request, body, caller) => {
    const found = read(request, body, caller);
    if (found.type === 'refused') return found;
    if (found.type === 'request') {
      const { requestState, method } = found.request;
      if (requestState !== null || (isMethod(method) && serviceOf(method) === 'task')) return found;
    }
    const error = { code: ErrorCode.invalidRequest, message: 'Not found' };
    const id = found.type === 'request' ? found.request.id : null;
    return { type: 'refused', refusal: { httpStatus: 404, id, error } };
  };
}

const NO_PASS_THROUGH: PassThrough = {
  forward: async (_request, reply) => refuse(reply.hijack().raw, 404, 'Not found'),
};

/** Serves the metadata of protected resources. That of the origin is served if it is clear whose it is. */
function installMetadata(app: FastifyInstance, routes: readonly Route[]): void {
  const resources = routes.flatMap(({ resource }) => resource ?? []);
  const served = new Set<string>();
  for (const resource of resources) {
    const paths = [...resource.paths, ...(resources.length === 1 ? [ROOT_METADATA_PATH] : [])];
    const free = [...new Set(paths)].filter((path) => !served.has(path));
    for (const path of free) served.add(path);
    resource.install(app, free);
  }
}

/** Limits what is passed through to the endpoint of a server over HTTP. */
function limitedBy(route: Route, shared: PublicServices, passThrough: PassThrough): PassThrough {
  if (!isHttpRoute(route)) return passThrough;
  return {
    forward: async (request, reply, onServerRefused) => {
      const caller = () => knownCaller(request, route, shared);
      if (await passesLimits(route, request, reply, caller)) {
        await passThrough.forward(request, reply, onServerRefused);
      }
    },
  };
}
