/** Histograms of durations, for requests. */
import type { Metric, Registry } from 'prom-client';

interface LabelledSeries<Label extends string> {
  readonly labels: Readonly<Record<Label, string>>;
  /** By bucket, not cumulative; the last one has no upper bound. */
  readonly counts: number[];
  sum: number;
}

export interface DurationHistogramOptions<Label extends string> {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly Label[];
  /** The upper bounds, in seconds. */
  readonly buckets: readonly number[];
  readonly registry: Registry;
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
        counts: Array(buckets.length + 1).fill(0),
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
export function labelled<Label extends string>(
  labels: readonly Label[],
  values: readonly string[],
): Record<Label, string> {
  const pairs = labels.map((label, index) => [label, values[index] ?? ''] as const);
  return Object.fromEntries(pairs) as Record<Label, string>;
}
