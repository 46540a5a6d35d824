/**
 * The application behind the public listener, for one configuration: the guard, and the modern endpoints and the pass-through
 * of each route. A reload creates another one. The listener and its connections stay (`public-listener.ts`).
 */
import type { FastifyInstance } from 'fastify';
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { inBackground } from '../lib/background.ts';
import { isLoopbackHost, pathOf } from '../lib/http.ts';
import { createStreamingApp } from './passthrough/streaming-app.ts';
import { publicPaths } from '../config/schema.ts';
import { Guard } from '../edge/http/guard.ts';
import { refusalReason, NO_SUCH_PATH } from '../edge/response-writer.ts';
import { ROOT_METADATA_PATH } from '../protocol/protected-resource.ts';
import { isHttpRoute, type Route } from '../routes/route.ts';
import type { PublicServices } from '../routes/shared-services.ts';
import { serveOwnMetadata } from './own-metadata.ts';
import { createLegacyFace, registerLegacyFace } from './legacy-face.ts';
import type { LegacySessions } from './legacy/sessions.ts';
import { routePassThrough, NO_PASS_THROUGH } from './route-pass-through.ts';
import { wrongPaths } from './wrong-paths.ts';
import { ModernEndpoint } from '../edge/edge.ts';
import type { EdgeOptions, PassThrough } from '../edge/options.ts';
import { isMethod, serviceOf } from '../edge/request/methods.ts';
import { ErrorCode } from '../protocol/json-rpc.ts';
import { dialectEndpoints, refuseOtherMethods } from './dialect-endpoints.ts';
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
 * @param sessions of legacy clients, which a reload keeps
 * @param former routes that are served no more, but for retries of their calls. The last one of a path counts
 */
export async function createPublicApp(
  routes: readonly Route[],
  former: readonly Route[],
  shared: PublicServices,
  sessions: LegacySessions,
): Promise<PublicApp> {
  const { connections, metrics } = shared;
  const app = createStreamingApp({ bodyLimit: shared.config.limits.maxBodyBytes });
  const guard = createGuard(routes, shared);
  guard.install(app);
  app.addHook('preParsing', (_request, { raw }, payload, next) => {
    connections.continue(raw);
    next(null, payload);
  });
  serveOwnMetadata(app, shared);
  installMetadata(app, routes);
  const endpoints = new RouteEndpoints(shared);
  const httpRoutes = routes.filter(isHttpRoute);
  for (const route of routes) {
    const face = createLegacyFace(route, sessions, shared);
    const passThrough = isHttpRoute(route)
      ? routePassThrough(app, route, httpRoutes, face, shared)
      : registerLegacyFace(app, route, face, shared);
    endpoints.install(app, route, passThrough);
  }
  for (const route of former.toReversed()) endpoints.addFormer(route);
  await app.ready();
  let open = 0;
  let isRetired = false;
  const closeIfOver = () => {
    if (isRetired && open === 0) inBackground(app.close());
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
      const endpoint = request.method === 'POST' ? endpoints.find(request.url ?? '') : undefined;
      if (endpoint === undefined) app.routing(request, response);
      else if (guard.passes(request, response, true)) {
        endpoint.post(request, response);
      }
    },
    forget: (route) => endpoints.forget(route),
    retire: () => {
      isRetired = true;
      closeIfOver();
    },
  };
}

/** Creates what checks HTTP, `Host` and `Origin` of every request. */
function createGuard(routes: readonly Route[], shared: PublicServices): Guard {
  const { config, log } = shared;
  const paths = routes.flatMap((route) => publicPaths(route.config));
  return new Guard({
    policy: {
      allowedOrigins: config.edge.allowedOrigins,
      allowedHosts: config.edge.allowedHosts,
      onLoopback: isLoopbackHost(config.listen.host),
    },
    legacyClients: config.edge.legacyClients,
    paths,
    maxBodyBytes: config.limits.maxBodyBytes,
    identityHeader:
      config.identity.source === 'header' ? config.identity.header.toLowerCase() : null,
    requestHeaders: [
      ...config.identity.credentialHeaders,
      ...routes.flatMap((route) => route.config.upstream.forwardHeaders),
    ],
    refused: (header, value) => log.event('edge.host_refused', { header, value }),
    strayed: wrongPaths(routes, shared),
  });
}

/** Logs a request to which the gateway itself responded with an error. */
function logRefusal(
  { log, identity }: PublicServices,
  request: IncomingMessage,
  response: ServerResponse,
): void {
  const problem = refusalReason(response);
  if (problem === undefined) return;
  const { method = '', url } = request;
  const client = identity.addressOf(request);
  log.event('edge.invalid_request', {
    method,
    path: pathOf(url),
    status: response.statusCode,
    problem,
    ...(client !== undefined && { client }),
  });
}

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

type Endpoint = readonly [path: string, endpoint: ModernEndpoint];

/** The modern endpoints by their paths: those of the routes of one configuration, and of former routes. */
class RouteEndpoints {
  readonly #shared: PublicServices;
  readonly #byPath = new Map<string, ModernEndpoint>();
  /** The paths of each former route that no other route has. */
  readonly #formerPaths = new Map<Route, readonly string[]>();

  constructor(shared: PublicServices) {
    this.#shared = shared;
  }

  /** @param path as a client wrote it */
  find(path: string): ModernEndpoint | undefined {
    return this.#byPath.get(path);
  }

  /**
   * Installs the endpoints of a route: its own, and those of its dialects. The framework is asked for paths that are spelled
   * otherwise, which only its router recognizes.
   */
  install(app: FastifyInstance, route: Route, passThrough: PassThrough): void {
    const [own, ...dialects] = this.#endpointsOf(route, passThrough);
    for (const [path] of dialects) refuseOtherMethods(app, path);
    for (const [path, endpoint] of [own, ...dialects]) {
      app.post(path, ({ raw }, reply) => endpoint.post(raw, reply.hijack().raw));
      this.#byPath.set(path, endpoint);
    }
  }

  /** Adds the endpoints of a former route for retries, on those of its paths that are free. */
  addFormer(route: Route): void {
    const all = this.#endpointsOf(route, NO_PASS_THROUGH, retriesOf);
    const free = all.filter(([path]) => !this.#byPath.has(path));
    for (const [path, endpoint] of free) this.#byPath.set(path, endpoint);
    this.#formerPaths.set(
      route,
      free.map(([path]) => path),
    );
  }

  /** @param only narrows what is read */
  #endpointsOf(
    route: Route,
    passThrough: PassThrough,
    only = (read: EdgeOptions['read']) => read,
  ): [own: Endpoint, ...dialects: Endpoint[]] {
    const served = edgeRoute(route, this.#shared, passThrough);
    const options = edgeOptions(route, this.#shared);
    const own = new ModernEndpoint(served, { ...options, read: only(options.read) });
    const dialects = dialectEndpoints(route, served, options, this.#shared, only);
    return [[route.config.path, own], ...dialects];
  }

  /** Removes the endpoints of a former route. */
  forget(former: Route): void {
    for (const path of this.#formerPaths.get(former) ?? []) this.#byPath.delete(path);
    this.#formerPaths.delete(former);
  }
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
    const error = { code: ErrorCode.invalidRequest, message: NO_SUCH_PATH };
    const id = found.type === 'request' ? found.request.id : null;
    return { type: 'refused', refusal: { httpStatus: 404, id, error, mayHaveActed: 'no' } };
  };
}
