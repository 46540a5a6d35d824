/** A gateway, created from its configuration: started, drained, closed. */
import type { IncomingMessage } from 'node:http';
import { inBackground } from '../lib/background.ts';
import { systemClock, type Clock } from '../lib/clock.ts';
import { pathOf } from '../lib/http.ts';
import type { Config } from '../config/schema.ts';
import type { ListenAddress } from '../lib/address.ts';
import { CLIENT_TIMEOUTS, type ClientTimeouts } from '../edge/http/connection.ts';
import type { AdminSource, Readiness } from '../ops/admin.ts';
import type { Log } from '../ops/log.ts';
import type { Metrics } from '../ops/metrics.ts';
import { throttledLog } from '../ops/throttled-log.ts';
import { createAdminListener } from './admin-listener.ts';
import { logListening } from './listening-log.ts';
import {
  NOTHING,
  OtherGateways,
  serveEverywhere,
  serveOthers,
  type OperatedProcess,
} from './live/operator.ts';
import { livePartOf, mayStop, snapshotOf } from './live/part.ts';
import { drainCalls } from './drain.ts';
import { serveFromElsewhere } from '../front/legacy/hop.ts';
import { LegacySessions } from '../front/legacy/sessions.ts';
import { PublicListener, type ConnectionPolicy } from '../front/public-listener.ts';
import { ProcessReadiness, readinessAtStart } from './readiness.ts';
import { Generations } from './reload/generations.ts';
import { Reloads, type Prepared } from './reload/reloads.ts';
import type { JoinedReplica, WorkerShares } from './replica.ts';
import { openServices } from './services.ts';
import type { SharedServices } from '../routes/shared-services.ts';
import { Telemetry } from './telemetry.ts';

export interface Gateway {
  /** The URL for modern clients, with the path of the first route. */
  readonly url: string;
  readonly adminUrl: string | null;
  /** Resolves if the gateway gives up. It has drained by then. */
  readonly failure?: Promise<Error>;
  /**
   * Activates another configuration, whole or not at all. Never rejects.
   * @param load throws ConfigError for an invalid configuration
   * @returns whether it is in force
   */
  reload(load: () => Config): Promise<boolean>;
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
  /** Overrides what the system says of the memory that the process can use. */
  readonly memoryBytes?: number;
}

/** All of a gateway but its admin listener. */
export interface GatewayProcess extends OperatedProcess {
  readonly replica: JoinedReplica;
  readonly metrics: Metrics;
  readiness(): Readiness;
  /** The other gateways of the deployment. */
  readonly others: OtherGateways;
  /**
   * Waits a while for the upstreams, then listens for clients.
   * @returns the origin of the listener
   * @throws StartFailure if it cannot listen, or if an upstream responds and is not usable
   */
  listen(at: ListenAddress, options?: { readonly reusePort: boolean }): Promise<string>;
  /**
   * Prepares another configuration.
   * @throws InvalidKeyRing for a key that cannot be used beside the current ones
   * @throws StartFailure if an upstream responds and is not usable
   */
  prepare(config: Config): Promise<Prepared>;
  drain(): Promise<void>;
  close(): Promise<void>;
}

/**
 * Starts a gateway of one process. Resolves when it listens.
 * @throws StartFailure if it cannot listen, or if an upstream responds and is not usable
 */
export async function startGateway(config: Config, options: GatewayOptions): Promise<Gateway> {
  const { log, clock = systemClock } = options;
  const telemetry = new Telemetry(config, { log, clock });
  const { metrics } = telemetry;
  let gateway: GatewayProcess | null = null;
  const source: AdminSource = {
    health: async () => true,
    readiness: async () =>
      gateway?.readiness() ?? readinessAtStart(config, telemetry.shared !== null),
    metrics: () => metrics.text(),
    live: async () => {
      // The process may not have joined the other replicas yet.
      const view = gateway === null ? NOTHING : await serveEverywhere(gateway, { type: 'look' });
      return snapshotOf(view, clock, telemetry.shared?.config ?? config);
    },
    mayStop: () => mayStop(telemetry.shared?.config ?? config),
    stop: async (order) =>
      gateway !== null && (await serveEverywhere(gateway, { type: 'stop', ...order })).isStopped,
  };
  const admin = createAdminListener(config.admin, source, clock);
  const close = async () => {
    await Promise.all([admin.close(), gateway?.close()]);
  };
  try {
    // Probes are answered while Redis is awaited, and while upstreams are asked what they speak.
    const adminUrl = await admin.listen();
    const opened = await openGateway(config, options, null, telemetry);
    gateway = opened;
    const reloads = new Reloads(config, { prepare: opened.prepare, clock, log });
    metrics.showReloads(reloads.state);
    const origin = await opened.listen(config.listen);
    const url = logListening(config, origin, adminUrl, log);
    const reload = (load: () => Config) => reloads.reload(load);
    const drain = async () => {
      reloads.stop();
      await opened.drain();
      await admin.close();
    };
    return { url, adminUrl, reload, drain, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/**
 * Creates a gateway that does not listen for clients yet. It takes retries of other replicas.
 * @param shares `null` for a gateway of one process
 * @param telemetry that shows the process already; created if nobody looks yet
 * @throws StartFailure if it cannot listen for replicas, or if Redis does not respond in time
 */
export async function openGateway(
  config: Config,
  { log: eventLog, clock: ownClock = systemClock, timeouts, memoryBytes }: GatewayOptions,
  shares: WorkerShares | null,
  telemetry = new Telemetry(config, { log: eventLog, clock: ownClock }),
): Promise<GatewayProcess> {
  const { routes, metrics } = telemetry;
  const services = await openServices(config, telemetry, shares, memoryBytes);
  const { shared } = services;
  const { clock, replica } = shared;
  let listensAt: string | null = null;
  const listener = new PublicListener(
    { ...CLIENT_TIMEOUTS, ...timeouts },
    connectionPolicy(shared),
  );
  const { log, messageBudget: budget } = shared;
  const sessions = new LegacySessions({ clock, log, budget });
  const generations = new Generations(routes, services, listener, sessions, ownClock);
  const first = await generations.create(config);
  generations.commit(first);

  replica.directory?.onLeaseRestored(() => {
    for (const { tasks } of routes.latest) tasks?.keepAgain();
    inBackground(replica.ownership?.claimAgain());
  });

  const readiness = new ProcessReadiness(
    routes,
    () => generations.current?.identity.problem ?? null,
    shares?.wasReady ?? false,
  );
  const close = async () => {
    await Promise.all([listener.close(), sessions.close()]);
    await replica.close();
    await generations.close();
    services.close();
    await shared.tracer?.close();
  };
  const { instance } = replica.owner;
  const operated: OperatedProcess = {
    serveOperator: (asked) => {
      if (asked.type === 'stop') {
        return { ...NOTHING, isStopped: mayStop(shared.config) && routes.stop(asked) };
      }
      const { status } = readiness.state();
      const part = livePartOf({ instance, status, routes, metrics, origin: listensAt });
      return { ...NOTHING, parts: [part] };
    },
  };
  routes.serveOthers = (request, waiter) =>
    serveOthers(request, operated) ?? serveFromElsewhere(sessions, request, waiter);
  const others = new OtherGateways({
    replica,
    isOwn: (other) => (shares?.siblings.addressOf(other) ?? null) !== null,
    route: () => routes.configured[0]?.config.id,
    clock,
  });
  return {
    ...operated,
    replica,
    metrics,
    others,
    readiness: () => readiness.state(),
    listen: async (at, options) => {
      await first.start();
      const origin = await listener.listen(at, options);
      listensAt = origin;
      readiness.isListening = true;
      return origin;
    },
    prepare: async (next) => {
      const prepared = await generations.prepare(next);
      return {
        commit: () => {
          if (readiness.isDraining) return inBackground(generations.abandon(prepared));
          // Nobody may have asked so far.
          readiness.isReady();
          generations.commit(prepared);
        },
        abandon: () => generations.abandon(prepared),
      };
    },
    drain: async () => {
      if (readiness.isDraining) return;
      readiness.isDraining = true;
      listener.stopKeepingConnections();
      const { latest } = routes;
      await drainCalls(routes, sessions, shared);
      await listener.serveLast(clock);
      // While the store and the relay are there.
      await Promise.all(latest.map(async ({ tasks }) => tasks?.close()));
      await close();
    },
    close,
  };
}

/** Limits the connections of all processes that share the counts, and logs that some are refused or cut. */
function connectionPolicy(shared: SharedServices): ConnectionPolicy {
  const { counts, clock, log } = shared;
  return {
    max: () => shared.config.limits.maxConnections - counts.elsewhere('connections'),
    counted: (change) => counts.add('connections', change),
    refused: throttledLog<string | undefined>(clock, (client, refused) =>
      log.event('edge.connection_limit', { refused, ...(client && { client }) }),
    ),
    stalled: throttledLog<IncomingMessage>(clock, ({ url, socket }, requests) => {
      const { remoteAddress: client } = socket;
      log.event('edge.client_stalled', { path: pathOf(url), ...(client && { client }), requests });
    }),
  };
}
