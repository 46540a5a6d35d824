/** How a row is found and applied: the first one that matches counts. */
import type { CallEvent, CallLimits, CallState, Step } from './states.ts';
import type { Row } from './row.ts';

/** A step, and the row it was made by; `null` when none matched, and then nothing changes. */
export type Move = Step & { readonly row: Row | null };

/** Moves a state by the first of these rows that matches. */
export function firstMatch(
  rows: readonly Row[],
  state: CallState,
  event: CallEvent,
  limits: CallLimits,
): Move {
  const match = rows.find(
    (candidate) =>
      candidate.on === event.type &&
      candidate.from.includes(state.name) &&
      candidate.when(state, event, limits),
  );
  if (match === undefined) return { state, effects: [], row: null };
  return { ...match.then(state, event, limits), row: match };
}
