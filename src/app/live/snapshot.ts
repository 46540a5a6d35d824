/** What the live page shows: the sum of what processes told. */
import type { Config } from '../../config/schema.ts';
import type { Clock } from '../../lib/clock.ts';
import { VERSION } from '../../lib/program.ts';
import { sumParts, type LiveSnapshot } from '../../ops/live/snapshot.ts';
import type { LiveView } from './others.ts';

/** Sums what processes told. */
export function snapshotOf(
  { parts, missing }: LiveView,
  clock: Pick<Clock, 'now'>,
  config: Config,
): LiveSnapshot {
  const actions: LiveSnapshot['actions'] = mayStop(config) ? ['cancel'] : [];
  return sumParts(parts, missing, { version: VERSION, atMs: clock.now(), actions });
}

/** Tells whether calls can be cancelled from the live page. */
export function mayStop({ adminActions }: Config): boolean {
  return adminActions === 'cancel';
}
