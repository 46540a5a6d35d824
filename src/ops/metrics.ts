/** Metrics for Prometheus, which follow its naming rules, and their sum over several processes. Labels never identify a user or a call. */
import {
  collectDefaultMetrics,
  Counter,
  Gauge,
  Histogram,
  Registry,
  AggregatorRegistry,
} from 'prom-client';
import { ErrorCode } from '../protocol/json-rpc.ts';
import { VERSION } from '../lib/version.ts';
import { INVALID_REQUEST_STATE_REASONS } from '../seal/invalid-request-state.ts';
import {
  CLOCK_REFUSALS,
  RUNGS,
  type ClockRefusal,
  type Rung,
  type Log,
  type LogEvent,
  type LogEvents,
} from './log.ts';

/** Bucket boundaries of the OpenTelemetry conventions for MCP. */
const BUCKETS_SECONDS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300];

/** Error codes with their own series. */
const NAMED_CODES: ReadonlySet<number> = new Set(Object.values(ErrorCode));

export type MetricsSnapshot = Awaited<ReturnType<Registry['getMetricsAsJSON']>>;

export interface Gauges {
  /** Parked calls by route. */
  readonly parked: () => ReadonlyMap<string, number>;
  readonly sessions: () => ReadonlyMap<string, number>;
  /** Whether the shared store is reachable; `null` if none is configured. */
  readonly redisUp: () => boolean | null;
  /** How far the clock of this machine is ahead of the shared store's, in ms; `null` if unknown. */
  readonly clockAheadMs: () => number | null;
}

export class Metrics {
  readonly #registry = new Registry();
  readonly #operations: Histogram<'mcp_method_name' | 'route' | 'error_type'>;
  readonly #refusals: Counter<'reason'>;
  readonly #resumes: Counter<'route' | 'rung'>;
  readonly #rounds: Counter<'route'>;
  readonly #answersAhead: Counter<'route'>;
  readonly #clockRefusals: Counter<'of'>;

  constructor(gauges: Gauges) {
    const registers = [this.#registry];
    this.#operations = new Histogram({
      name: 'mcp_server_operation_duration_seconds',
      help: 'Duration of MCP requests from clients',
      labelNames: ['mcp_method_name', 'route', 'error_type'],
      buckets: BUCKETS_SECONDS,
      registers,
    });
    this.#refusals = new Counter({
      name: 'mrtr_gateway_seal_rejections_total',
      help: 'Refused requestState values, by reason',
      labelNames: ['reason'],
      registers,
    });
    this.#resumes = new Counter({
      name: 'mrtr_gateway_resumes_total',
      help: 'Retries of parked calls, by the rung that served them',
      labelNames: ['route', 'rung'],
      registers,
    });
    this.#rounds = new Counter({
      name: 'mrtr_gateway_rounds_total',
      help: 'InputRequiredResult responses sent to clients',
      labelNames: ['route'],
      registers,
    });
    this.#answersAhead = new Counter({
      name: 'mrtr_gateway_answers_ahead_total',
      help: 'Questions answered with what the first request of the call brought',
      labelNames: ['route'],
      registers,
    });
    this.#clockRefusals = new Counter({
      name: 'mrtr_gateway_clock_refusals_total',
      help: 'Refusals caused by clock differences, by kind',
      labelNames: ['of'],
      registers,
    });
    new Gauge({
      name: 'mrtr_gateway_redis_up',
      help: 'Whether Redis responds; absent if none is configured',
      aggregator: 'min',
      registers,
      collect() {
        const up = gauges.redisUp();
        if (up === null) this.remove();
        else this.set(up ? 1 : 0);
      },
    });
    new Gauge({
      name: 'mrtr_gateway_clock_skew_seconds',
      help: "How far this machine's clock is ahead of the shared store's; absent while that is not known",
      aggregator: 'max',
      registers,
      collect() {
        const aheadMs = gauges.clockAheadMs();
        if (aheadMs === null) this.remove();
        else this.set(aheadMs / 1000);
      },
    });
    new Gauge({
      name: 'mrtr_gateway_build_info',
      help: 'Version of the gateway and of Node.js',
      labelNames: ['version', 'node'],
      aggregator: 'first',
      registers,
    }).set({ version: VERSION, node: process.version }, 1);
    collectDefaultMetrics({ register: this.#registry });
    new Gauge({
      name: 'mrtr_gateway_parked_calls',
      help: 'Parked calls: they wait for their client',
      labelNames: ['route'],
      registers,
      collect() {
        for (const [route, count] of gauges.parked()) this.set({ route }, count);
      },
    });
    new Gauge({
      name: 'mrtr_gateway_sessions',
      help: 'Open sessions with legacy servers',
      labelNames: ['route'],
      registers,
      collect() {
        for (const [route, count] of gauges.sessions()) this.set({ route }, count);
      },
    });
  }

  /** Creates all series with zero: an alert on an increase would miss the first event of a new series. */
  begin(routes: readonly string[]): void {
    for (const reason of INVALID_REQUEST_STATE_REASONS) this.#refusals.inc({ reason }, 0);
    for (const of of CLOCK_REFUSALS) this.#clockRefusals.inc({ of }, 0);
    for (const route of routes) {
      this.#rounds.inc({ route }, 0);
      this.#answersAhead.inc({ route }, 0);
      for (const rung of [...RUNGS, 'lost'] as const) this.#resumes.inc({ route, rung }, 0);
    }
  }

  /** Records a request. `code` is the JSON-RPC error code, or `null`. `method` is from a closed list. */
  operation(route: string, method: string, code: number | null, ms: number): void {
    this.#operations.observe(
      { mcp_method_name: method, route, error_type: errorType(code) },
      ms / 1000,
    );
  }

  refused(reason: string): void {
    this.#refusals.inc({ reason });
  }

  clockRefused(of: ClockRefusal): void {
    this.#clockRefusals.inc({ of });
  }

  resumed(route: string, rung: Rung | 'lost'): void {
    this.#resumes.inc({ route, rung });
  }

  answeredAhead(route: string): void {
    this.#answersAhead.inc({ route });
  }

  asked(route: string): void {
    this.#rounds.inc({ route });
  }

  text(): Promise<string> {
    return this.#registry.metrics();
  }

  /** Returns all values as plain data, to be summed over processes. */
  snapshot(): Promise<MetricsSnapshot> {
    return this.#registry.getMetricsAsJSON();
  }
}

/** Limits the values of the label: servers can send any code, and each value is a new series for ever. */
function errorType(code: number | null): string {
  if (code === null) return '';
  return NAMED_CODES.has(code) ? String(code) : 'other';
}

type Counts = { readonly [Name in LogEvent]?: (metrics: Metrics, fields: LogEvents[Name]) => void };

const COUNTS: Counts = {
  'pointer.refused': (metrics, { route, reason }) => {
    metrics.refused(reason);
    if (reason === 'unknown-call') metrics.resumed(route, 'lost');
  },
  'clock.refused': (metrics, { of }) => metrics.clockRefused(of),
  'call.resumed': (metrics, { route, rung }) => metrics.resumed(route, rung),
  'call.answered_ahead': (metrics, { route }) => metrics.answeredAhead(route),
  'call.parked': (metrics, { route }) => metrics.asked(route),
};

/** Wraps a log so that the metrics count its events. */
export function countedLog(log: Log, metrics: Metrics): Log {
  return {
    event(name, fields) {
      COUNTS[name]?.(metrics, fields);
      log.event(name, fields);
    },
  };
}

/** Where the worst worker counts, not the mean of all. */
const WORST = /^nodejs_eventloop_lag_(?!min_)/;

/** The metrics of a gateway with several workers: the sums over all of them, and what only the primary knows. */
export class SummedMetrics {
  readonly #registry = new Registry();
  readonly #ends: Counter;
  /** The last snapshot of each worker that runs. */
  readonly #last = new Map<number, MetricsSnapshot>();
  /** What workers that have ended had counted. A sum over the others alone would fall. */
  #ended: MetricsSnapshot = [];

  /** @param running returns the number of workers that serve clients */
  constructor(running: () => number) {
    const registers = [this.#registry];
    collectDefaultMetrics({ register: this.#registry });
    new Gauge({
      name: 'mrtr_gateway_workers',
      help: 'Workers that serve clients; absent if the gateway is one process',
      registers,
      collect() {
        this.set(running());
      },
    });
    this.#ends = new Counter({
      name: 'mrtr_gateway_worker_ends_total',
      help: 'Workers that ended by themselves',
      registers,
    });
  }

  /** Counts a worker that ended, and keeps its counters, as they were in its last snapshot. */
  async workerEnded(worker: number): Promise<void> {
    this.#ends.inc();
    const last = this.#last.get(worker);
    this.#last.delete(worker);
    if (last === undefined) return;
    const counters = last.filter(({ type }) => isCounter(String(type)));
    this.#ended = await sum([this.#ended, counters]).getMetricsAsJSON();
  }

  /** Formats the sums. @param snapshots by worker */
  async text(snapshots: ReadonlyMap<number, MetricsSnapshot>): Promise<string> {
    for (const [worker, snapshot] of snapshots) this.#last.set(worker, snapshot);
    const own = await this.#registry.getMetricsAsJSON();
    // A worker that does not respond counts with what it last said.
    return sum([...this.#last.values(), own, this.#ended]).metrics();
  }
}

function isCounter(type: string): boolean {
  return type === 'counter' || type === 'histogram';
}

function sum(all: readonly MetricsSnapshot[]) {
  return AggregatorRegistry.aggregate(
    all.map((snapshot) =>
      snapshot.map((metric) =>
        WORST.test(metric.name) ? { ...metric, aggregator: 'max' } : metric,
      ),
    ),
  );
}
