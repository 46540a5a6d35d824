/** States that rows have in common: where a client is connected, and where the exchange still runs. */
import type { CallState, StateNamed } from './states.ts';

export const ATTACHED = ['running', 'gathering', 'resuming'] as const;
export const DETACHED = ['parked', 'idle', 'settled', 'suspended'] as const;
export const LIVE = ['running', 'gathering', 'resuming', 'parked', 'idle'] as const;

export function isAttached(state: CallState): state is StateNamed<(typeof ATTACHED)[number]> {
  return (ATTACHED as readonly string[]).includes(state.name);
}

export function isDetached(state: CallState): state is StateNamed<(typeof DETACHED)[number]> {
  return (DETACHED as readonly string[]).includes(state.name);
}

export function isLive(state: CallState): state is StateNamed<(typeof LIVE)[number]> {
  return (LIVE as readonly string[]).includes(state.name);
}

/** The process stops, and ended the call since nothing can go on with it elsewhere. */
export function isEndedByDrain(state: CallState): boolean {
  if (state.name !== 'cancelling' && state.name !== 'done') return false;
  return state.end.type === 'refused' && state.end.reason === 'draining';
}

/** What goes on as soon as the stream is back, for a call whose stream is being resumed. */
export function unbroken(state: CallState): Exclude<CallState, StateNamed<'broken'>> {
  return state.name === 'broken' ? state.interrupted : state;
}
