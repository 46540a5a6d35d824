/**
 * The owner's question whether a retry that it read still counts. Its letter may have lain in a socket or a
 * mailbox while this process stood still, and the client may have been answered in the meantime.
 */
import type { Clock } from '../../lib/clock.ts';
import { randomId } from '../../lib/random-id.ts';
import { CONFIRMED_WITHIN_MS, giveSigns } from './heartbeat.ts';

export class Confirmation {
  readonly #clock: Clock;
  readonly #ask: (question: string) => void;
  /** When each question was asked that may be answered still. */
  readonly #askedAtMs = new Map<string, number>();
  readonly #settled = Promise.withResolvers<boolean>();
  #stopAsking = () => {};

  /** @param ask sends a question */
  constructor(clock: Clock, ask: (question: string) => void) {
    this.#clock = clock;
    this.#ask = ask;
  }

  /**
   * Asks until a question is answered in time.
   * @returns whether one was; `false` if it was given up before
   */
  asked(): Promise<boolean> {
    this.#stopAsking = giveSigns(this.#clock, () => this.#askAnew());
    this.#askAnew();
    return this.#settled.promise;
  }

  /** An answer that comes late, as it does after this process stood still, counts for nothing. */
  answered(question: string): void {
    const askedAtMs = this.#askedAtMs.get(question);
    if (askedAtMs === undefined) return;
    if (this.#clock.elapsed() - askedAtMs <= CONFIRMED_WITHIN_MS) this.#settle(true);
    else this.#askAnew();
  }

  giveUp(): void {
    this.#settle(false);
  }

  #settle(isGiven: boolean): void {
    this.#stopAsking();
    this.#settled.resolve(isGiven);
  }

  #askAnew(): void {
    const nowMs = this.#clock.elapsed();
    for (const [question, askedAtMs] of this.#askedAtMs) {
      if (nowMs - askedAtMs > CONFIRMED_WITHIN_MS) this.#askedAtMs.delete(question);
    }
    const question = randomId();
    this.#askedAtMs.set(question, nowMs);
    this.#ask(question);
  }
}
