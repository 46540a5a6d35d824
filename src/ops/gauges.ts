/** Values that are read when metrics are scraped. */
import { collectDefaultMetrics, Gauge, Registry } from 'prom-client';
import { once } from '../lib/once.ts';
import { VERSION } from '../lib/program.ts';

type ByName = () => ReadonlyMap<string, number>;

export interface Gauges {
  /** Parked calls by route. */
  readonly parked: ByName;
  /** Released calls that wait for their client, by route. */
  readonly released: ByName;
  readonly sessions: ByName;
  /** Tasks that are in this process, by route and status. Empty for a route without tasks. */
  readonly tasks: () => ReadonlyMap<string, ReadonlyMap<string, number>>;
  /** 1 if the server of the route responded when it was last checked, 0 otherwise. */
  readonly upstreamsUp: ByName;
  /** 1 if the server of the route counts as down, 0 otherwise. */
  readonly circuitsOpen: ByName;
  /** Calls that run in this process. */
  readonly running: () => number;
  /** Connections of clients to this process. */
  readonly connections: () => number;
  /** The configured limits that are in force, by their names. */
  readonly limits: ByName;
  /** Whether the shared store is reachable; `null` if none is configured. */
  readonly redisUp: () => boolean | null;
  /** How far the clock of this machine is ahead of the shared store's, in ms; `null` if unknown. */
  readonly clockAheadMs: () => number | null;
}

/**
 * Returns the metrics of the process itself. The library observes collections of garbage and the event loop for them and never ends
 * that, so each gateway in a process shows the same ones.
 */
export const metricsOfProcess = once(() => {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  return registry;
});

/** @param down the routes whose server could not be reached when it was last needed */
export function registerGauges(
  registry: Registry,
  gauges: Gauges,
  down: ReadonlySet<string>,
): void {
  gauge(
    registry,
    'mrtr_gateway_redis_up',
    'Whether Redis responds; absent if none is configured',
    'min',
    () => {
      const up = gauges.redisUp();
      return up === null ? null : Number(up);
    },
  );
  gauge(
    registry,
    'mrtr_gateway_clock_skew_seconds',
    "How far this machine's clock is ahead of the shared store's; absent while that is not known",
    'max',
    () => {
      const aheadMs = gauges.clockAheadMs();
      return aheadMs === null ? null : aheadMs / 1000;
    },
  );
  new Gauge({
    name: 'mrtr_gateway_build_info',
    help: 'Version of the gateway and of Node.js',
    labelNames: ['version', 'node'],
    aggregator: 'first',
    registers: [registry],
  }).set({ version: VERSION, node: process.version }, 1);
  byRoute(
    registry,
    'mrtr_gateway_parked_calls',
    'Parked calls: they wait for their client',
    gauges.parked,
  );
  byRoute(
    registry,
    'mrtr_gateway_released_calls',
    'Released calls (parking.release): they wait for their client, and use no connection',
    gauges.released,
  );
  gauge(
    registry,
    'mrtr_gateway_running_calls',
    'Calls that a client waits for',
    'sum',
    gauges.running,
  );
  gauge(
    registry,
    'mrtr_gateway_connections',
    'Open connections of clients',
    'sum',
    gauges.connections,
  );
  byRoute(registry, 'mrtr_gateway_sessions', 'Open sessions with legacy servers', gauges.sessions);
  byRoute(
    registry,
    'mrtr_gateway_upstream_up',
    'Whether the server of a route responded when it was last needed',
    () =>
      new Map([...gauges.upstreamsUp()].map(([route, up]) => [route, down.has(route) ? 0 : up])),
    'min',
  );
  new Gauge({
    name: 'mrtr_gateway_tasks',
    help: 'Tasks in this process, by their status',
    labelNames: ['route', 'status'],
    registers: [registry],
    collect() {
      this.reset();
      for (const [route, tasks] of gauges.tasks()) {
        for (const [status, count] of tasks) this.set({ route, status }, count);
      }
    },
  });
  byRoute(
    registry,
    'mrtr_gateway_circuit_open',
    'Processes that leave the server alone, since it does not respond',
    gauges.circuitsOpen,
  );
  new Gauge({
    name: 'mrtr_gateway_limit',
    help: 'The configured limits',
    labelNames: ['limit'],
    aggregator: 'first',
    registers: [registry],
    collect() {
      this.reset();
      for (const [limit, value] of gauges.limits()) this.set({ limit }, value);
    },
  });
}

/** @param value returns `null` if there is none */
function gauge(
  registry: Registry,
  name: string,
  help: string,
  aggregator: 'min' | 'max' | 'sum',
  value: () => number | null,
): void {
  new Gauge({
    name,
    help,
    aggregator,
    registers: [registry],
    collect() {
      const now = value();
      if (now === null) this.remove();
      else this.set(now);
    },
  });
}

function byRoute(
  registry: Registry,
  name: string,
  help: string,
  values: ByName,
  aggregator: 'min' | 'sum' = 'sum',
): void {
  new Gauge({
    name,
    help,
    aggregator,
    labelNames: ['route'],
    registers: [registry],
    collect() {
      // A route that is gone would keep its last value, and an alert on it would not end.
      this.reset();
      for (const [route, value] of values()) this.set({ route }, value);
    },
  });
}

/** What became of the configurations that were loaded. */
export interface ReloadState {
  /** Whether the last one is in force. */
  readonly isSuccessful: boolean;
  /** When the one in force was loaded, in ms since the epoch. */
  readonly succeededAtMs: number;
}

/** Shows what became of the last configuration. */
export function registerReloads(registry: Registry, state: () => ReloadState): void {
  gauge(
    registry,
    'mrtr_gateway_config_last_reload_successful',
    'Whether the configuration that was loaded last is in force',
    'min',
    () => Number(state().isSuccessful),
  );
  gauge(
    registry,
    'mrtr_gateway_config_last_reload_success_timestamp_seconds',
    'When the active configuration was loaded',
    'max',
    () => state().succeededAtMs / 1000,
  );
}
