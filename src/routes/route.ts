/** One route: its upstream, its calls, and what is known of its server. */
import { isDeepStrictEqual } from 'node:util';
import { Calls } from '../calls/calls.ts';
import { Discovery } from '../catalogue/discovery.ts';
import type { Config, RouteConfig } from '../config/schema.ts';
import { TokenExchange } from '../identity/token-exchange.ts';
import { Admission } from '../limits/admission.ts';
import { MODERN_REVISION } from '../protocol/meta.ts';
import { Subscriptions } from '../subscriptions/subscriptions.ts';
import { followedTasks } from '../tasks/methods.ts';
import type { Tasks } from '../tasks/tasks.ts';
import type { LegacyServer } from '../upstream/legacy-server.ts';
import { PublicResource } from './public-resource.ts';
import { observeRelay } from './observed-relay.ts';
import { longestCallMs, promotesAny } from './settings.ts';
import { createTasks, taskPlacesOf } from './task-places.ts';
import type { SharedServices } from './shared-services.ts';
import { callsOptions, promotionBy } from './route-calls.ts';
import { createCatalogue, MAX_CACHED_CALLERS, type RouteCatalogue } from './route-catalogue.ts';
import { rightsOf, type RouteRights } from './route-rights.ts';
import { type HttpServer, createRouteServer, type RouteServer } from './route-server.ts';

/** One route with everything that serves it. */
export interface Route {
  readonly config: RouteConfig;
  /** How long a client can have a pointer to a call, in ms: to one that began with earlier settings, too. */
  readonly longestCallMs: number;
  readonly server: RouteServer;
  readonly calls: Calls;
  /** `null` if no tasks are offered. */
  readonly tasks: Tasks | null;
  readonly catalogue: RouteCatalogue;
  readonly discovery: Discovery;
  readonly subscriptions: Subscriptions;
  /** Decides which requests are served. */
  readonly admission: Admission;
  /** Decides which callers may use what; `null` if the route has no rules. */
  readonly rights: RouteRights | null;
  /** `null` if tokens of callers are not exchanged. */
  readonly tokenExchange: TokenExchange | null;
  /** `null` without `publicUrl`. */
  readonly resource: PublicResource | null;
  /** Takes new calls from here on, with its settings. */
  open(): void;
  /** Unsubscribes from its server. */
  retire(): void;
}

/** A route to a server over HTTP. */
export interface HttpRoute extends Route {
  readonly server: RouteServer & { readonly http: HttpServer };
}

export function isHttpRoute(route: Route): route is HttpRoute {
  return route.server.http !== null;
}

const DISCOVER_TTL_MS = 60_000;
/** With the time until the era is known at most, half a second: some clients wait no longer. */
export const DISCOVER_FIRST_WAIT_MS = 350;
const MAX_RESOURCES_PER_LISTENER = 100;

/**
 * Creates a route. Nothing is sent to its server yet.
 * @param earlier the route with other settings, whose calls and tasks go on
 */
export function createRoute(
  config: RouteConfig,
  shared: SharedServices,
  earlier: Route | null = null,
): Route {
  const { clock, log } = shared;
  const { id } = config;
  const kept = earlier !== null && keepsServer(earlier, config) ? earlier : null;
  const server = kept?.server ?? createRouteServer(config, shared);
  const relay = observeRelay(id, shared.replica.relayOf(id), clock, log);
  const catalogue = createCatalogue(config, server, relay, shared);
  const places = promotesAny(config.tasks) ? taskPlacesOf(shared) : null;
  const promotion = promotionBy(config, places);
  const options = callsOptions(config, server, catalogue, relay, promotion, shared);
  const calls = new Calls(options, earlier?.calls);
  // Tasks that there are go on, even if there will be no others.
  const taskPlaces = places ?? (earlier?.tasks ? taskPlacesOf(shared) : null);
  const taskServices = { ...shared, calls, relay, promotion };
  const tasks = taskPlaces && createTasks(config, taskPlaces, taskServices, earlier?.tasks);
  const keepsListeners = kept !== null && (kept.tasks === null) === (tasks === null);
  return {
    config,
    longestCallMs: Math.max(longestCallMs(config), earlier?.longestCallMs ?? 0),
    server,
    calls,
    tasks,
    catalogue,
    discovery: createDiscovery(server, config, places !== null, shared),
    subscriptions: keepsListeners
      ? kept.subscriptions
      : createSubscriptions(id, server, tasks, shared),
    tokenExchange: tokenExchangeOf(config, shared),
    admission: createAdmission(config, server, shared),
    rights: rightsOf(config, shared),
    resource: publicResourceOf(config, server, shared),
    open: () => {
      server.use(config);
      server.listeners.add(catalogue.changed);
      calls.resumeNewCalls();
    },
    retire: () => void server.listeners.delete(catalogue.changed),
  };
}

function publicResourceOf(
  { id: route, path, publicUrl }: RouteConfig,
  { http }: RouteServer,
  { clock, log }: SharedServices,
): PublicResource | null {
  if (publicUrl === null || http === null) return null;
  return new PublicResource({ route, path, server: http.config, publicUrl, clock, log });
}

function createDiscovery(
  { upstream, pool, ownGreeting }: RouteServer,
  { upstream: { extensions } }: RouteConfig,
  offersTasks: boolean,
  shared: SharedServices,
): Discovery {
  return new Discovery({
    pool,
    clock: shared.clock,
    offersTasks,
    extensions,
    supportedVersions: () => supportedVersions(shared.config, upstream),
    ttlMs: DISCOVER_TTL_MS,
    lastGreeting: () => upstream.lastGreeting(),
    ownGreeting: () => ownGreeting.latest,
    firstWaitMs: DISCOVER_FIRST_WAIT_MS,
    maxCallers: MAX_CACHED_CALLERS,
  });
}

function createSubscriptions(
  route: string,
  { pool }: RouteServer,
  tasks: Tasks | null,
  { listenerQuota, clock, log }: SharedServices,
): Subscriptions {
  return new Subscriptions({
    route,
    tasks: tasks && followedTasks(tasks),
    pool,
    quota: listenerQuota,
    maxResourcesPerListener: MAX_RESOURCES_PER_LISTENER,
    clock,
    log,
  });
}

function createAdmission(
  { id: route, limits }: RouteConfig,
  { http }: RouteServer,
  { overloadedBy, rateStore, counts, limited }: SharedServices,
): Admission {
  return new Admission({
    route,
    limits,
    circuit: http?.circuit ?? null,
    overloadedBy,
    store: rateStore,
    counts,
    onRefused: (limit) => limited(route, limit),
  });
}

function tokenExchangeOf(
  { id: route, upstream }: RouteConfig,
  { clock, log }: SharedServices,
): TokenExchange | null {
  if (upstream.process !== null || upstream.tokenExchange === null) return null;
  const onFailure = (problem: string) => log.event('identity.exchange_failed', { route, problem });
  return new TokenExchange({ config: upstream.tokenExchange, clock, onFailure });
}

/** Tells whether other settings of a route have the same server and the same sessions. */
function keepsServer({ config, server }: Route, { upstream, sessions }: RouteConfig): boolean {
  return (
    !server.pool.isRetired &&
    isDeepStrictEqual(config.upstream, upstream) &&
    isDeepStrictEqual(config.sessions, sessions)
  );
}

/** Returns the modern revision, and that of the server if legacy clients are passed through (versioning, dual-era servers). */
export function supportedVersions(config: Config, upstream: LegacyServer): string[] {
  const { revision } = upstream;
  const passed = config.edge.legacyClients === 'pass-through' && revision !== null;
  return passed ? [MODERN_REVISION, revision] : [MODERN_REVISION];
}
