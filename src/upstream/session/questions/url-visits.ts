/** Remembers which URL elicitations the server reported as complete (elicitation, "URL Mode"). */
import { sleep, type Clock } from '../../../lib/clock.ts';
import { LruMap } from '../../../lib/containers.ts';
import { sha256 } from '../../../lib/crypto.ts';

/** The most elicitations that are remembered; a server may report any number. */
const MAX_REMEMBERED = 256;

export class UrlVisits {
  /** Digests of the last reports: a user visits the URL before the client says so. */
  readonly #remembered = new LruMap<string, true>(MAX_REMEMBERED);
  readonly #waiters = new Set<(elicitation: string) => void>();

  completed(elicitationId: string): void {
    const elicitation = sha256(elicitationId);
    this.#remembered.set(elicitation, true);
    for (const waiter of this.#waiters) waiter(elicitation);
  }

  /** Resolves when all these elicitations are complete, after `waitMs`, or if the signal aborts. */
  async all(
    elicitationIds: readonly string[],
    clock: Clock,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<void> {
    const missing = new Set(elicitationIds.map(sha256).filter((one) => !this.#remembered.has(one)));
    if (missing.size === 0) return;
    const over = new AbortController();
    const waiter = (elicitation: string) => {
      missing.delete(elicitation);
      if (missing.size === 0) over.abort();
    };
    this.#waiters.add(waiter);
    await sleep(clock, waitMs, signal, over.signal);
    this.#waiters.delete(waiter);
  }
}
