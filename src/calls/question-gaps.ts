/** Which tools ask several questions a little apart: their questions are gathered for longer. */
import { LruMap } from '../lib/lru-map.ts';
import type { CallLimits } from './machine/states.ts';

/** Targets are named by clients, so only so many are remembered. */
const MAX_TARGETS = 1_000;
/** How long to wait for the next question of a tool that was seen to ask several apart, in ms. */
const APART_WINDOW_MS = 30;

export class QuestionGaps {
  readonly #limits: CallLimits;
  readonly #limitsApart: CallLimits;
  readonly #asksApart = new LruMap<string, true>(MAX_TARGETS);

  constructor(limits: CallLimits) {
    this.#limits = limits;
    const gatherWindowMs = Math.max(limits.gatherWindowMs, APART_WINDOW_MS);
    this.#limitsApart = { ...limits, gatherWindowMs };
  }

  /**
   * Returns the limits for a call of this target.
   * @param target the tool, prompt or resource, as the log shows it
   */
  limitsFor(target: string): CallLimits {
    return this.#asksApart.get(target) === undefined ? this.#limits : this.#limitsApart;
  }

  /**
   * Notes a question that came while the client already had others.
   * @param gapMs the time since those were sent to the client
   */
  askedAgain(target: string, gapMs: number): void {
    if (gapMs < this.#limits.gatherLimitMs) this.#asksApart.set(target, true);
  }
}
