/** Splits what a process writes into lines, of which none takes more memory than a limit. */
import { DiscardedMessage } from '../../discarded-message.ts';
import { GrowingBuffer } from '../../http/event-bytes.ts';
import { UNBOUNDED } from '../../size-limits.ts';
import type { HeldBytes } from '../../../lib/byte-budget.ts';

const NEWLINE = 0x0a;

export class LineReader {
  readonly #maxBytes: number;
  readonly #onLine: (line: string, isWhole: boolean) => void;
  readonly #onDiscarded: ((line: DiscardedMessage) => void) | null;
  readonly #held: HeldBytes;
  /** A process can write byte by byte. */
  readonly #line = new GrowingBuffer();
  /** The line that is being discarded. */
  #discarding: DiscardedMessage | null = null;
  /** The rest of a line that was cut is skipped. */
  #isSkipping = false;

  /**
   * @param onLine called with each line; with the beginning of one that is longer than `maxBytes`
   * @param onDiscarded if it is there, called with what is left of a line that is longer, instead: when it has ended, or
   *   when that is hopeless
   * @param held what a line takes until it has ended
   */
  constructor(
    maxBytes: number,
    onLine: (line: string, isWhole: boolean) => void,
    onDiscarded: ((line: DiscardedMessage) => void) | null = null,
    held = UNBOUNDED,
  ) {
    this.#held = held;
    this.#maxBytes = maxBytes;
    this.#onLine = onLine;
    this.#onDiscarded = onDiscarded;
  }

  push(chunk: Buffer): void {
    for (let from = 0; from < chunk.length;) {
      const end = chunk.indexOf(NEWLINE, from);
      this.#take(chunk.subarray(from, end === -1 ? chunk.length : end));
      if (end === -1) return;
      this.#endLine();
      from = end + 1;
    }
  }

  /** Takes a last line that has no newline. */
  end(): void {
    if (this.#line.length > 0 || this.#discarding !== null) this.#endLine();
  }

  #take(piece: Buffer): void {
    if (this.#isSkipping || piece.length === 0) return;
    if (this.#discarding !== null) return this.#discard(this.#discarding, piece);
    this.#line.append(piece);
    const isTooLong = this.#line.length > this.#maxBytes;
    if (!isTooLong && this.#held.hold(this.#line.length)) return;
    if (this.#onDiscarded !== null) {
      const limit = isTooLong ? 'upstream.maxEvent' : 'limits.maxMemoryPercent';
      this.#discarding = new DiscardedMessage(limit, this.#maxBytes);
      return this.#discard(this.#discarding, this.#takeAll());
    }
    this.#isSkipping = true;
    this.#onLine(this.#flush().slice(0, this.#maxBytes), false);
  }

  #discard(line: DiscardedMessage, piece: Buffer): void {
    line.take(piece);
    if (!line.isHopeless) return;
    this.#discarding = null;
    this.#isSkipping = true;
    this.#onDiscarded?.(line);
  }

  #endLine(): void {
    const discarded = this.#discarding;
    this.#discarding = null;
    if (discarded !== null) this.#onDiscarded?.(discarded);
    else if (this.#isSkipping) this.#isSkipping = false;
    else this.#onLine(this.#flush(), true);
  }

  #flush(): string {
    return this.#takeAll().toString('utf8').replace(/\r$/, '');
  }

  #takeAll(): Buffer {
    this.#held.release();
    return this.#line.with();
  }
}
