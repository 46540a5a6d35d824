/**
 * The life of a parked call as a table: from which state, on which event, under which condition, to
 * which state, with which effects. Pure: no I/O, no clock, no randomness. Everything that changes a
 * call's state stands here; the bridge only feeds events and carries out effects.
 *
 * Laws (each has a property test): an input request is answered upstream at most once; every leg gets
 * exactly one reply; a pointer's round is consumed at most once, and its exact repetition gives the
 * identical reply; no state is without a deadline; whatever ends a call releases what it holds once.
 *
 * The first row that matches counts, so the order of the groups does, too. An event that no row
 * mentions for a state changes nothing. The diagram in docs/parked-call.md is drawn from these rows.
 */
import type { CallEvent, CallLimits, CallState } from './states.ts';
import { ASKING } from './asking.ts';
import { BREAKING } from './breaking.ts';
import { CLOSING } from './closing.ts';
import { ENDING } from './ending.ts';
import { firstMatch, type Move } from './first-match.ts';
import { GIVING_UP } from './giving-up.ts';
import { LEAVING } from './leaving.ts';
import { PARKING } from './parking.ts';
import { POSTING } from './posting.ts';
import { REPEATING } from './repeating.ts';
import { RETRYING } from './retrying.ts';
import type { Row } from './row.ts';
import { SUSPENDING } from './suspending.ts';
import { throughBreak } from './through-break.ts';

const UNBROKEN: readonly Row[] = [
  ...ASKING,
  ...PARKING,
  // A retry of the open round is looked for before one that repeats an earlier round.
  ...RETRYING,
  ...SUSPENDING,
  ...REPEATING,
  ...POSTING,
  ...ENDING,
  ...CLOSING,
  ...GIVING_UP,
  ...LEAVING,
  ...BREAKING,
];

export const TRANSITIONS: readonly Row[] = [...UNBROKEN, ...throughBreak(UNBROKEN)];

/** Moves a call: the row that matched (or none) and what follows from it. */
export function step(state: CallState, event: CallEvent, limits: CallLimits): Move {
  return firstMatch(TRANSITIONS, state, event, limits);
}
