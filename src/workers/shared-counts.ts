/**
 * Counts that the workers of a gateway share. Each worker reports what it counts, and the primary sends each the sum
 * of the others. Both wait a moment to send many changes at once, so a worker knows the others' counts with a
 * delay of about twice `REPORT_AFTER_MS`.
 */
import { LocalCounts } from '../lib/counts.ts';
import type { Clock } from '../lib/clock.ts';

export type CountEntries = readonly (readonly [name: string, count: number])[];

const REPORT_AFTER_MS = 10;

/** Creates a function to call with each name that changes. The names of `REPORT_AFTER_MS` are sent together. */
function batched(clock: Clock, send: (names: readonly string[]) => void): (name: string) => void {
  const changed = new Set<string>();
  return (name) => {
    if (changed.size === 0) {
      clock.setTimer(REPORT_AFTER_MS, () => {
        const names = [...changed];
        changed.clear();
        send(names);
      });
    }
    changed.add(name);
  };
}

/** The counts of one worker. */
export class SharedCounts extends LocalCounts {
  readonly #elsewhere = new Map<string, number>();
  readonly #changed: (name: string) => void;
  readonly #listeners = new Set<() => void>();

  /** @param report sends what this worker counts to the primary */
  constructor(clock: Clock, report: (entries: CountEntries) => void) {
    super();
    this.#changed = batched(clock, (names) => {
      report(names.map((name) => [name, this.own(name)]));
    });
  }

  override add(name: string, change: number): void {
    super.add(name, change);
    this.#changed(name);
  }

  override elsewhere(name: string): number {
    return this.#elsewhere.get(name) ?? 0;
  }

  /** Takes over what the other workers count. */
  receive(entries: CountEntries): void {
    for (const [name, count] of entries) {
      if (count === 0) this.#elsewhere.delete(name);
      else this.#elsewhere.set(name, count);
    }
    for (const listener of this.#listeners) listener();
  }

  override onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }
}

/** The counts of all workers, as the primary keeps them. */
export class CountSums {
  readonly #workers = new Map<number, Map<string, number>>();
  readonly #totals = new Map<string, number>();
  readonly #changed: (name: string) => void;

  /** @param send sends a worker what the others count */
  constructor(clock: Clock, send: (worker: number, entries: CountEntries) => void) {
    this.#changed = batched(clock, (names) => {
      for (const worker of this.#workers.keys()) send(worker, this.#elsewhere(worker, names));
    });
  }

  /** Adds a worker. @returns what the others count now */
  join(worker: number): CountEntries {
    this.#workers.set(worker, new Map());
    return this.#elsewhere(worker, [...this.#totals.keys()]);
  }

  /** Takes the report of a worker. One of a worker that has left is ignored. */
  report(worker: number, entries: CountEntries): void {
    const own = this.#workers.get(worker);
    if (own === undefined) return;
    for (const [name, count] of entries) this.#set(own, name, count);
  }

  /** Removes a worker and all that it counted. */
  leave(worker: number): void {
    const own = this.#workers.get(worker);
    if (own === undefined) return;
    this.#workers.delete(worker);
    for (const name of [...own.keys()]) this.#set(own, name, 0);
  }

  #set(own: Map<string, number>, name: string, count: number): void {
    const total = (this.#totals.get(name) ?? 0) + count - (own.get(name) ?? 0);
    if (count === 0) own.delete(name);
    else own.set(name, count);
    if (total === 0) this.#totals.delete(name);
    else this.#totals.set(name, total);
    this.#changed(name);
  }

  #elsewhere(worker: number, names: readonly string[]): CountEntries {
    const own = this.#workers.get(worker);
    return names.map((name) => [name, (this.#totals.get(name) ?? 0) - (own?.get(name) ?? 0)]);
  }
}
