/** Counters of what happens with every request. */
import { Counter, type Registry } from 'prom-client';
import { labelled } from './duration-histogram.ts';

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
