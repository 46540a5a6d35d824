/** How many processes serve the clients, and when one that ended by itself is replaced. */
import { availableParallelism } from 'node:os';
import type { Config } from '../config/schema.ts';
import type { Log } from '../ops/log.ts';
import { canSharePorts } from '../lib/listen.ts';

/**
 * Decides how many workers to start.
 * @param canShare tells whether processes can share a port on this platform
 */
export async function numberOfWorkers(
  wanted: Config['workers'],
  log: Log,
  canShare: () => Promise<boolean> = canSharePorts,
): Promise<number> {
  const count = wanted === 'auto' ? availableParallelism() : wanted;
  if (count === 1 || (await canShare())) return count;
  log.event('gateway.one_worker', {});
  return 1;
}

/** So many ends within this time are a crash loop. */
const MAX_ENDS = 5;
const WITHIN_MS = 60_000;
const FIRST_DELAY_MS = 100;

/** When a worker that ended by itself is replaced, and when that is given up. */
export class Restarts {
  readonly #endedAtMs: number[] = [];

  /**
   * Counts the end of a worker.
   * @param nowMs the time, in ms of `Clock.elapsed`
   * @returns after how many ms it is replaced, or `null` if workers end too often
   */
  next(nowMs: number): number | null {
    while ((this.#endedAtMs[0] ?? nowMs) < nowMs - WITHIN_MS) this.#endedAtMs.shift();
    const before = this.#endedAtMs.push(nowMs) - 1;
    return before + 1 >= MAX_ENDS ? null : FIRST_DELAY_MS * 3 ** before;
  }
}
