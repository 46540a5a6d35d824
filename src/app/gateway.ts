/** A gateway, created from its configuration: started, drained, closed. */
import type { Server } from 'node:http';
import type { RelayedRetryHandle, ServeRelayedRetry } from '../model/relay.ts';
import type { EdgeRequest, Leg } from '../model/request.ts';
import { Capacity, type ParkingLimit } from '../calls/registry.ts';
import { sleep, systemClock, type Clock } from '../lib/clock.ts';
import { LocalCounts, type Counts } from '../lib/counts.ts';
import type { Config } from '../config/schema.ts';
import type { ListenAddress } from '../config/units.ts';
import { CLIENT_TIMEOUTS, type ClientTimeouts } from '../edge/http/connection.ts';
import { isMethod, serviceOf } from '../edge/request/methods.ts';
import { FleetClock } from '../replicas/directory/fleet-clock.ts';
import { Identity } from '../identity/identity.ts';
import { Quota } from '../lib/quota.ts';
import { OpenResponses } from '../lib/responses.ts';
import type { Readiness } from '../ops/admin.ts';
import type { Log } from '../ops/log.ts';
import { countedLog } from '../ops/counted-log.ts';
import { Metrics } from '../ops/metrics.ts';
import { openTracer } from '../ops/open-tracer.ts';
import { createKeyRing, generateKey, type SecretKey } from '../seal/key-ring.ts';
import { createSealer, type Sealer } from '../seal/seal.ts';
import { sessionOwnerOf } from '../sessions/owner.ts';
import { promotesAny } from '../tasks/promotion.ts';
import { AdminListener, listen } from './listen.ts';
import { EventLoopMonitor, eventLoopMeter } from '../limits/event-loop.ts';
import { LIMIT_NAMES } from '../model/limited.ts';
import { openRateStore, type OpenRateStore } from './admissions.ts';
import { drainCalls } from './drain.ts';
import { observeRelayed } from './observed-relay.ts';
import { joinReplicas, type Replica, type Siblings } from './replica.ts';
import { PendingRequests } from './pending-requests.ts';
import { createPublicApp } from './public-server.ts';
import { CANCEL_GRACE_MS, createRoute, type Route, type SharedServices } from './route.ts';
import { nameOfServer } from './server.ts';
import type { SharedCounts } from './workers/shared-counts.ts';

export interface Gateway {
  /** The URL for modern clients, with the path of the first route. */
  readonly url: string;
  readonly adminUrl: string | null;
  /** Resolves if the gateway gives up. It has drained by then. */
  readonly failure?: Promise<Error>;
  /** Stops in phases, see `drainCalls`, and closes everything. */
  drain(): Promise<void>;
  /** Stops at once. */
  close(): Promise<void>;
}

export interface GatewayOptions {
  readonly log: Log;
  readonly clock?: Clock;
  /** Overrides of `CLIENT_TIMEOUTS`. */
  readonly timeouts?: Partial<ClientTimeouts>;
}

/** What a worker shares with the other workers of its gateway. */
export interface WorkerShares {
  readonly counts: SharedCounts;
  readonly siblings: Siblings;
  /** The key that the primary generated; `null` if keys are configured. */
  readonly generatedKey: SecretKey | null;
}

/** All of a gateway but its admin listener. */
export interface GatewayProcess {
  readonly replica: Replica;
  readonly metrics: Metrics;
  readiness(): Readiness;
  /**
   * Waits a while for the upstreams, then listens for clients.
   * @returns the origin of the listener
   * @throws StartFailure if it cannot listen, or if an upstream responds and is not usable
   */
  listen(at: ListenAddress, options?: { readonly reusePort: boolean }): Promise<string>;
  drain(): Promise<void>;
  close(): Promise<void>;
}

/** How long the start waits for upstreams. After that they are tried in the background. */
const START_WAIT_MS = 5_000;
const MAX_REQUEST_STATE_BYTES = 32 * 1024;
const LISTENER_LIMITS = { max: 1_000, maxPerPrincipal: 100 };

/**
 * Starts a gateway of one process. Resolves when it listens.
 * @throws StartFailure if it cannot listen, or if an upstream responds and is not usable
 */
export async function startGateway(config: Config, options: GatewayOptions): Promise<Gateway> {
  const gateway = await openGateway(config, options);
  const { metrics } = gateway;
  const admin = new AdminListener(config.admin, {
    health: async () => true,
    readiness: async () => gateway.readiness(),
    metrics: () => metrics.text(),
  });
  const close = async () => {
    await Promise.all([admin.close(), gateway.close()]);
  };
  try {
    const origin = await gateway.listen(config.listen);
    const adminUrl = await admin.listen();
    const url = logListening(config, origin, adminUrl, options.log);
    const drain = async () => {
      await gateway.drain();
      await admin.close();
    };
    return { url, adminUrl, drain, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Logs that clients can connect, and what replicas do not share. @returns the URL of the first route */
export function logListening(
  config: Config,
  origin: string,
  admin: string | null,
  log: Log,
  workers = 1,
): string {
  const { routes, relay } = config;
  const url = `${origin}${routes[0]?.path ?? ''}`;
  const upstreams = routes.map(({ upstream }) => nameOfServer(upstream)).join(', ');
  log.event('gateway.listening', { url, admin, upstreams });
  const shared = homesSharedBy(config, workers);
  log.event('gateway.homes', { shared });
  if (relay !== null && shared !== 'redis' && shared !== 'peers') {
    log.event('gateway.homes_apart', {});
  }
  logTasks(config, log);
  return url;
}

function homesSharedBy({ relay, redis }: Config, workers: number) {
  if (relay !== null && redis !== null) return 'redis';
  if (relay !== null && relay.peers !== null) return 'peers';
  return workers > 1 ? 'workers' : 'nothing';
}

/**
 * Creates a gateway that does not listen for clients yet. It takes retries of other replicas.
 * @param shares `null` for a gateway of one process
 * @throws StartFailure if it cannot listen for replicas, or if Redis does not respond in time
 */
export async function openGateway(
  config: Config,
  options: GatewayOptions,
  shares: WorkerShares | null = null,
): Promise<GatewayProcess> {
  const clock = new FleetClock(options.clock ?? systemClock);
  const routes: Route[] = [];
  let replica: Replica | null = null;
  const metrics = new Metrics({
    parked: () => gauge(routes, (route) => route.calls.parked),
    released: () => gauge(routes, (route) => route.calls.released),
    sessions: () => gauge(routes, (route) => route.pool.size),
    tasks: () =>
      new Map(routes.map(({ config, tasks }) => [config.id, tasks?.byStatus ?? new Map()])),
    upstreamsUp: () => gauge(routes, (route) => Number(route.availability.ready)),
    running: () => capacity.running,
    limits: limitsOf(config),
    circuitsOpen: () => gauge(routes, ({ http }) => Number(http?.circuit.isOpen ?? false)),
    redisUp: () => replica?.directory?.up ?? null,
    clockAheadMs: () => clock.aheadMs,
  });
  const log = countedLog(options.log, metrics);
  const tracer = await openTracer(process.env, log);
  const serveRelayed: ServeRelayedRetry = async (id, request, leg) => {
    const route = routes.find(({ config: { id: own } }) => own === id);
    return route === undefined ? null : serveRelayedBy(route, request, leg);
  };
  const openResponses = new OpenResponses();
  const counts = shares?.counts ?? new LocalCounts();
  const capacity = new Capacity(
    {
      maxRunning: config.limits.maxRunningCalls,
      maxParked: config.limits.maxParkedCalls,
      maxParkedPerPrincipal: config.limits.maxParkedCallsPerPrincipal,
      maxParkedAnonymous: config.limits.maxAnonymousParkedCalls,
    },
    counts,
    parkingLimitLog(clock, log),
  );
  const sealKeys = sealKeysOf(config, shares?.generatedKey ?? null, log);
  const siblings = shares?.siblings ?? null;
  replica = await joinReplicas(config, observeRelayed(serveRelayed, tracer), {
    ...{ sealKeys, siblings, openResponses, clock, log },
  });
  const { trustedProxies } = config.edge;
  const identity = new Identity({ identity: config.identity, trustedProxies, clock, log });
  const rateStore = await rateStoreOf(config, clock);
  const { maxEventLoopDelayMs } = config.limits;
  const eventLoop =
    maxEventLoopDelayMs === null
      ? null
      : new EventLoopMonitor(maxEventLoopDelayMs, eventLoopMeter(), clock);
  const shared: SharedServices = {
    config,
    identity,
    clock,
    log,
    tracer,
    replica,
    hasSiblings: siblings !== null || config.relay !== null || config.redis !== null,
    openResponses,
    pendingRequests: new PendingRequests(),
    listenerQuota: new Quota('listeners', LISTENER_LIMITS, counts),
    taskQuota: new Quota(
      'tasks',
      { max: config.limits.maxTasks, maxPerPrincipal: config.limits.maxTasksPerPrincipal },
      counts,
    ),
    counts,
    capacity,
    learnTools: (route, names) => metrics.learnTools(route, names),
    sealer: sealerOf(config, sealKeys, clock),
    sealKeys,
    rateStore,
    limited: (route, limit) => metrics.limited(route, limit),
    overloadWaitMs: () => eventLoop?.waitMs() ?? 0,
  };
  routes.push(...config.routes.map((route) => createRoute(route, shared)));
  metrics.begin(
    config.routes.map(({ id }) => id),
    LIMIT_NAMES,
  );
  const timeouts = { ...CLIENT_TIMEOUTS, ...options.timeouts };
  const app = await createPublicApp(routes, shared, metrics, timeouts);
  limitConnections(app.server, config.limits.maxConnections, counts);

  let draining = false;
  const close = async () => {
    for (const { availability } of routes) availability.close();
    identity.close();
    eventLoop?.close();
    rateStore?.close();
    await app.close();
    await shared.replica.close();
    // Ending sessions is optional: the process does not wait for a server that does not respond.
    const ended = Promise.all(routes.map(({ pool }) => pool.close()));
    await Promise.race([ended, sleep(clock, CANCEL_GRACE_MS)]);
    await Promise.all(routes.map(({ upstream }) => upstream.close()));
    await tracer?.close();
  };
  return {
    replica,
    metrics,
    readiness: () => ({
      status: draining
        ? 'draining'
        : identity.problem === null && routes.every((route) => route.availability.ready)
          ? 'ready'
          : 'not ready',
      ...(identity.problem !== null && { identity: identity.problem }),
      routes: Object.fromEntries(
        routes.map((route) => [route.config.id, route.availability.status]),
      ),
    }),
    listen: async (at, options) => {
      await Promise.all([
        identity.start(),
        ...routes.map(({ availability }) => availability.start(START_WAIT_MS)),
      ]);
      return listen(app, at, '--listen HOST:PORT', options);
    },
    drain: async () => {
      if (draining) return;
      draining = true;
      await drainCalls({
        calls: routes.map(({ calls }) => calls),
        tasks: routes.flatMap(({ tasks }) => tasks ?? []),
        capacity: shared.capacity,
        subscriptions: routes.map(({ subscriptions }) => subscriptions),
        pendingRequests: shared.pendingRequests,
        openResponses,
        drain: config.drain,
        graceMs: CANCEL_GRACE_MS,
        clock,
        log,
      });
      // While the store and the relay are there.
      await Promise.all(routes.map(({ tasks }) => tasks?.close()));
      await close();
    },
    close,
  };
}

/** Serves what another replica relays: a retry or a call, what concerns a task, or a request that asks nothing and whose home is here. */
async function serveRelayedBy(
  { calls, tasks, pool, forward }: Route,
  request: EdgeRequest,
  leg: Leg,
): Promise<RelayedRetryHandle | null> {
  const { method } = request;
  if (isMethod(method) && serviceOf(method) !== 'forward') {
    return (tasks ?? calls).serveRelayed(request, leg);
  }
  if (!(await pool.isHome(sessionOwnerOf(request)))) return null;
  return { begin: () => forward(request, leg.closed), sendClientBack: () => {} };
}

/** Logs what becomes of tasks where replicas, or the processes of one gateway, share no store. */
function logTasks({ routes, relay, redis }: Config, log: Log): void {
  if (redis !== null || !routes.some(({ tasks }) => promotesAny(tasks))) return;
  log.event(relay === null ? 'tasks.in_memory' : 'tasks.of_servers_only', {});
}

/** Connects to where replicas count requests, if any route limits their rate. */
async function rateStoreOf(
  { redis, routes, seal }: Config,
  clock: Clock,
): Promise<OpenRateStore | null> {
  const isLimited = routes.some(({ limits: { tools, ...all } }) =>
    [all, ...Object.values(tools)].some(
      (one) => one.rate !== null || one.ratePerPrincipal !== null,
    ),
  );
  return redis === null || !isLimited ? null : openRateStore(redis, seal.audience, clock);
}

const LIMIT_LOG_INTERVAL_MS = 60_000;

/** Logs the limit that keeps calls from being parked, each at most once a minute. */
function parkingLimitLog(clock: Clock, log: Log): (limit: ParkingLimit) => void {
  const loggedAtMs = new Map<ParkingLimit, number>();
  return (limit) => {
    const now = clock.elapsed();
    if (now - (loggedAtMs.get(limit) ?? -Infinity) < LIMIT_LOG_INTERVAL_MS) return;
    loggedAtMs.set(limit, now);
    log.event('call.parking_limit', { limit: `limits.${limit}` });
  };
}

/** Limits the connections of all processes that share the counts. */
function limitConnections(server: Server, max: number, counts: Counts): void {
  // Node.js reads it for each new connection, and compares it with those of this process.
  Object.defineProperty(server, 'maxConnections', {
    get: () => Math.max(0, max - counts.elsewhere('connections')),
  });
  server.on('connection', (socket) => {
    counts.add('connections', 1);
    socket.once('close', () => counts.add('connections', -1));
  });
}

/** Returns the keys that all replicas share, as they are configured. */
export function configuredKeys({ seal }: Config): SecretKey[] {
  return seal.keys.map(({ kid, key }) => ({ kid, secret: Buffer.from(key, 'base64url') }));
}

function sealKeysOf(config: Config, generated: SecretKey | null, log: Log): readonly SecretKey[] {
  const configured = configuredKeys(config);
  if (configured.length > 0) return configured;
  if (generated !== null) return [generated];
  log.event('gateway.key_ephemeral', {});
  return [generateKey()];
}

function sealerOf(config: Config, keys: readonly SecretKey[], clock: Clock): Sealer {
  const ring = createKeyRing(keys, 'seal');
  const { audience } = config.seal;
  return createSealer({ ring, audience, clock, maxTokenBytes: MAX_REQUEST_STATE_BYTES });
}

/** The limits that metrics can come near, by their keys in the configuration. */
function limitsOf({ limits, routes }: Config): Map<string, number> {
  const { maxRunningCalls, maxParkedCalls, maxConnections, maxTasks } = limits;
  return new Map([
    ...Object.entries({ maxRunningCalls, maxParkedCalls, maxConnections, maxTasks }),
    ...routes.map(({ id, sessions }) => [`sessions:${id}`, sessions.max] as const),
  ]);
}

function gauge(routes: readonly Route[], value: (route: Route) => number): Map<string, number> {
  return new Map(routes.map((route) => [route.config.id, value(route)]));
}
