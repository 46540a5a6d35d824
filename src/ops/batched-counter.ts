/** Counters of what happens with every request. */
import { Counter, type Registry } from 'prom-client';

interface BatchedCounterOptions<Label extends string> {
  readonly name: string;
  readonly help: string;
  readonly labels: readonly Label[];
  readonly registry: Registry;
}

/** A counter that the library is told of only when it is read: it sorts and hashes the labels for each increment. */
export class BatchedCounter<Label extends string> {
  readonly #labels: readonly Label[];
  /** Since the last reading, by the values of the labels. */
  readonly #news = new Map<string, { readonly values: readonly string[]; count: number }>();

  constructor({ name, help, labels, registry }: BatchedCounterOptions<Label>) {
    this.#labels = labels;
    const tell = (counter: Counter<Label>) => {
      for (const { values, count } of this.#news.values()) {
        counter.inc(this.#labelsOf(values), count);
      }
      this.#news.clear();
    };
    new Counter({
      name,
      help,
      labelNames: [...labels],
      registers: [registry],
      collect() {
        tell(this);
      },
    });
  }

  /**
   * @param count 0 creates the series
   * @param values of the labels, in their order
   */
  add(count: number, ...values: readonly string[]): void {
    const key = values.join('\n');
    const news = this.#news.get(key);
    if (news === undefined) this.#news.set(key, { values, count });
    else news.count += count;
  }

  #labelsOf(values: readonly string[]): Record<Label, string> {
    const pairs = this.#labels.map((label, index) => [label, values[index] ?? ''] as const);
    return Object.fromEntries(pairs) as Record<Label, string>;
  }
}
