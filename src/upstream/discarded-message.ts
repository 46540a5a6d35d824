/** A message that is too large, of which only the ends and the length are kept while it is discarded. */
import { readCutMessage, type CutMessage } from '../protocol/cut-message.ts';
import type { UpstreamLimit } from '../model/upstream-failure.ts';
import { exceededLimit, type SizeLimit } from './size-limits.ts';

/** How much of each end is kept. */
const END_BYTES = 4_096;
/** How much of one message is discarded: so many times the limit, and no more than 1 GiB. */
const MAX_TIMES = 64;
const MAX_BYTES = 1024 ** 3;
const NO_OBJECT = /^\s*[^\s{]/;

export class DiscardedMessage {
  readonly #limit: SizeLimit;
  readonly #limitBytes: number;
  readonly #maxBytes: number;
  readonly #head = Buffer.allocUnsafeSlow(END_BYTES);
  readonly #tail = Buffer.allocUnsafeSlow(2 * END_BYTES);
  #headBytes = 0;
  #tailBytes = 0;
  #bytes = 0;
  #isObject: boolean | null = null;

  /**
   * @param limit what the message exceeds
   * @param limitBytes how large a message can be at most
   */
  constructor(limit: SizeLimit, limitBytes: number) {
    this.#limit = limit;
    this.#limitBytes = limitBytes;
    this.#maxBytes = Math.max(limitBytes, Math.min(MAX_TIMES * limitBytes, MAX_BYTES));
  }

  /** True once it can no longer become known what the message is, or too much of it came. */
  get isHopeless(): boolean {
    return this.#bytes > this.#maxBytes || this.#isObject === false;
  }

  /** Describes the limit that the message exceeds. */
  get exceeds(): UpstreamLimit {
    const bytes = this.isHopeless ? null : this.#bytes;
    return exceededLimit(this.#limit, this.#limitBytes, bytes);
  }

  /** Takes the next bytes of the message. They are copied. */
  take(bytes: Buffer): void {
    this.count(bytes.length);
    if (this.#headBytes < END_BYTES) this.#takeHead(bytes);
    this.#takeTail(bytes);
  }

  /** Counts bytes that came with the message and are no part of it. */
  count(bytes: number): void {
    this.#bytes += bytes;
  }

  /** Tells what the message is, when all of it came. */
  read(): CutMessage {
    if (this.isHopeless) return { type: 'unknown' };
    const head = this.#head.toString('utf8', 0, this.#headBytes);
    return readCutMessage(head, this.#tail.toString('utf8', 0, this.#tailBytes));
  }

  #takeHead(bytes: Buffer): void {
    this.#headBytes += bytes.copy(this.#head, this.#headBytes);
    if (this.#isObject !== null) return;
    const head = this.#head.toString('latin1', 0, this.#headBytes);
    if (NO_OBJECT.test(head) || this.#headBytes === END_BYTES) {
      this.#isObject = head.trimStart().startsWith('{');
    }
  }

  #takeTail(bytes: Buffer): void {
    const last = bytes.subarray(-END_BYTES);
    if (last.length < bytes.length) this.#tailBytes = 0;
    if (this.#tailBytes + last.length > this.#tail.length) {
      this.#tail.copyWithin(0, this.#tailBytes - END_BYTES, this.#tailBytes);
      this.#tailBytes = END_BYTES;
    }
    this.#tailBytes += last.copy(this.#tail, this.#tailBytes);
  }
}
