/** What shows a process from its first moment, before it has joined the other replicas: its metrics, its log. */
import type { Config } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import { countedLog } from '../ops/counted-log.ts';
import type { Log } from '../ops/log.ts';
import { Metrics } from '../ops/metrics.ts';
import { FleetClock } from '../fleet/store/fleet-clock.ts';
import { Routes } from '../routes/routes.ts';
import type { SharedServices } from '../routes/shared-services.ts';

export class Telemetry {
  /** Empty at first. */
  readonly routes = new Routes();
  /** The time that replicas share by Redis; `null` without it. */
  readonly fleetClock: FleetClock | null;
  readonly clock: Clock;
  readonly metrics: Metrics;
  readonly log: Log;
  /** `null` until the process has joined the other replicas. */
  shared: SharedServices | null = null;

  /** @param config that the process starts with */
  constructor(config: Config, options: { readonly log: Log; readonly clock: Clock }) {
    const { routes } = this;
    this.fleetClock = config.redis === null ? null : new FleetClock(options.clock);
    this.clock = this.fleetClock ?? options.clock;
    this.metrics = new Metrics(this.clock, {
      parked: () => routes.each(({ calls }) => calls.parked),
      released: () => routes.each(({ calls }) => calls.released),
      sessions: () => routes.sum(({ pool }) => pool.size),
      upstreamsUp: () =>
        routes.each(({ server }) => Number(server.availability.ready), routes.configured),
      running: () => this.shared?.capacity.running ?? 0,
      connections: () => ownConnections(this.shared),
      tasks: () => routes.each(({ tasks }) => tasks?.byStatus ?? new Map()),
      limits: () => limitsOf(this.shared?.config ?? config),
      circuitsOpen: () =>
        routes.each(({ server }) => Number(server.http?.circuit.isOpen ?? 0), routes.configured),
      redisUp: () => (config.redis === null ? null : (this.shared?.replica.directory?.up ?? false)),
      clockAheadMs: () => this.fleetClock?.aheadMs ?? null,
    });
    this.log = countedLog(options.log, this.metrics);
  }
}

/** Counts the connections of clients to this process. */
function ownConnections(shared: SharedServices | null): number {
  if (shared === null) return 0;
  const { counts } = shared;
  return counts.total('connections') - counts.elsewhere('connections');
}

/** The limits that metrics can come near, by their keys in the configuration. */
function limitsOf({ limits, routes }: Config): Map<string, number> {
  const { maxRunningCalls, maxParkedCalls, maxConnections } = limits;
  return new Map([
    ...Object.entries({ maxRunningCalls, maxParkedCalls, maxConnections }),
    ...routes.map(({ id, sessions }) => [`sessions:${id}`, sessions.max] as const),
  ]);
}
