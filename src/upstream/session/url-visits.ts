/** The server's word that URLs were visited (elicitation, "URL Mode", completion notifications). */
import { sleep, type Clock } from '../../lib/clock.ts';
import { LruMap } from '../../lib/lru-map.ts';
import { sha256 } from '../../lib/sha256.ts';

/** A server may say so of as many URLs as it likes, and its session may last for long. */
const MAX_REMEMBERED = 256;

export class UrlVisits {
  /**
   * Digests of what the server said last, since people visit URLs before their client says that they
   * did.
   */
  readonly #remembered = new LruMap<string, true>(MAX_REMEMBERED);
  readonly #waiters = new Set<(elicitation: string) => void>();

  completed(elicitationId: string): void {
    const elicitation = sha256(elicitationId);
    this.#remembered.set(elicitation, true);
    for (const waiter of this.#waiters) waiter(elicitation);
  }

  /** Resolves when all these elicitations are complete, after `waitMs`, or when the signal aborts. */
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
    await sleep(clock, waitMs, AbortSignal.any([signal, over.signal]));
    this.#waiters.delete(waiter);
  }
}
