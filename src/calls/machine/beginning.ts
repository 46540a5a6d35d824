/** The first states of a call: one that a client makes, and one that another replica had. */
import type { CallLimits, ConsumedRetry, LegId, Live, OpenRequest, Step } from './states.ts';
import { callTimer, parkTimer, waitTimers } from './effects.ts';

/**
 * The first state of a call: its first leg waits and the request is on its way upstream.
 * @param consumed the retry for which the call is made anew, if it was there before
 */
export function begin(leg: LegId, limits: CallLimits, consumed: ConsumedRetry | null = null): Step {
  const round = (consumed?.round ?? 0) + 1;
  return {
    state: { name: 'running', round, legs: [leg], consumed },
    effects: [...waitTimers(limits), callTimer(limits)],
  };
}

/**
 * The first state of a call that another replica had: its questions are with the client, and its
 * stream is yet to be taken up. The retry that brought it here waits as for any broken stream.
 */
export function adopt(round: number, open: readonly OpenRequest[], limits: CallLimits): Step {
  const interrupted: Live =
    open.length > 0
      ? { name: 'parked', round, consumed: null, open }
      : { name: 'idle', round, consumed: null };
  return {
    state: { name: 'broken', interrupted, waiting: [] },
    effects: [parkTimer(limits), callTimer(limits)],
  };
}
