/** The step by which a call is parked: its questions go to the client, and it waits. */
import type { CallLimits, ConsumedRetry, LegId, OpenRequest, Step } from './states.ts';
import { askClient } from './effects.ts';

export function park(
  { round, consumed }: { readonly round: number; readonly consumed: ConsumedRetry | null },
  legs: readonly LegId[],
  open: readonly OpenRequest[],
  limits: CallLimits,
): Step {
  return {
    state: { name: 'parked', round, consumed, open },
    effects: askClient(legs, round, open, limits),
  };
}
