/** A gateway, created from its configuration: started, drained, closed. */
import type { ServeRelayedRetry } from '../model/relay.ts';
import { Capacity } from '../calls/registry.ts';
import { sleep, systemClock, type Clock } from '../lib/clock.ts';
import type { Config } from '../config/config.ts';
import { CLIENT_TIMEOUTS, type ClientTimeouts } from '../edge/http/connection.ts';
import { isAllowedHost, isLoopbackHost } from '../edge/http/origin.ts';
import { FleetClock } from '../replicas/directory/fleet-clock.ts';
import { OpenResponses } from '../lib/responses.ts';
import { createAdmin, type Readiness } from '../ops/admin.ts';
import type { Log } from '../ops/log.ts';
import { countedLog, Metrics } from '../ops/metrics.ts';
import { createKeyRing, generateKey, type SecretKey } from '../seal/key-ring.ts';
import { createSealer, type Sealer } from '../seal/seal.ts';
import { ListenerQuota } from '../subscriptions/listener-quota.ts';
import { drainCalls } from './drain.ts';
import { configuredKeys, joinReplicas, type Replica } from './replica.ts';
import { listen } from './listen.ts';
import { createPublicApp } from './public-server.ts';
import { CANCEL_GRACE_MS, createRoute, type Route } from './route.ts';
import type { SharedServices } from './shared.ts';

export interface Gateway {
  /** The URL for modern clients, with the path of the first route. */
  readonly url: string;
  readonly adminUrl: string | null;
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

/** How long the start waits for upstreams. After that they are tried in the background. */
const START_WAIT_MS = 5_000;
const MAX_REQUEST_STATE_BYTES = 32 * 1024;
const MAX_LISTENERS = 1_000;
const MAX_LISTENERS_PER_PRINCIPAL = 100;

/**
 * Starts a gateway. Resolves when it listens.
 * @throws StartFailure if it cannot listen, or if an upstream responds and is not usable
 */
export async function startGateway(config: Config, options: GatewayOptions): Promise<Gateway> {
  const clock = new FleetClock(options.clock ?? systemClock);
  const routes: Route[] = [];
  let replica: Replica | null = null;
  const metrics = new Metrics({
    parked: () => gauge(routes, (route) => route.calls.parked),
    sessions: () => gauge(routes, (route) => route.pool.size),
    redisUp: () => replica?.directory?.up ?? null,
    clockAheadMs: () => clock.aheadMs,
  });
  const log = countedLog(options.log, metrics);
  const serveRelayed: ServeRelayedRetry = async (id, request, leg) => {
    const route = routes.find(({ config: { id: own } }) => own === id);
    return route === undefined ? null : route.calls.serveRelayed(request, leg);
  };
  const openResponses = new OpenResponses();
  replica = await joinReplicas(config, serveRelayed, { openResponses, clock, log });
  const sealKeys = sealKeysOf(config, log);
  const shared: SharedServices = {
    config,
    clock,
    log,
    replica,
    openResponses,
    listenerQuota: new ListenerQuota({
      maxListeners: MAX_LISTENERS,
      maxListenersPerPrincipal: MAX_LISTENERS_PER_PRINCIPAL,
    }),
    capacity: new Capacity({
      maxRunning: config.limits.maxRunningCalls,
      maxParked: config.limits.maxParkedCalls,
      maxParkedPerPrincipal: config.limits.maxParkedCallsPerPrincipal,
    }),
    sealer: sealerOf(config, sealKeys, clock),
    sealKeys,
  };
  routes.push(...config.routes.map((route) => createRoute(route, shared)));
  metrics.begin(config.routes.map(({ id }) => id));

  let draining = false;
  const readiness = (): Readiness => ({
    status: draining
      ? 'draining'
      : routes.every((route) => route.availability.ready)
        ? 'ready'
        : 'not ready',
    routes: Object.fromEntries(routes.map((route) => [route.config.id, route.availability.status])),
  });
  const timeouts = { ...CLIENT_TIMEOUTS, ...options.timeouts };
  const app = await createPublicApp(routes, shared, metrics, timeouts);
  const admin =
    config.admin === null ? null : createAdmin(metrics, readiness, knownHosts(config.admin));

  const close = async () => {
    for (const { availability } of routes) availability.close();
    await Promise.all([app.close(), admin?.close()]);
    await shared.replica.close();
    // Ending sessions is optional: the process does not wait for a server that does not respond.
    const ended = Promise.all(routes.map(({ pool }) => pool.close()));
    await Promise.race([ended, sleep(clock, CANCEL_GRACE_MS)]);
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
        calls: routes.map(({ calls }) => calls),
        capacity: shared.capacity,
        subscriptions: routes.map(({ subscriptions }) => subscriptions),
        openResponses,
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

function sealKeysOf(config: Config, log: Log): readonly SecretKey[] {
  const configured = configuredKeys(config);
  if (configured.length === 0) log.event('gateway.key_ephemeral', {});
  return configured.length > 0 ? configured : [generateKey()];
}

function sealerOf(config: Config, keys: readonly SecretKey[], clock: Clock): Sealer {
  const ring = createKeyRing(keys, 'seal');
  const { audience } = config.seal;
  return createSealer({ ring, audience, clock, maxTokenBytes: MAX_REQUEST_STATE_BYTES });
}

/** Creates the check of the `Host` of the admin listener. */
function knownHosts({ host }: { readonly host: string }): (name: string) => boolean {
  const policy = { allowedOrigins: [], allowedHosts: [], allowLoopback: isLoopbackHost(host) };
  return (name) => isAllowedHost(name, policy);
}

function gauge(routes: readonly Route[], value: (route: Route) => number): Map<string, number> {
  return new Map(routes.map((route) => [route.config.id, value(route)]));
}
