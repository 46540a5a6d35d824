/** How many calls wait for a session or for their turn in one, and for how long. */
import { UpstreamFailure } from '../upstream/failure.ts';

export interface QueueLimits {
  /** The most calls that wait at once. */
  readonly length: number;
  /** How long one call waits, in ms. */
  readonly waitMs: number;
}

/** Builds the failure of a call that has waited in vain. Nothing of it was sent. */
export function busy(problem: string): UpstreamFailure {
  return new UpstreamFailure('upstream_busy', problem, { mayHaveActed: false });
}
