/** One route: its upstream, its calls, and what is known of its server. */
import { isDeepStrictEqual } from 'node:util';
import type { Closed } from '../../lib/closing.ts';
import { Calls, type CallsOptions } from '../../calls/calls.ts';
import type { CallLimits } from '../../calls/machine/states.ts';
import { Discovery } from '../../catalogue/discovery.ts';
import { RequestForwarder } from '../../catalogue/request-forwarder.ts';
import { forwardHome } from '../../catalogue/forward-home.ts';
import type { LimitName } from '../../model/limited.ts';
import type { CallReply, EdgeRequest } from '../../model/request.ts';
import { ListCache } from '../../catalogue/list-cache.ts';
import { TaskTools, isRepeatable, ToolCatalogue } from '../../catalogue/tools.ts';
import type { Config, RouteConfig } from '../../config/schema.ts';
import { callId } from '../../protocol/ids.ts';
import { isJsonObject, type JsonValue } from '../../protocol/json.ts';
import { MODERN_REVISION } from '../../protocol/meta.ts';
import { randomId } from '../../lib/crypto.ts';
import { onlyServerTasks, promotionOf, promotesAny } from '../../tasks/promotion.ts';
import { createTasks, taskPlacesOf } from '../replica/task-places.ts';
import { followedTasks } from '../../tasks/methods.ts';
import type { Tasks } from '../../tasks/tasks.ts';
import { Subscriptions } from '../../subscriptions/subscriptions.ts';
import { Admission } from '../../limits/admission.ts';
import { limitLog } from '../../limits/limit-log.ts';
import { PublicResource } from '../public/public-resource.ts';
import { TokenExchange } from '../../identity/token-exchange.ts';
import type { LegacyServer } from '../../upstream/legacy-server.ts';
import type { SharedServices } from '../shared-services.ts';
import { createRouteServer, maxSessions, type RouteServer } from './route-server.ts';
import type { HttpServer } from './legacy-server.ts';
import type { Attributes } from '../../ops/tracing.ts';
import { observeRelay } from '../replica/observed-relay.ts';

/** One route with everything that serves it. */
export interface Route {
  readonly config: RouteConfig;
  readonly server: RouteServer;
  readonly calls: Calls;
  /** `null` if no tasks are offered. */
  readonly tasks: Tasks | null;
  /** Serves a request that asks nothing in this process. Never rejects. */
  readonly forward: (request: EdgeRequest, closed: Closed) => Promise<CallReply>;
  readonly lists: ListCache;
  readonly catalogue: ToolCatalogue;
  readonly discovery: Discovery;
  readonly subscriptions: Subscriptions;
  /** Decides which requests are served. */
  readonly admission: Admission;
  /** `null` if tokens of callers are not exchanged. */
  readonly tokenExchange: TokenExchange | null;
  /** `null` without `publicUrl`. */
  readonly resource: PublicResource | null;
  /** Takes new calls from here on. */
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

const CATALOGUE_TTL_MS = 60_000;
/** The number of callers whose lists and discovery results are cached. */
const MAX_CACHED_CALLERS = 1_000;
const DISCOVER_TTL_MS = 60_000;
const DISCOVER_FIRST_WAIT_MS = 3_000;
/** What a server asks in one turn comes in one read, or right after it. */
const GATHER_WINDOW_MS = 1;
const GATHER_LIMIT_MS = 150;
/** How long a cancellation can take to reach the server. */
export const CANCEL_GRACE_MS = 2_000;
const MAX_INPUT_REQUESTS_PER_ROUND = 16;
const MAX_RESOURCES_PER_LISTENER = 100;
const MAX_LIST_PAGES = 50;
const MAX_LIST_ITEMS = 5_000;

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
  const route = config.id;
  const kept = earlier !== null && keepsServer(earlier, config) ? earlier : null;
  const server = kept?.server ?? createRouteServer(config, shared);
  const { upstream, http, pool } = server;
  const relay = observeRelay(route, shared.replica.relayOf(route), clock, log);
  const peer = peerOf(config);
  const forwarder = new RequestForwarder({
    route,
    pool,
    peer,
    clock,
    log,
    maxPages: MAX_LIST_PAGES,
    maxItems: MAX_LIST_ITEMS,
    caching: { ttlMs: config.caching.listTtlMs, cacheScope: config.caching.scope },
    parameterHeaders: config.tools.parameterHeaders,
    onTools: (request, tools) => {
      taskTools.learn(request, tools);
      shared.learnTools(route, namesOf(tools));
    },
  });
  const forward: Route['forward'] = (request, closed) => forwarder.forward(request, closed);
  const taskTools = new TaskTools({
    list: forward,
    ttlMs: CATALOGUE_TTL_MS,
    maxCallers: MAX_CACHED_CALLERS,
    clock,
  });
  const lists = new ListCache({
    forward: (request, closed) =>
      forwardHome({ route, pool, relay, log, forward }, request, closed),
    keepMs: config.caching.serveLists ? config.caching.listTtlMs : 0,
    maxKept: MAX_CACHED_CALLERS,
    clock,
  });
  const catalogue = new ToolCatalogue({
    list: (request, closed) => lists.list(request, closed),
    ttlMs: CATALOGUE_TTL_MS,
    maxCallers: MAX_CACHED_CALLERS,
    clock,
  });
  const changed = (method: string) => {
    lists.changed(method);
    catalogue.forget();
    taskTools.forget();
  };
  const places = promotesAny(config.tasks) ? taskPlacesOf(shared) : null;
  const offersTasks = places !== null;
  const promotion = (request: EdgeRequest) => {
    if (places === null) return null;
    const decided = promotionOf(request, config.tasks);
    return places.type === 'owners' ? onlyServerTasks(decided) : decided;
  };
  const options: CallsOptions = {
    routeId: route,
    pool,
    sealer: shared.sealer,
    replica: shared.replica.owner,
    relay,
    directory: shared.replica.directory,
    audience: shared.config.seal.audience,
    limits: limitsOf(config),
    longestCallMs: longestCallMs(config),
    capacity: shared.capacity,
    othersCanOpenPointers: shared.config.seal.keys.length > 0,
    peer,
    clock,
    log,
    randomCallId: () => callId(randomId()),
    questions: config.questions,
    caching: { ttlMs: config.caching.resourceTtlMs, cacheScope: config.caching.scope },
    mayServerIssueStates: () => upstream.mayIssueStates,
    mayReplay: (request) => mayReplay(request, config.continuation.replay, catalogue),
    promotion,
    demandsTask: (request) => taskTools.demandsTask(request),
    // A session that was let go of would still be the one that the server can have.
    leaveWhenParked: () => maxSessions(config) > 1 && releases(config.parking.release, upstream),
    reattach: config.continuation.reattach,
  };
  const calls = new Calls(options, earlier?.calls);
  // Tasks that there are go on, even if there will be no others.
  const taskPlaces = places ?? (earlier?.tasks ? taskPlacesOf(shared) : null);
  const taskServices = { ...shared, calls, relay, promotion };
  const tasks = taskPlaces && createTasks(config, taskPlaces, taskServices, earlier?.tasks);
  const keepsListeners = kept !== null && (kept.tasks === null) === (tasks === null);
  const logLimit = limitLog<LimitName>(clock, (limit, refused) =>
    log.event('request.limited', { route, limit, refused }),
  );
  return {
    config,
    server,
    calls,
    tasks,
    forward,
    lists,
    catalogue,
    discovery: new Discovery({
      pool,
      clock,
      offersTasks,
      supportedVersions: () => supportedVersions(shared.config, upstream),
      ttlMs: DISCOVER_TTL_MS,
      lastGreeting: async () => (http === null ? null : http.upstream.lastGreeting()),
      firstWaitMs: DISCOVER_FIRST_WAIT_MS,
      maxCallers: MAX_CACHED_CALLERS,
    }),
    subscriptions: keepsListeners
      ? kept.subscriptions
      : new Subscriptions({
          route,
          tasks: tasks && followedTasks(tasks),
          pool,
          quota: shared.listenerQuota,
          maxResourcesPerListener: MAX_RESOURCES_PER_LISTENER,
          clock,
          log,
        }),
    tokenExchange: tokenExchangeOf(config, shared),
    admission: new Admission({
      route,
      limits: config.limits,
      circuit: http?.circuit ?? null,
      overloadedBy: shared.overloadedBy,
      store: shared.rateStore,
      counts: shared.counts,
      onRefused: (limit) => {
        shared.limited(route, limit);
        logLimit(limit);
      },
    }),
    resource:
      config.publicUrl === null || http === null
        ? null
        : new PublicResource(config, http.config, config.publicUrl, clock, log),
    open: () => {
      server.listeners.add(changed);
      calls.resumeNewCalls();
    },
    retire: () => void server.listeners.delete(changed),
  };
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

function mayReplay(
  request: EdgeRequest,
  { tools, annotated }: RouteConfig['continuation']['replay'],
  catalogue: ToolCatalogue,
): boolean | Promise<boolean> {
  if (request.method !== 'tools/call') return false;
  if (tools.includes(String(request.params['name']))) return true;
  return annotated && catalogue.toolOf(request).then(isRepeatable);
}

/** Tells whether a parked call is left to its server now. */
function releases(
  release: RouteConfig['parking']['release'],
  { deliversResumed }: LegacyServer,
): boolean {
  return release === 'when-resumable' || (release === 'auto' && deliversResumed);
}

/** A call can be parked for as long as it may before it becomes a task, and lives a little longer than that. */
export function longestCallMs({ parking, tasks }: RouteConfig): number {
  const ofTasks = promotesAny(tasks) ? tasks.afterMs + tasks.ttlMs + 60_000 : 0;
  return parking.callTtlMs + ofTasks;
}

function limitsOf({ calls, parking }: RouteConfig): CallLimits {
  return {
    gatherWindowMs: GATHER_WINDOW_MS,
    gatherLimitMs: GATHER_LIMIT_MS,
    maxDurationMs: calls.maxDurationMs,
    maxHoldMs: calls.maxHoldMs,
    parkTtlMs: parking.ttlMs,
    callTtlMs: parking.callTtlMs,
    cancelGraceMs: CANCEL_GRACE_MS,
    redeliverMs: parking.redeliverMs,
    maxRounds: parking.maxRounds,
    maxInputRequestsPerRound: MAX_INPUT_REQUESTS_PER_ROUND,
  };
}

/** Returns what becomes of legacy clients. There is no HTTP behind a server over stdio to pass them through to. */
export function legacyClientsOf(
  { edge }: Config,
  { knownKind }: Pick<LegacyServer, 'knownKind'>,
): 'pass-through' | 'reject' {
  return knownKind === 'stdio' ? 'reject' : edge.legacyClients;
}

/** Returns the modern revision, and that of the server if legacy clients are passed through (versioning, dual-era servers). */
export function supportedVersions(config: Config, upstream: LegacyServer): string[] {
  const { revision } = upstream;
  const passed = legacyClientsOf(config, upstream) === 'pass-through' && revision !== null;
  return passed ? [MODERN_REVISION, revision] : [MODERN_REVISION];
}

function namesOf(tools: readonly JsonValue[]): string[] {
  return tools.flatMap((tool) =>
    isJsonObject(tool) && typeof tool['name'] === 'string' ? [tool['name']] : [],
  );
}

/** What spans say of the server of a route, by the conventions of OpenTelemetry. */
function peerOf({ upstream: { url, process } }: RouteConfig): Attributes {
  if (process !== null) return { 'network.transport': 'pipe' };
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
  return {
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    'server.address': url.hostname,
    'server.port': port,
  };
}
