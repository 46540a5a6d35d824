/** A leg whose client waits at another replica, which is written to letter by letter. */
import type { CallReply, Leg } from '../../model/request.ts';
import type { Clock, Timer } from '../../lib/clock.ts';
import type { JsonObject } from '../../protocol/json/json.ts';
import { writeRelayLine } from './messages.ts';
import { giveSigns } from './heartbeat.ts';

/** Lines that wait go together in letters of this size, or many small ones would take their time. */
const LETTER_LENGTH = 1024 * 1024;
/** When more waits for the other replica, the call is held back or hears of it. */
const MAX_WAITING_BYTES = 1024 * 1024;

export class LetterLeg implements Leg {
  readonly #post: (lines: string) => Promise<unknown>;
  readonly #clock: Clock;
  readonly #closed = new AbortController();
  #stopSigns = () => {};
  #closing: Timer | null = null;
  /** Lines that wait for the letter under way: the answer must not overtake the progress. */
  #lines: string[] = [];
  #posting: Promise<void> | null = null;
  /** Of the lines that wait and of those under way. */
  #waitingBytes = 0;
  #ended = false;
  #backlog: PromiseWithResolvers<void> | null = null;

  /**
   * @param post sends one or more lines, or a sign of life, which is empty; resolves when they were
   * taken, or are lost on the way, and throws when the other replica is as good as gone
   */
  constructor(post: (lines: string) => Promise<unknown>, clock: Clock) {
    this.#post = post;
    this.#clock = clock;
  }

  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  get backlog(): Promise<void> | null {
    return this.#backlog?.promise ?? null;
  }

  /** The call is here: gives signs of life from now on. */
  begin(): void {
    // What waits says that we live when it is read; a sign behind it says no more.
    const sign = () => {
      if (this.#posting === null) this.#write('');
    };
    sign();
    this.#stopSigns = giveSigns(this.#clock, sign);
  }

  notify(method: string, params: JsonObject): void {
    if (this.#ended) return;
    this.#write(writeRelayLine({ type: 'notification', method, params }));
    if (this.#waitingBytes > MAX_WAITING_BYTES) this.#backlog ??= Promise.withResolvers();
  }

  /** Resolves when the answer is written, or cannot be. */
  async finish(answer: CallReply): Promise<void> {
    this.#stopSigns();
    this.#closing?.cancel();
    this.#write(writeRelayLine({ type: 'answer', answer }));
    this.#ended = true;
    this.#caughtUp();
    await this.#posting;
  }

  /** The client has gone, or will have in so many ms if nothing is said before. */
  close(afterMs = 0): void {
    if (this.#ended) return;
    this.#closing?.cancel();
    if (afterMs > 0) {
      this.#closing = this.#clock.setTimer(afterMs, () => this.close());
      return;
    }
    this.#stopSigns();
    this.#ended = true;
    this.#lines = [];
    this.#caughtUp();
    this.#closed.abort();
  }

  #caughtUp(): void {
    this.#backlog?.resolve();
    this.#backlog = null;
  }

  #write(line: string): void {
    if (this.#ended) return;
    this.#lines.push(line);
    this.#waitingBytes += Buffer.byteLength(line);
    this.#posting ??= this.#postAll();
  }

  async #postAll(): Promise<void> {
    while (this.#lines.length > 0) {
      const letter = this.#nextLetter();
      try {
        await this.#post(letter);
      } catch {
        this.#lines = [];
        this.close();
      }
      this.#waitingBytes -= Buffer.byteLength(letter);
    }
    this.#posting = null;
    this.#caughtUp();
  }

  #nextLetter(): string {
    let [{ length } = ''] = this.#lines;
    let count = 1;
    for (const line of this.#lines.slice(1)) {
      length += line.length;
      if (length > LETTER_LENGTH) break;
      count += 1;
    }
    return this.#lines.splice(0, count).join('');
  }
}
