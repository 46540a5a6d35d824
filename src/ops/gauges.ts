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
  const { gauge, labelled, byRoute } = gaugesIn(registry);
  gauge(
    'mrtr_gateway_redis_up',
    'Whether Redis responds; absent if none is configured',
    'min',
    gauges.redisUp,
  );
  gauge(
    'mrtr_gateway_clock_skew_seconds',
    "How far this machine's clock is ahead of the shared store's; absent while that is not known",
    'max',
    () => {
      const aheadMs = gauges.clockAheadMs();
      return aheadMs === null ? null : aheadMs / 1000;
    },
  );
  labelled(
    'mrtr_gateway_build_info',
    'Version of the gateway and of Node.js',
    ['version', 'node'],
    'first',
    () => [[{ version: VERSION, node: process.version }, 1]],
  );
  byRoute(
    'mrtr_gateway_parked_calls',
    'Parked calls: they wait for their client',
    'sum',
    gauges.parked,
  );
  byRoute(
    'mrtr_gateway_released_calls',
    'Released calls (parking.release): they wait for their client, and use no connection',
    'sum',
    gauges.released,
  );
  gauge('mrtr_gateway_running_calls', 'Calls that a client waits for', 'sum', gauges.running);
  gauge('mrtr_gateway_connections', 'Open connections of clients', 'sum', gauges.connections);
  byRoute('mrtr_gateway_sessions', 'Open sessions with legacy servers', 'sum', gauges.sessions);
  byRoute(
    'mrtr_gateway_upstream_up',
    'Whether the server of a route responded when it was last needed',
    'min',
    () =>
      new Map([...gauges.upstreamsUp()].map(([route, up]) => [route, down.has(route) ? 0 : up])),
  );
  labelled(
    'mrtr_gateway_tasks',
    'Tasks in this process, by their status',
    ['route', 'status'],
    'sum',
    () =>
      [...gauges.tasks()].flatMap(([route, tasks]) =>
        [...tasks].map(([status, count]) => [{ route, status }, count] as const),
      ),
  );
  byRoute(
    'mrtr_gateway_circuit_open',
    'Processes that leave the server alone, since it does not respond',
    'sum',
    gauges.circuitsOpen,
  );
  labelled('mrtr_gateway_limit', 'The configured limits', ['limit'], 'first', () =>
    [...gauges.limits()].map(([limit, value]) => [{ limit }, value]),
  );
}

type Aggregator = 'min' | 'max' | 'sum' | 'first';
type LabelledValue = readonly [labels: Readonly<Record<string, string>>, value: number];

/** Returns functions that register gauges. */
function gaugesIn(registry: Registry) {
  const labelled = (
    name: string,
    help: string,
    labelNames: string[],
    aggregator: Aggregator,
    values: () => Iterable<LabelledValue>,
  ) =>
    new Gauge({
      name,
      help,
      labelNames,
      aggregator,
      registers: [registry],
      collect() {
        // A route that is gone would keep its last value, and an alert on it would not end.
        this.reset();
        if (labelNames.length === 0) this.remove();
        for (const [labels, value] of values()) this.set(labels, value);
      },
    });
  return {
    labelled,
    byRoute: (name: string, help: string, aggregator: Aggregator, values: ByName) =>
      labelled(name, help, ['route'], aggregator, () =>
        [...values()].map(([route, value]) => [{ route }, value]),
      ),
    /** @param read returns `null` if there is none */
    gauge: (
      name: string,
      help: string,
      aggregator: Aggregator,
      read: () => number | boolean | null,
    ) =>
      labelled(name, help, [], aggregator, () => {
        const value = read();
        return value === null ? [] : [[{}, Number(value)]];
      }),
  };
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
  const { gauge } = gaugesIn(registry);
  gauge(
    'mrtr_gateway_config_last_reload_successful',
    'Whether the configuration that was loaded last is in force',
    'min',
    () => state().isSuccessful,
  );
  gauge(
    'mrtr_gateway_config_last_reload_success_timestamp_seconds',
    'When the active configuration was loaded',
    'max',
    () => state().succeededAtMs / 1000,
  );
}
