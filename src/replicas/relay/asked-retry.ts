/**
 * A retry of ours that another replica is asked to serve, and that may be given up before that one is done
 * with it. Then its client is there still, and comes again: whoever has the call is told so for a while.
 */
import type { Leg } from '../../model/request.ts';
import type { Relayed } from '../../model/relay.ts';
import type { Clock, Timer } from '../../lib/clock.ts';
import { LETTER_LIFETIME_MS } from './sealed-message.ts';
import { readRelayLines, type RelayLine } from './messages.ts';
import { giveSigns, OWNER_SILENCE_MS, watchForSilence } from './heartbeat.ts';

export interface AskedRetryOptions {
  readonly clock: Clock;
  /** Gives the owner a sign of life; resolves with false while the store is away. */
  sign(): Promise<boolean>;
  /** Called once, when no more is said about this retry from here. */
  over(): void;
}

/** How long the client of a retry that was given up may take to come again. */
const COMING_AGAIN_MS = LETTER_LIFETIME_MS;

export class AskedRetry {
  readonly #leg: Leg;
  readonly #options: AskedRetryOptions;
  readonly #relayed = Promise.withResolvers<Relayed>();
  #state: 'asked' | 'givenUp' | 'over' = 'asked';
  readonly #stopWatching: () => void;
  readonly #seen: () => void;
  readonly #stopSigns: () => void;
  #comingAgain: Timer | null = null;

  constructor(leg: Leg, options: AskedRetryOptions) {
    this.#leg = leg;
    this.#options = options;
    const watch = watchForSilence(options.clock, OWNER_SILENCE_MS, () => {
      this.giveUp({ type: 'silent', problem: 'no sign of life' });
    });
    this.#stopWatching = watch.stop;
    this.#seen = watch.seen;
    this.#stopSigns = giveSigns(options.clock, () => void this.#sign());
  }

  /** What came of it; resolves when it is given up or at its end. */
  get relayed(): Promise<Relayed> {
    return this.#relayed.promise;
  }

  /** What the owner wrote: a sign of life, or lines for the client. */
  hear(text: string): void {
    if (this.#state === 'asked') this.#seen();
    const lines = readRelayLines(text);
    if (lines === null) {
      this.giveUp({ type: 'silent', problem: 'a line of its answer is not understood' });
    }
    for (const line of lines ?? []) this.#hearLine(line);
  }

  /**
   * The client is served in another way, or told to come again. The owner may be at work on its call all
   * the same, and would end it for a client that is gone.
   */
  giveUp(relayed: Relayed): void {
    if (this.#state !== 'asked') return;
    this.#state = 'givenUp';
    this.#stopWatching();
    this.#expectAgain();
    this.#relayed.resolve(relayed);
  }

  /** The owner has answered or does not have the call, or nobody waits for it any more. */
  end(relayed: Relayed): void {
    if (this.#state === 'over') return;
    this.#state = 'over';
    this.#stopWatching();
    this.#stopSigns();
    this.#comingAgain?.cancel();
    this.#relayed.resolve(relayed);
    this.#options.over();
  }

  #hearLine(line: RelayLine): void {
    if (line.type === 'answer') this.end({ type: 'answered', answer: line.answer });
    else if (this.#state === 'asked') this.#leg.notify(line.method, line.params);
  }

  async #sign(): Promise<void> {
    const isTaken = await this.#options.sign();
    // Without the store the client cannot come again either, at least not to the owner.
    if (!isTaken && this.#state === 'givenUp') this.#expectAgain();
  }

  #expectAgain(): void {
    this.#comingAgain?.cancel();
    this.#comingAgain = this.#options.clock.setTimer(COMING_AGAIN_MS, () => {
      this.end({ type: 'left', problem: 'it did not come again' });
    });
  }
}
