/** The state that a call is in, the events that wait, and the table that moves it. */
import type { CallEvent, CallLimits, CallState, Effect } from '../machine/states.ts';
import { step } from '../machine/table.ts';

/** A move that the table made, and the rule that it made it by. */
export interface Transition {
  readonly rule: string;
  readonly event: CallEvent;
  readonly from: CallState;
  readonly to: CallState;
  readonly effects: readonly Effect[];
}

export class Machine {
  readonly #limits: CallLimits;
  readonly #moved: (transition: Transition) => void;
  /** Events that came while another one was worked on. */
  readonly #queue: CallEvent[] = [];
  #isMoving = false;
  #state: CallState;

  /** @param moved carries out what a transition asks for; events that it feeds wait until it returns */
  constructor(initial: CallState, limits: CallLimits, moved: (transition: Transition) => void) {
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

  /**
   * Moves the call if the table has a row for the event, and leaves it alone if not. Each event runs to
   * completion: one that comes out of the effects of another is looked at after them.
   */
  feed(event: CallEvent): void {
    this.#queue.push(event);
    if (this.#isMoving) return;
    this.#isMoving = true;
    try {
      for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
        this.#move(next);
      }
    } finally {
      this.#isMoving = false;
    }
  }

  #move(event: CallEvent): void {
    const from = this.#state;
    const { state: to, effects, row } = step(from, event, this.#limits);
    if (row === null) return;
    this.#state = to;
    this.#moved({ rule: row.rule, event, from, to, effects });
  }
}
