/** Wires everything from a configuration; the only file that knows all rooms. */
import { randomBytes } from 'node:crypto';
import fastify, { type FastifyInstance } from 'fastify';
import { Bridge } from './bridge/bridge.ts';
import type { Call } from './bridge/call.ts';
import type { EdgeRequest } from './bridge/leg.ts';
import type { CallLimits } from './bridge/call-state.ts';
import { Discovery } from './bridge/discovery.ts';
import { Forwarder } from './bridge/forward.ts';
import { Lists } from './bridge/lists.ts';
import { isRepeatable, ToolCatalogue } from './bridge/tool-catalogue.ts';
import { sleep, systemClock, type Clock } from './clock.ts';
import type { Config, ReplayConfig, RouteConfig } from './config/config.ts';
import { drainCalls } from './drain.ts';
import { ClientErrors } from './edge/client-error.ts';
import { CLIENT_TIMEOUTS, cutWhenStalled, type ClientTimeouts } from './edge/client-timeouts.ts';
import { serveRoute, type EdgeRoute } from './edge/edge.ts';
import { continueAfterChecks } from './edge/expect-continue.ts';
import { parameterHeaderProblem } from './edge/parameter-headers.ts';
import { guard } from './edge/guard.ts';
import { joinFleet, type Replica, type RelayedRetry } from './fleet.ts';
import { isAllowedHost, isLoopbackHost } from './edge/origin.ts';
import { callerOf } from './identity/identity.ts';
import { listen } from './listen.ts';
import { MemoryLot } from './lot/memory-lot.ts';
import { OpenAnswers } from './open-answers.ts';
import { createAdmin, type Readiness } from './ops/admin.ts';
import { countedLog } from './ops/counted-log.ts';
import type { Log } from './ops/log.ts';
import { Metrics } from './ops/metrics.ts';
import { registerPassThrough, type PassThrough } from './passthrough/passthrough.ts';
import { annotatedParameters } from './protocol/header-annotations.ts';
import { callId } from './protocol/ids.ts';
import { objectMember } from './protocol/json.ts';
import { MODERN_REVISION } from './protocol/revisions.ts';
import { generateKey } from './seal/generate-key.ts';
import { createKeyRing } from './seal/key-ring.ts';
import { createSealer, type Sealer } from './seal/seal.ts';
import { ListenerQuota } from './subscriptions/listener-quota.ts';
import { Subscriptions } from './subscriptions/subscriptions.ts';
import { Availability } from './upstream/availability.ts';
import { SessionPool } from './upstream/session-pool.ts';
import { Upstream } from './upstream/upstream.ts';
import { VERSION } from './version.ts';

export interface Gateway {
  /** Where modern clients call, with the path of the first route. */
  readonly url: string;
  readonly adminUrl: string | null;
  /** Stops in phases: unready, no new calls, calls in flight finished or ended, everything closed. */
  drain(): Promise<void>;
  /** Stops at once. */
  close(): Promise<void>;
}

export interface GatewayOptions {
  readonly log: Log;
  readonly clock?: Clock;
  /** What differs from the ordinary patience with clients. */
  readonly timeouts?: Partial<ClientTimeouts>;
}

/** What all routes share. */
interface Shared {
  readonly config: Config;
  readonly clock: Clock;
  readonly log: Log;
  readonly lot: MemoryLot<Call>;
  readonly sealer: Sealer;
  readonly replica: Replica;
  readonly openAnswers: OpenAnswers;
  readonly listenerQuota: ListenerQuota;
}

/** One route with everything that serves it. */
interface Route {
  readonly config: RouteConfig;
  readonly upstream: Upstream;
  readonly pool: SessionPool;
  readonly bridge: Bridge;
  readonly lists: Lists;
  readonly catalogue: ToolCatalogue;
  readonly discovery: Discovery;
  readonly subscriptions: Subscriptions;
  readonly availability: Availability;
}

/** An upstream that has not answered by then is waited for in the background. */
const START_WAIT_MS = 5_000;
const ERA_WAIT_MS = 3_000;
const CATALOGUE_TTL_MS = 60_000;
/** Of how many callers what they are shown is remembered. */
const MAX_KNOWN_CALLERS = 1_000;
const DISCOVER_TTL_MS = 60_000;
const DISCOVER_FIRST_WAIT_MS = 3_000;
const GATHER_WINDOW_MS = 30;
const GATHER_LIMIT_MS = 150;
const CANCEL_GRACE_MS = 2_000;
const MAX_INPUT_REQUESTS_PER_ROUND = 16;
const MAX_REQUEST_STATE_BYTES = 32 * 1024;
const MAX_BUFFERED_BYTES = 8 * 1024 * 1024;
const MAX_LISTENERS = 1_000;
const MAX_LISTENERS_PER_PRINCIPAL = 100;
const MAX_RESOURCES_PER_LISTENER = 100;
const MAX_LISTENER_BUFFERED_BYTES = 256 * 1024;
const MAX_LIST_PAGES = 50;
const MAX_LIST_ITEMS = 5_000;

/**
 * Starts a gateway; resolves when it listens.
 * @throws StartFailure when it cannot listen, or when an upstream answers and will not do
 */
export async function startGateway(config: Config, options: GatewayOptions): Promise<Gateway> {
  const clock = options.clock ?? systemClock;
  const routes: Route[] = [];
  let replica: Replica | null = null;
  const metrics = new Metrics({
    parked: () => gauge(routes, (route) => route.bridge.parked),
    sessions: () => gauge(routes, (route) => route.pool.size),
    redisUp: () => replica?.directory?.up ?? null,
  });
  const log = countedLog(options.log, metrics);
  const retry: RelayedRetry = async (id, request, leg) => {
    const route = routes.find(({ config: { id: own } }) => own === id);
    return route === undefined ? null : route.bridge.relayed(request, leg);
  };
  const openAnswers = new OpenAnswers();
  replica = await joinFleet(config, retry, { openAnswers, clock, log });
  const shared: Shared = {
    config,
    clock,
    log,
    replica,
    openAnswers,
    listenerQuota: new ListenerQuota({
      maxListeners: MAX_LISTENERS,
      maxListenersPerPrincipal: MAX_LISTENERS_PER_PRINCIPAL,
    }),
    lot: new MemoryLot<Call>({
      maxParked: config.limits.maxParkedCalls,
      maxParkedPerPrincipal: config.limits.maxParkedCallsPerPrincipal,
    }),
    sealer: await sealerOf(config, clock, log),
  };
  routes.push(...config.routes.map((route) => createRoute(route, shared)));

  let draining = false;
  const readiness = (): Readiness => ({
    ready: !draining && routes.every((route) => route.availability.ready),
    routes: Object.fromEntries(routes.map((route) => [route.config.id, route.availability.status])),
  });
  const app = await createApp(routes, shared, metrics, { ...CLIENT_TIMEOUTS, ...options.timeouts });
  const admin =
    config.admin === null ? null : createAdmin(metrics, readiness, knownHosts(config.admin));

  const close = async () => {
    for (const { availability } of routes) availability.close();
    await Promise.all([app.close(), admin?.close()]);
    await shared.replica.close();
    await Promise.all(routes.map(({ pool }) => pool.close()));
    await Promise.all(routes.map(({ upstream }) => upstream.close()));
  };
  try {
    await Promise.all(routes.map(({ availability }) => availability.start(START_WAIT_MS)));
    const origin = await listen(app, config.listen, '--listen HOST:PORT');
    const adminUrl =
      admin === null || config.admin === null
        ? null
        : await listen(admin, config.admin, '--admin HOST:PORT');
    const url = `${origin}${config.routes[0]?.path ?? ''}`;
    const upstreams = config.routes
      .map(({ upstream: { url } }) => `${url.origin}${url.pathname}`)
      .join(', ');
    log.event('gateway.listening', { url, admin: adminUrl, upstreams });
    const drain = async () => {
      if (draining) return;
      draining = true;
      await drainCalls({
        bridges: routes.map(({ bridge }) => bridge),
        subscriptions: routes.map(({ subscriptions }) => subscriptions),
        openAnswers,
        drain: config.drain,
        graceMs: CANCEL_GRACE_MS,
        clock,
        log,
      });
      await close();
    };
    return { url, adminUrl, drain, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function sealerOf(config: Config, clock: Clock, log: Log): Promise<Sealer> {
  const configured = config.seal.keys.map(({ kid, key }) => ({
    kid,
    secret: Buffer.from(key, 'base64url'),
  }));
  if (configured.length === 0) log.event('gateway.key_ephemeral', {});
  const ring = await createKeyRing(configured.length > 0 ? configured : [generateKey()], 'seal');
  const { audience } = config.seal;
  return createSealer({ ring, audience, clock, maxTokenBytes: MAX_REQUEST_STATE_BYTES });
}

function createRoute(config: RouteConfig, shared: Shared): Route {
  const { clock, log } = shared;
  const route = config.id;
  const upstream = new Upstream(
    {
      ...config.upstream,
      gatewayInfo: { name: 'mrtr-gateway', version: VERSION },
      onChange: (method) => {
        lists.changed(method);
        catalogue.forget();
      },
    },
    clock,
  );
  const pool = new SessionPool(upstream, config.sessions, clock);
  const forwarder = new Forwarder({
    route,
    pool,
    log,
    maxPages: MAX_LIST_PAGES,
    maxItems: MAX_LIST_ITEMS,
    caching: { ttlMs: config.caching.listTtlMs, cacheScope: config.caching.scope },
    parameterHeaders: config.tools.parameterHeaders,
  });
  const lists = new Lists({
    forward: (request, closed) => forwarder.forward(request, closed),
    keepMs: config.caching.serveLists ? config.caching.listTtlMs : 0,
    maxKept: MAX_KNOWN_CALLERS,
    clock,
  });
  const catalogue = new ToolCatalogue({
    list: (request, closed) => lists.list(request, closed),
    ttlMs: CATALOGUE_TTL_MS,
    maxCallers: MAX_KNOWN_CALLERS,
    clock,
  });
  const bridge = new Bridge({
    route,
    pool,
    lot: shared.lot,
    sealer: shared.sealer,
    replica: shared.replica.owner,
    relay: shared.replica.relayOf(route),
    directory: shared.replica.directory,
    fleet: shared.config.seal.audience,
    limits: limitsOf(config),
    maxRunning: shared.config.limits.maxRunningCalls,
    clock,
    log,
    randomCallId: () => callId(randomId()),
    ...config.questions,
    caching: { ttlMs: config.caching.resourceTtlMs, cacheScope: config.caching.scope },
    mayReplay: (request) => mayReplay(request, config.continuation.replay, catalogue),
    leaveWhenParked: config.parking.release === 'when-resumable',
    reattach: config.continuation.reattach,
  });
  return {
    config,
    upstream,
    pool,
    bridge,
    lists,
    catalogue,
    discovery: new Discovery({
      pool,
      clock,
      supportedVersions: () => supportedVersions(shared.config, upstream),
      ttlMs: DISCOVER_TTL_MS,
      firstWaitMs: DISCOVER_FIRST_WAIT_MS,
      maxCallers: MAX_KNOWN_CALLERS,
    }),
    subscriptions: new Subscriptions({
      route,
      pool,
      quota: shared.listenerQuota,
      maxResourcesPerListener: MAX_RESOURCES_PER_LISTENER,
      clock,
      log,
    }),
    availability: new Availability({ route, url: config.upstream.url, upstream, clock, log }),
  };
}

async function mayReplay(
  request: EdgeRequest,
  { tools, annotated }: ReplayConfig,
  catalogue: ToolCatalogue,
): Promise<boolean> {
  if (request.method !== 'tools/call') return false;
  if (tools.includes(String(request.params['name']))) return true;
  return annotated && isRepeatable(await catalogue.toolOf(request));
}

/** What is wrong with the headers that repeat a tool's parameters, where they are looked at. */
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

/** The names under which the operator's listener may be asked. */
function knownHosts({ host }: { readonly host: string }): (asked: string) => boolean {
  const policy = { allowedOrigins: [], allowLoopback: isLoopbackHost(host) };
  return (asked) => isAllowedHost(asked, policy);
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

/** Ours, and the one that legacy clients get who are passed through (versioning, dual-era servers). */
function supportedVersions(config: Config, upstream: Upstream): string[] {
  const { revision } = upstream;
  const passed = config.edge.legacyClients === 'pass-through' && revision !== null;
  return passed ? [MODERN_REVISION, revision] : [MODERN_REVISION];
}

async function createApp(
  routes: readonly Route[],
  shared: Shared,
  metrics: Metrics,
  timeouts: ClientTimeouts,
): Promise<FastifyInstance> {
  const { config } = shared;
  const clientErrors = new ClientErrors();
  const app = fastify({
    logger: false,
    bodyLimit: config.limits.maxBodyBytes,
    // The framework turns Node's own limits off; without them a slow client holds a socket for ever.
    requestTimeout: timeouts.requestMs,
    keepAliveTimeout: timeouts.idleMs,
    http: {
      headersTimeout: timeouts.headMs,
      // The guard asks for it, and answers in our own form.
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
    allowLoopback: isLoopbackHost(config.listen.host),
  };
  const { legacyClients } = config.edge;
  guard(app, {
    policy,
    legacyClients,
    paths: routes.map((route) => route.config.path),
    maxBodyBytes: config.limits.maxBodyBytes,
  });
  continueAfterChecks(app);
  // With several upstreams nobody could say whose a path beside the routes is.
  const origins = new Set(routes.map((route) => route.config.upstream.url.origin));
  for (const [index, route] of routes.entries()) {
    await app.register(async (scope) => {
      const passThrough = await registerPassThrough(scope, {
        upstream: route.config.upstream.url,
        path: route.config.path,
        others: index === 0 && origins.size === 1 && legacyClients === 'pass-through',
        headers: route.config.upstream.headers,
        authorization: route.config.upstream.authorization,
        connectTimeoutMs: route.config.upstream.connectTimeoutMs,
        headersTimeoutMs: route.config.upstream.headersTimeoutMs,
        maxBodyBytes: config.limits.maxBodyBytes,
      });
      // A scope within, since the edge reads bodies and the pass-through streams them.
      await scope.register(async (edge) => {
        serveMcp(edge, route, shared, metrics, policy, passThrough);
      });
    });
  }
  return app;
}

function serveMcp(
  scope: FastifyInstance,
  route: Route,
  shared: Shared,
  metrics: Metrics,
  origins: { readonly allowedOrigins: readonly string[]; readonly allowLoopback: boolean },
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
    call: (request, leg) => route.bridge.call(request, leg),
    listen: (request, id, leg) => route.subscriptions.listen(request, id, leg),
    passThrough: (request, reply) => passThrough.forward(request, reply),
  };
  serveRoute(scope, edge, {
    policy: {
      ...origins,
      legacyClients: config.edge.legacyClients,
      supportedVersions: () => supportedVersions(config, route.upstream),
      maxJsonDepth: config.limits.maxJsonDepth,
    },
    commitAfterMs: config.edge.commitAfterMs,
    keepAliveMs: config.edge.keepAliveMs,
    maxBufferedBytes: MAX_BUFFERED_BYTES,
    maxListenerBufferedBytes: MAX_LISTENER_BUFFERED_BYTES,
    openAnswers: shared.openAnswers,
    clock,
    log,
    observe: (name, method, { status, code }, ms) => {
      metrics.operation(name, method, code, ms);
      log.event('edge.request', { route: name, method, status, code, ms });
    },
  });
}

function gauge(routes: readonly Route[], value: (route: Route) => number): Map<string, number> {
  return new Map(routes.map((route) => [route.config.id, value(route)]));
}

function randomId(): string {
  return randomBytes(16).toString('base64url');
}
