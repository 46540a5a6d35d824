/** The server's word that URLs were visited (elicitation, "URL Mode", completion notifications). */
import { sleep, type Clock } from '../clock.ts';

export class UrlVisits {
  readonly #visited = new Set<string>();
  readonly #waiters = new Set<() => void>();

  completed(elicitationId: string): void {
    this.#visited.add(elicitationId);
    for (const waiter of this.#waiters) waiter();
  }

  /** Resolves when all these elicitations are complete, after `waitMs`, or when the signal aborts. */
  async all(
    elicitationIds: readonly string[],
    clock: Clock,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<void> {
    const deadline = sleep(clock, waitMs, signal).then(() => 'late' as const);
    while (!elicitationIds.every((id) => this.#visited.has(id))) {
      const { promise, resolve } = Promise.withResolvers<'visited'>();
      const waiter = () => resolve('visited');
      this.#waiters.add(waiter);
      const outcome = await Promise.race([promise, deadline]);
      this.#waiters.delete(waiter);
      if (outcome === 'late') return;
    }
  }
}
