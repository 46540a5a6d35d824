/** Counters and histograms of what happens with every request: they find a series by one text. */
import { Counter, type Metric, type Registry } from 'prom-client';

interface BatchedCounterOptions<Label extends string> {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly Label[];
  readonly registry: Registry;
}

interface CountedSeries<Label extends string> {
  readonly labels: Readonly<Record<Label, string>>;
  /** Since the last reading. */
  count: number;
}

/** A counter that the library is told of only when it is read: it sorts and hashes the labels for each increment. */
export class BatchedCounter<Label extends string> {
  readonly #labels: readonly Label[];
  readonly #series: Map<string, CountedSeries<Label>>;

  constructor({ name, help, labels, registry }: BatchedCounterOptions<Label>) {
    const all = new Map<string, CountedSeries<Label>>();
    this.#labels = labels;
    this.#series = all;
    new Counter({
      name,
      help,
      labelNames: [...labels],
      registers: [registry],
      collect() {
        for (const series of all.values()) {
          this.inc(series.labels, series.count);
          series.count = 0;
        }
      },
    });
  }

  /**
   * @param count 0 creates the series
   * @param values of the labels, in their order
   */
  add(count: number, ...values: readonly string[]): void {
    const key = values.join('\n');
    const series = this.#series.get(key);
    if (series !== undefined) series.count += count;
    else this.#series.set(key, { labels: labelled(this.#labels, values), count });
  }
}

interface LabelledSeries<Label extends string> {
  readonly labels: Readonly<Record<Label, string>>;
  /** By bucket, not cumulative; the last one has no upper bound. */
  readonly counts: number[];
  sum: number;
}

interface DurationHistogramOptions<Label extends string> extends BatchedCounterOptions<Label> {
  /** The upper bounds, in seconds. */
  readonly buckets: readonly number[];
}

/**
 * A histogram that finds a series by one text. That of the library sorts and hashes all labels for each value, which takes
 * microseconds of every request.
 */
export class DurationHistogram<Label extends string> {
  readonly #options: DurationHistogramOptions<Label>;
  readonly #series = new Map<string, LabelledSeries<Label>>();

  constructor(options: DurationHistogramOptions<Label>) {
    const { name, registry } = options;
    this.#options = options;
    // The types name the library's own classes. A registry only calls `get`.
    registry.registerMetric({ name, get: async () => this.#get() } as unknown as Metric);
  }

  /** @param values of the labels, in their order */
  observe(ms: number, ...values: readonly string[]): void {
    const { buckets } = this.#options;
    const key = values.join('\n');
    let series = this.#series.get(key);
    if (series === undefined) {
      series = {
        labels: labelled(this.#options.labels, values),
        counts: Array<number>(buckets.length + 1).fill(0),
        sum: 0,
      };
      this.#series.set(key, series);
    }
    const seconds = ms / 1000;
    let bucket = 0;
    while (bucket < buckets.length && seconds > buckets[bucket]!) bucket += 1;
    series.counts[bucket]! += 1;
    series.sum += seconds;
  }

  #get() {
    const { name, help, buckets } = this.#options;
    const values = [...this.#series.values()].flatMap(({ labels, counts, sum }) => {
      let total = 0;
      const cumulative = counts.map((count, index) => ({
        metricName: `${name}_bucket`,
        labels: { ...labels, le: buckets[index] ?? '+Inf' },
        value: (total += count),
      }));
      return [
        ...cumulative,
        { metricName: `${name}_sum`, labels, value: sum },
        { metricName: `${name}_count`, labels, value: total },
      ];
    });
    return { name, help, type: 'histogram', values, aggregator: 'sum' };
  }
}

/** @param values of the labels, in their order */
function labelled<Label extends string>(
  labels: readonly Label[],
  values: readonly string[],
): Record<Label, string> {
  const pairs = labels.map((label, index) => [label, values[index] ?? ''] as const);
  return Object.fromEntries(pairs) as Record<Label, string>;
}
