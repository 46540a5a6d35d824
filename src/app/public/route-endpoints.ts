/** The modern endpoints by their paths: those of the routes of one configuration, and of former routes. */
import type { FastifyInstance } from 'fastify';
import { ModernEndpoint } from '../../edge/edge.ts';
import type { ClientConnections } from '../../edge/http/connection.ts';
import type { EdgeOptions } from '../../edge/options.ts';
import { isMethod, serviceOf } from '../../edge/request/methods.ts';
import { NO_SUCH_PATH } from '../../edge/response-writer.ts';
import type { Metrics } from '../../ops/metrics.ts';
import type { PassThrough } from '../../passthrough/passthrough.ts';
import { ErrorCode } from '../../protocol/json-rpc.ts';
import type { Route } from '../routes/route.ts';
import type { PublicServices } from '../shared-services.ts';
import { callersOf, type RouteCallers } from './callers.ts';
import { dialectEndpoints, installDialect } from './dialect-endpoints.ts';
import { edgeOptions, edgeRoute } from './edge-route.ts';
import { NO_PASS_THROUGH } from './route-pass-through.ts';

export class RouteEndpoints {
  readonly #shared: PublicServices;
  readonly #metrics: Metrics;
  readonly #connections: ClientConnections;
  readonly #byPath = new Map<string, ModernEndpoint>();
  /** The paths of each former route that no other route has. */
  readonly #formerPaths = new Map<Route, readonly string[]>();

  constructor(shared: PublicServices, metrics: Metrics, connections: ClientConnections) {
    this.#shared = shared;
    this.#metrics = metrics;
    this.#connections = connections;
  }

  /** @param path as a client wrote it */
  find(path: string): ModernEndpoint | undefined {
    return this.#byPath.get(path);
  }

  /** Installs the endpoints of a route: its own, and those of its dialects. @param scope a scope of their own */
  install(
    scope: FastifyInstance,
    route: Route,
    callers: RouteCallers,
    passThrough: PassThrough,
  ): void {
    const served = edgeRoute(route, callers, this.#shared, passThrough);
    const options = this.#optionsOf(route);
    const endpoint = new ModernEndpoint(served, options);
    endpoint.install(scope);
    this.#byPath.set(route.config.path, endpoint);
    for (const [path, dialect] of dialectEndpoints(route, served, options, this.#shared)) {
      installDialect(scope, path, dialect);
      this.#byPath.set(path, dialect);
    }
  }

  /** Adds the endpoints of a former route for retries, on those of its paths that are free. */
  addFormer(route: Route): void {
    const callers = callersOf(route, this.#shared);
    const served = edgeRoute(route, callers, this.#shared, NO_PASS_THROUGH);
    const options = this.#optionsOf(route);
    const own = new ModernEndpoint(served, { ...options, read: retriesOf(options.read) });
    const dialects = dialectEndpoints(route, served, options, this.#shared, retriesOf);
    const free = [[route.config.path, own] as const, ...dialects].filter(
      ([path]) => !this.#byPath.has(path),
    );
    for (const [path, endpoint] of free) this.#byPath.set(path, endpoint);
    this.#formerPaths.set(
      route,
      free.map(([path]) => path),
    );
  }

  /** Removes the endpoints of a former route. */
  forget(former: Route): void {
    for (const path of this.#formerPaths.get(former) ?? []) this.#byPath.delete(path);
    this.#formerPaths.delete(former);
  }

  #optionsOf(route: Route): EdgeOptions {
    return edgeOptions(route, this.#shared, this.#metrics, this.#connections);
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
    return { type: 'refused', refusal: { httpStatus: 404, id, error } };
  };
}
