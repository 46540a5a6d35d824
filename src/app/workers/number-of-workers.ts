/** How many processes serve the clients. */
import { availableParallelism } from 'node:os';
import type { Config } from '../../config/schema.ts';
import type { Log } from '../../ops/log.ts';
import { canSharePorts } from '../listen.ts';

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
