/** The legs of a state that wait for a reply. */
import type { CallState, LegId } from './states.ts';
import { isAttached } from './state-groups.ts';

export function attachedLegs(state: CallState): readonly LegId[] {
  if (isAttached(state)) return state.legs;
  if (state.name !== 'broken') return [];
  return [...attachedLegs(state.interrupted), ...state.waiting.map((retry) => retry.leg)];
}

export function withoutLeg<State extends { legs: readonly LegId[] }>(
  state: State,
  leg: LegId,
): State {
  return { ...state, legs: state.legs.filter((candidate) => candidate !== leg) };
}
