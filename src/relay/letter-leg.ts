/** A leg whose client waits at another replica, which is written to letter by letter. */
import type { CallAnswer, Leg } from '../bridge/leg.ts';
import type { Clock, Timer } from '../clock.ts';
import type { JsonObject } from '../protocol/json.ts';
import { writeRelayLine } from './relay-message.ts';
import { SIGN_OF_LIFE_MS } from './signs-of-life.ts';

export class LetterLeg implements Leg {
  readonly #post: (line: string) => Promise<boolean>;
  readonly #clock: Clock;
  readonly #closed = new AbortController();
  #timer: Timer | null = null;
  /** Letters go one after the other, or the answer could overtake the progress. */
  #last: Promise<unknown> = Promise.resolve();
  #ended = false;

  constructor(post: (line: string) => Promise<boolean>, clock: Clock) {
    this.#post = post;
    this.#clock = clock;
  }

  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  /** The call is here: gives signs of life from now on. */
  begin(): void {
    this.#write('');
    this.#timer = this.#clock.setTimer(SIGN_OF_LIFE_MS, () => this.begin());
  }

  notify(method: string, params: JsonObject): void {
    this.#write(writeRelayLine({ type: 'notification', method, params }));
  }

  /** Resolves when the answer is written, or cannot be. */
  async finish(answer: CallAnswer): Promise<void> {
    this.#timer?.cancel();
    this.#write(writeRelayLine({ type: 'answer', answer }));
    this.#ended = true;
    await this.#last;
  }

  /** The client has gone, or will have in so many ms if nothing is said before. */
  close(afterMs = 0): void {
    if (this.#ended) return;
    this.#timer?.cancel();
    if (afterMs > 0) this.#timer = this.#clock.setTimer(afterMs, () => this.close());
    else this.#abort();
  }

  #abort(): void {
    this.#ended = true;
    this.#closed.abort();
  }

  #write(line: string): void {
    if (this.#ended) return;
    this.#last = this.#last.then(() => this.#post(line));
  }
}
