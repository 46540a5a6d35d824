/** The server's word that URLs were visited (elicitation, "URL Mode", completion notifications). */
import { createHash } from 'node:crypto';
import { sleep, type Clock } from '../clock.ts';

/** A server may say so of as many URLs as it likes, and its session may last for long. */
const MAX_REMEMBERED = 256;

export class UrlVisits {
  /**
   * Digests of what the server said last, since people visit URLs before their client says that they
   * did; what was said longest ago comes first.
   */
  readonly #remembered = new Set<string>();
  readonly #waiters = new Set<(elicitation: string) => void>();

  completed(elicitationId: string): void {
    const elicitation = digest(elicitationId);
    this.#remembered.delete(elicitation);
    this.#remembered.add(elicitation);
    for (const oldest of this.#remembered) {
      if (this.#remembered.size <= MAX_REMEMBERED) break;
      this.#remembered.delete(oldest);
    }
    for (const waiter of this.#waiters) waiter(elicitation);
  }

  /** Resolves when all these elicitations are complete, after `waitMs`, or when the signal aborts. */
  async all(
    elicitationIds: readonly string[],
    clock: Clock,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<void> {
    const missing = new Set(elicitationIds.map(digest).filter((one) => !this.#remembered.has(one)));
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

function digest(elicitationId: string): string {
  return createHash('sha256').update(elicitationId).digest('base64url');
}
