/**
 * The life of a parked call as a table: from which state, on which event, under which condition, to
 * which state, with which effects. Pure: no I/O, no clock, no randomness. Everything that changes a
 * call's state is in this folder; the runner only feeds events and carries out effects.
 *
 * Laws (each has a property test): an input request is answered upstream at most once; every waiter gets
 * exactly one reply; a pointer's round is consumed at most once, and its exact repetition gives the
 * identical reply; no state is without a deadline; whatever ends a call frees what it holds once.
 *
 * Rows are grouped by event, and the first row that matches counts, so order matters only within one
 * file. An event that no row mentions for a state changes nothing. docs/parked-call.md is made from
 * these rows.
 */
import { CLIENT_LEAVES } from './client-leaves.ts';
import { PROCESS_LEAVES } from './process-leaves.ts';
import { RETRIES } from './retries.ts';
import type { Row } from './steps.ts';
import { isBroken, waitingRetries } from './selectors.ts';
import { SERVER_ASKS } from './server-asks.ts';
import { SERVER_ENDS, STREAM } from './server-ends.ts';
import type { CallEvent, CallLimits, CallState, Effect, WaiterId, Step } from './states.ts';

export const TRANSITIONS: readonly Row[] = [
  ...SERVER_ASKS,
  ...SERVER_ENDS,
  ...STREAM,
  ...RETRIES,
  ...CLIENT_LEAVES,
  ...PROCESS_LEAVES,
];

const ROWS_BY_EVENT = Map.groupBy(TRANSITIONS, ({ on }) => on);

/** A step, and the row it was made by; `null` when none matched, and then nothing changes. */
type Transition = Step & { readonly row: Row | null };

/** Moves a call: the row that matched (or none) and what follows from it. */
export function step(state: CallState, event: CallEvent, limits: CallLimits): Transition {
  const row = ROWS_BY_EVENT.get(event.type)?.find(
    ({ from, when }) => from.includes(state.name) && (when === null || when(state, event, limits)),
  );
  if (row === undefined) return { state, effects: [], row: null };
  const next = row.then(state, event, limits);
  const freed = retriesFreed(state, next);
  const effects = freed.length === 0 ? next.effects : [...next.effects, ...freed];
  return { state: next.state, effects, row };
}

/** Looks at the retries again that waited for a stream, once nothing is left to wait for. */
function retriesFreed(state: CallState, next: Step): readonly Effect[] {
  if (!isBroken(state) || isBroken(next.state)) return [];
  const retries = waitingRetries(state).filter(({ waiter }) => !isTold(waiter, next.effects));
  return retries.length === 0 ? [] : [{ do: 'retryWaiting', retries }];
}

function isTold(waiter: WaiterId, effects: readonly Effect[]): boolean {
  return effects.some((effect) => effect.do === 'reply' && effect.waiters.includes(waiter));
}
