/** The routes of a process: those that are configured, and former ones, whose calls go on until they end. */
import type { ServeRelayed, RelayedHandle } from '../model/relay.ts';
import type { EdgeRequest, Waiter } from '../model/request.ts';
import { isMethod, serviceOf } from '../edge/request/methods.ts';
import { sessionOwnerOf } from '../sessions/session-owner.ts';
import type { StopOrder } from '../ops/live/stop.ts';
import type { Route } from './route.ts';
import type { RouteServer } from './route-server.ts';

export class Routes {
  configured: readonly Route[] = [];
  /** The last one that was replaced or removed comes last. */
  readonly former = new Set<Route>();
  /** Serves what other processes of the gateway ask, and no client. Returns `null` for any other request. */
  serveOthers: (request: EdgeRequest, waiter: Waiter) => RelayedHandle | null = () => null;

  get all(): Route[] {
    return [...this.former, ...this.configured];
  }

  /** Returns one for each id, with all calls and tasks of the route: the configured one, or the last former one. */
  get latest(): readonly Route[] {
    return [...new Map(this.all.map((route) => [route.config.id, route])).values()];
  }

  get servers(): ReadonlySet<RouteServer> {
    return new Set(this.all.map(({ server }) => server));
  }

  find(id: string): Route | undefined {
    return this.latest.find(({ config }) => config.id === id);
  }

  /** Returns a value of the route of each id. */
  each<Value>(value: (route: Route) => Value, routes = this.latest): Map<string, Value> {
    return new Map(routes.map((route) => [route.config.id, value(route)]));
  }

  /** Sums a value over all routes of each id. */
  sum(values: (server: RouteServer) => number): Map<string, number> {
    const sums = new Map<string, number>();
    for (const [server, { config }] of new Map(this.all.map((route) => [route.server, route]))) {
      sums.set(config.id, (sums.get(config.id) ?? 0) + values(server));
    }
    return sums;
  }

  /** Cancels a call that waits for its client, for the operator. @returns false if it does not wait here */
  stop({ call, by }: StopOrder): boolean {
    return this.latest.some(({ calls }) => calls.stop(call, by));
  }

  /** Serves what another replica relays. */
  readonly serveRelayed: ServeRelayed = async (id, request, waiter) => {
    const ofOthers = this.serveOthers(request, waiter);
    if (ofOthers !== null) return ofOthers;
    const route = this.find(id);
    return route === undefined ? null : serveRelayedBy(route, request, waiter);
  };
}

/**
 * Serves what another replica relays: a retry or a call, a task request, or a request that asks nothing and whose
 * home is here.
 */
async function serveRelayedBy(
  { calls, tasks, server, catalogue }: Route,
  request: EdgeRequest,
  waiter: Waiter,
): Promise<RelayedHandle | null> {
  const { method } = request;
  if (isMethod(method) && serviceOf(method) !== 'forward') {
    return (tasks ?? calls).serveRelayed(request, waiter);
  }
  if (!(await server.pool.isHome(sessionOwnerOf(request)))) return null;
  return { begin: () => catalogue.forward(request, waiter.closed), sendClientBack: () => {} };
}
