/** A message that is too large, of which only the ends and the length are kept while it is discarded. */
import { readCutMessage, type CutMessage } from '../protocol/cut-message.ts';
import { UpstreamFailure } from './failure.ts';

/** How much of each end is kept. */
const END_BYTES = 4_096;
/** How much of one message is discarded: so many times the limit, and no more than 1 GiB. */
const MAX_TIMES = 64;
const MAX_BYTES = 1024 ** 3;
const NO_OBJECT = /^\s*[^\s{]/;

export class DiscardedMessage {
  readonly #maxBytes: number;
  readonly #head = Buffer.allocUnsafeSlow(END_BYTES);
  readonly #tail = Buffer.allocUnsafeSlow(2 * END_BYTES);
  #headBytes = 0;
  #tailBytes = 0;
  #bytes = 0;
  #isObject: boolean | null = null;

  /** @param limitBytes the limit that the message exceeds */
  constructor(limitBytes: number) {
    this.#maxBytes = Math.max(limitBytes, Math.min(MAX_TIMES * limitBytes, MAX_BYTES));
  }

  /** True once it can no longer become known what the message is, or too much of it came. */
  get isHopeless(): boolean {
    return this.#bytes > this.#maxBytes || this.#isObject === false;
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

/**
 * Builds the failure of a call or request whose reply was discarded. The server has done with it, and the session goes on.
 * @param problem why it was discarded, without the name of the limit
 */
export function replyTooLarge(problem: string): UpstreamFailure {
  return new UpstreamFailure('upstream_protocol_error', `${problem} (upstream.maxEvent)`, {
    mayHaveActed: true,
    isForReply: true,
    hasReplied: true,
    exceeds: 'upstream.maxEvent',
  });
}
