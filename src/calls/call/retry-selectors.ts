/** What a retry finds when it comes to a call in some state. */
import type { CallState } from '../machine/states.ts';
import { isEndedByDrain } from '../machine/selectors.ts';

/** The round that a pointer must name to be answered now, or 0. */
export function openRound(state: CallState): number {
  return state.name === 'parked' || state.name === 'suspended' ? state.round : 0;
}

/** The exchange is gone or given up, or the server gave up waiting: only a new call could help. */
export function isLost(state: CallState): boolean {
  if (isEndedByDrain(state)) return true;
  if (state.name === 'done') return state.end.type === 'lost';
  if (state.name !== 'settled') return false;
  const { outcome } = state;
  return outcome.kind === 'failed' || outcome.result['isError'] === true;
}

/** The retry is one that the call is waiting for, now that its exchange is over, or has had. */
export function isKnownTo(state: CallState, round: number, answersDigest: string): boolean {
  if (state.name !== 'done' && state.name !== 'settled' && state.name !== 'cancelling')
    return false;
  const { consumed } = state;
  const isRepeated = consumed?.round === round && consumed.answersDigest === answersDigest;
  return round === state.round || isRepeated;
}
