/** A retry of another replica's client while it is served here, whichever way it came. */
import type { ServeRelayedRetry, RelayedRetryHandle } from '../../model/relay.ts';
import type { Clock } from '../../lib/clock.ts';
import { Confirmation } from './confirmation.ts';
import { LetterLeg } from './remote-leg.ts';
import type { Letter, LetterKind } from './sealed-message.ts';
import { piecesOf } from './pieces.ts';
import { readRelayRequest } from './messages.ts';
import { ASKER_SILENCE_MS, COMING_AGAIN_MS, watchForSilence } from './heartbeat.ts';

/** The way back to the replica that asked. */
export interface WayBack {
  /** Whether its end shows that the other replica is gone, so that its silence need not. */
  readonly showsEnd: boolean;
  /** Resolves when it was taken, or is lost on the way; throws when the other replica is as good as gone. */
  say(kind: LetterKind, text: string, number: number): Promise<void>;
  /** Whether letters have come that were not read yet. */
  isBehind?(): boolean;
}

export interface ServedRetryOptions {
  readonly retry: ServeRelayedRetry;
  readonly clock: Clock;
}

export class ServedRetry {
  readonly from: string;
  readonly #text: string;
  readonly #way: WayBack;
  readonly #options: ServedRetryOptions;
  readonly #leg: LetterLeg;
  /** Whether the replica that asked is there, where the way does not show it. */
  readonly #watch: { readonly seen: () => void; readonly stop: () => void };
  #confirmation: Confirmation | null = null;
  #begun: RelayedRetryHandle | null = null;
  #comesAgain = false;
  #wayEnded = false;
  #pieces = 0;

  constructor({ from, text }: Letter, way: WayBack, options: ServedRetryOptions) {
    const { clock } = options;
    this.from = from;
    this.#text = text;
    this.#way = way;
    this.#options = options;
    this.#leg = new LetterLeg((lines) => this.#write(lines), clock);
    this.#watch = watchForSilence(
      clock,
      ASKER_SILENCE_MS,
      () => this.#leg.close(),
      () => way.isBehind?.() ?? false,
    );
    this.#leg.closed.addEventListener('abort', () => this.#confirmation?.giveUp());
  }

  /** Aborts when nothing more can be said, or is listened to. */
  get closed(): AbortSignal {
    return this.#leg.closed;
  }

  /** Resolves when the answer is written, or cannot be. */
  async serve(): Promise<void> {
    try {
      await this.#serve();
    } catch {
      // Also when we are at fault: the other replica notices, and tells its client to come again.
      this.#leg.close();
    } finally {
      this.#watch.stop();
    }
  }

  /** What the replica that asked says after its retry. */
  hear({ kind, text }: Letter): void {
    if (!this.#comesAgain) this.#watch.seen();
    switch (kind) {
      case 'go':
        return this.#confirmation?.answered(text);
      case 'release':
        return this.#begun?.sendClientBack();
      case 'again':
        this.#comesAgain = true;
        this.#watch.stop();
        return this.#leg.close(COMING_AGAIN_MS);
      case 'closed':
        return this.#leg.close();
      default:
    }
  }

  /** Counts as hearing of the replica that asked. */
  seen(): void {
    if (!this.#comesAgain) this.#watch.seen();
  }

  /** The way back has ended. @param keepMs how long the call is kept for whoever asks for it next */
  ended(keepMs: number): void {
    this.#wayEnded = true;
    if (!this.#comesAgain) this.#leg.close(this.#begun === null ? 0 : keepMs);
  }

  close(): void {
    this.#leg.close();
  }

  async #serve(): Promise<void> {
    const message = readRelayRequest(Buffer.from(this.#text, 'utf8'));
    const served =
      message && (await this.#options.retry(message.route, message.request, this.#leg));
    if (served === null) return this.#way.say('unknown', '', 0);
    if (this.#leg.closed.aborted) return;
    this.#confirmation = new Confirmation(this.#options.clock, (question) => {
      this.#way.say('ready', question, 0).catch(() => this.#leg.close());
    });
    // Asked only now: the answer can come before the question is sent to its end.
    if (!(await this.#confirmation.asked())) return;
    const answer = served.begin();
    if (answer === null) return this.#way.say('unknown', '', 0);
    this.#begun = served;
    if (this.#way.showsEnd) this.#watch.stop();
    this.#leg.begin();
    await this.#leg.finish(await answer);
  }

  /** @param lines for the client, or nothing as a sign of life */
  async #write(lines: string): Promise<void> {
    if (lines === '') return this.#way.say('alive', '', 0);
    for (const piece of piecesOf(lines)) {
      if (this.#wayEnded || this.#leg.closed.aborted) return;
      await this.#way.say('piece', piece, this.#pieces);
      this.#pieces += 1;
    }
  }
}
