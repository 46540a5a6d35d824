/** The state that a call is in, and the table that moves it. */
import type { CallEvent, CallLimits, CallState, Effect } from '../machine/states.ts';
import { step } from '../machine/table.ts';

/** A move that the table made, and the rule that it made it by. */
export interface Moved {
  readonly rule: string;
  readonly from: CallState;
  readonly to: CallState;
  readonly effects: readonly Effect[];
}

export class Machine {
  readonly #limits: CallLimits;
  readonly #moved: (move: Moved) => void;
  #state: CallState;

  /** @param moved carries out what a move asks for; it may feed the next event at once */
  constructor(initial: CallState, limits: CallLimits, moved: (move: Moved) => void) {
    this.#state = initial;
    this.#limits = limits;
    this.#moved = moved;
  }

  get state(): CallState {
    return this.#state;
  }

  /** The call came to its end, or is on its way there. */
  get isOver(): boolean {
    return this.#state.name === 'cancelling' || this.#state.name === 'done';
  }

  /** Sets the state from which the first event moves. */
  begin(state: CallState): void {
    this.#state = state;
  }

  /** Moves the call if the table has a row for the event, and leaves it alone if not. */
  feed(event: CallEvent): void {
    const from = this.#state;
    const { state: to, effects, row } = step(from, event, this.#limits);
    if (row === null) return;
    this.#state = to;
    this.#moved({ rule: row.rule, from, to, effects });
  }
}
