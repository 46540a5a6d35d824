/** What is wrong with the store while it is unreachable. */
import type { DirectoryUnavailable } from '../../model/store.ts';

export class Outage {
  readonly #listeners: ((problem: string) => void)[] = [];
  readonly #told = new Set<string>();

  /** Calls the listener with each cause of an outage, once. */
  onCause(listener: (problem: string) => void): void {
    this.#listeners.push(listener);
  }

  /** The store is unreachable. */
  begin(cause: DirectoryUnavailable): void {
    this.#told.clear();
    this.#tell(cause);
  }

  /** Another attempt failed. That a connection closed, as it did at the beginning, can have a reason that only this one shows. */
  goOn(cause: DirectoryUnavailable): void {
    if (cause.failure !== 'network') this.#tell(cause);
  }

  #tell({ message }: DirectoryUnavailable): void {
    if (this.#told.has(message)) return;
    this.#told.add(message);
    for (const listener of this.#listeners) listener(message);
  }
}
