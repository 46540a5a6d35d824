/**
 * A message that is too large: while it is discarded, it is read for what it is for. Of its text the members of the message itself
 * are kept, without what is in their objects and lists: an "id" inside of a result is not taken for that of the message.
 */
import type { DroppedMessage } from '../model/channel.ts';
import type { UpstreamLimit } from '../model/upstream-failure.ts';
import { isExactNumber, isJsonObject, parseMessage, type JsonValue } from '../protocol/json.ts';
import { exceededLimit, type SizeLimit } from './size-limits.ts';

/** How much of the text is kept. */
const KEPT_BYTES = 8_192;
/** How much of one message is discarded: so many times the limit, and no more than 1 GiB. */
const MAX_TIMES = 64;
const MAX_BYTES = 1024 ** 3;
const [SPACE, QUOTE, BACKSLASH] = [0x20, 0x22, 0x5c];
const [OPEN_OBJECT, OPEN_LIST, END_OBJECT, END_LIST] = [0x7b, 0x5b, 0x7d, 0x5d];

export class DiscardedMessage {
  readonly #limit: SizeLimit;
  readonly #limitBytes: number;
  readonly #maxBytes: number;
  readonly #kept = Buffer.allocUnsafeSlow(KEPT_BYTES);
  #keptBytes = 0;
  #bytes = 0;
  #isObject: boolean | null = null;
  /** In how many objects and lists the next byte is. */
  #depth = 0;
  #isInString = false;
  #isEscaped = false;

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

  /** Takes the next bytes of the message. */
  take(bytes: Buffer): void {
    this.count(bytes.length);
    let [depth, isInString, isEscaped] = [this.#depth, this.#isInString, this.#isEscaped];
    for (const byte of bytes) {
      const before = depth;
      if (isInString) {
        if (byte === QUOTE && !isEscaped) isInString = false;
        isEscaped = byte === BACKSLASH && !isEscaped;
      } else if (byte === QUOTE) isInString = true;
      else if (byte === OPEN_OBJECT || byte === OPEN_LIST) depth += 1;
      else if (byte === END_OBJECT || byte === END_LIST) depth -= 1;
      if (before <= 1 || depth <= 1) this.#keep(byte);
    }
    [this.#depth, this.#isInString, this.#isEscaped] = [depth, isInString, isEscaped];
  }

  /** Counts bytes that came with the message and are no part of it. */
  count(bytes: number): void {
    this.#bytes += bytes;
  }

  /** Tells what the message is, when all of it came; `null` if that is not known. */
  read(): DroppedMessage | null {
    if (this.isHopeless || this.#keptBytes > KEPT_BYTES) return null;
    const value = parsed(this.#kept.toString('utf8', 0, this.#keptBytes));
    if (!isJsonObject(value)) return null;
    const { id, method } = value;
    const isId = typeof id === 'string' || typeof id === 'number';
    if (typeof method === 'string') {
      if (id === undefined) return { type: 'notification', method };
      return isId || isExactNumber(id) ? { type: 'request', id, method } : null;
    }
    const isReply = Object.hasOwn(value, 'result') || Object.hasOwn(value, 'error');
    return isReply && (isId || id === null) ? { type: 'response', id } : null;
  }

  #keep(byte: number): void {
    if (this.#isObject === null && byte > SPACE) this.#isObject = byte === OPEN_OBJECT;
    if (this.#keptBytes < KEPT_BYTES) this.#kept[this.#keptBytes] = byte;
    this.#keptBytes += 1;
  }
}

function parsed(text: string): JsonValue {
  try {
    return parseMessage(text);
  } catch {
    return null;
  }
}
