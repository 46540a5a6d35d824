/** States that rows have in common: where a client is connected, and where the exchange still runs. */
import type { CallState, StateNamed } from '../call-state.ts';

export const ATTACHED = ['running', 'gathering', 'resuming'] as const;
export const DETACHED = ['parked', 'idle', 'settled', 'suspended'] as const;
export const LIVE = ['running', 'gathering', 'resuming', 'parked', 'idle'] as const;

export function isAttached(state: CallState): state is StateNamed<(typeof ATTACHED)[number]> {
  return (ATTACHED as readonly string[]).includes(state.name);
}

export function isLive(state: CallState): state is StateNamed<(typeof LIVE)[number]> {
  return (LIVE as readonly string[]).includes(state.name);
}
