/** The metrics of a gateway with several workers. */
import { AggregatorRegistry, Counter, Gauge, Registry } from 'prom-client';
import { metricsOfProcess, registerReloads, type ReloadState } from './gauges.ts';
import type { MetricsSnapshot } from './metrics.ts';

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

  /**
   * @param running returns the number of workers that serve clients
   * @param reloads what became of the last configuration
   */
  constructor(running: () => number, reloads: () => ReloadState) {
    registerReloads(this.#registry, reloads);
    // They count from here on.
    metricsOfProcess();
    const registers = [this.#registry];
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
      help: 'Workers that exited unexpectedly',
      registers,
    });
  }

  /** Counts a worker that ended, and keeps its counters, as they were in its last snapshot. */
  async workerEnded(worker: number): Promise<void> {
    this.#ends.inc();
    const last = this.#last.get(worker);
    this.#last.delete(worker);
    if (last === undefined) return;
    const counters = last.filter(({ type }) => ['counter', 'histogram'].includes(String(type)));
    this.#ended = await sum([this.#ended, counters]).getMetricsAsJSON();
  }

  /** Formats the sums. @param snapshots by worker */
  async text(snapshots: ReadonlyMap<number, MetricsSnapshot>): Promise<string> {
    for (const [worker, snapshot] of snapshots) this.#last.set(worker, snapshot);
    const own = await this.#registry.getMetricsAsJSON();
    const ofProcess = await metricsOfProcess().getMetricsAsJSON();
    // A worker that does not respond counts with what it last said.
    return sum([...this.#last.values(), own, ofProcess, this.#ended]).metrics();
  }
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
