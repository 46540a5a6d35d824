/**
 * Frames on a connection between two replicas: a length of four bytes, then the sealed content. Each direction has a
 * key of its own for each connection, and counts its frames in the nonce: a frame that is repeated, left out or moved
 * does not open.
 */
import type { KeyObject } from 'node:crypto';
import { decrypt, encrypt, NONCE_BYTES, TAG_BYTES } from '../../../seal/envelope.ts';
import { MAX_PIECE_BYTES, type RelayMessage } from '../messages.ts';

/** A kind is written as its index: new ones are appended. */
const KINDS = [
  ...(['retry', 'ready', 'go', 'piece', 'alive', 'unknown', 'release', 'again', 'closed'] as const),
  /** From the requester: the beginning of the text of the `retry` that follows. */
  'part',
  /** From the requester: its client has read so much of the pieces, in UTF-16 code units. */
  'taken',
  /** From the owner: it no longer serves the retry, and sends nothing more for it. The number can be `TOO_LONG`. */
  'dropped',
] as const;
export type FrameKind = (typeof KINDS)[number];

/** The number of a `dropped`: the retry is longer than the owner takes. Earlier versions write 0 for that, too. */
export const TOO_LONG = 1;

/** The content of a frame. */
export interface Frame extends Omit<RelayMessage, 'kind' | 'from'> {
  readonly kind: FrameKind;
}

/** The times of a frame, in whole ms of the monotonic clock of one side. */
export interface Stamps {
  /** When it was written, by the clock of its writer. */
  readonly writtenAt: number;
  /** `writtenAt` of the last frame that its writer had read; 0 for none. */
  readonly readAt: number;
}

export type StampedFrame = Frame & Stamps;

const LENGTH_BYTES = 4;
const STAMP_BYTES = 6;
/** Kind, number, two stamps and the length of the id. */
const HEAD_BYTES = 6 + 2 * STAMP_BYTES;
const MAX_ID_BYTES = 64;
/** The longest frame, without its length: it has room for the longest piece. */
const MAX_FRAME_BYTES = HEAD_BYTES + MAX_ID_BYTES + MAX_PIECE_BYTES + TAG_BYTES;

/** Seals the frames of one direction of a connection. */
export class FrameSealer {
  readonly #key: KeyObject;
  #count = 0;

  /** @param key which nothing else is sealed with */
  constructor(key: KeyObject) {
    this.#key = key;
  }

  /** @param frame `null` for the empty frame, which only shows that its writer has the key */
  seal(frame: StampedFrame | null): Buffer {
    const content = frame === null ? Buffer.alloc(0) : encode(frame);
    const length = Buffer.allocUnsafe(LENGTH_BYTES);
    length.writeUInt32BE(content.length + TAG_BYTES);
    const nonce = nonceOf(this.#count++);
    const { sealed, tag } = encrypt(content, { key: this.#key, nonce, associatedData: length });
    return Buffer.concat([length, sealed, tag]);
  }
}

/** Reads the frames of one direction of a connection. No byte is copied twice, however long a frame is. */
export class FrameReader {
  readonly #key: KeyObject;
  #count = 0;
  #parts: Buffer[] = [];
  #bytes = 0;
  /** With these bytes, the length or the frame that comes next is complete. */
  #needed = LENGTH_BYTES;
  /** Only the empty frame, until that one shows that the other side has the key. */
  #maxBytes = TAG_BYTES;

  constructor(key: KeyObject) {
    this.#key = key;
  }

  /**
   * Adds bytes. Yields each frame that they complete, and `null` for the empty one, which comes first.
   * @throws Error if a frame is too long, malformed, or was not sealed for this place
   */
  *read(chunk: Buffer): Generator<StampedFrame | null> {
    this.#parts.push(chunk);
    this.#bytes += chunk.length;
    while (this.#bytes >= this.#needed) {
      const [bytes = chunk] = this.#parts.length === 1 ? this.#parts : [Buffer.concat(this.#parts)];
      if (this.#needed === LENGTH_BYTES) {
        this.#parts = [bytes];
        const length = bytes.readUInt32BE(0);
        if (length < TAG_BYTES || length > this.#maxBytes) throw new Error('invalid frame length');
        this.#needed += length;
        continue;
      }
      const sealed = bytes.subarray(0, this.#needed);
      const rest = bytes.subarray(this.#needed);
      this.#parts = rest.length === 0 ? [] : [rest];
      this.#bytes = rest.length;
      this.#needed = LENGTH_BYTES;
      yield this.#open(sealed);
    }
  }

  #open(sealed: Buffer): StampedFrame | null {
    const content = decrypt(
      sealed.subarray(LENGTH_BYTES, -TAG_BYTES),
      sealed.subarray(-TAG_BYTES),
      {
        key: this.#key,
        nonce: nonceOf(this.#count++),
        associatedData: sealed.subarray(0, LENGTH_BYTES),
      },
    );
    this.#maxBytes = MAX_FRAME_BYTES;
    return content.length === 0 ? null : decode(content);
  }
}

function nonceOf(count: number): Buffer {
  const nonce = Buffer.alloc(NONCE_BYTES);
  nonce.writeBigUInt64BE(BigInt(count), NONCE_BYTES - 8);
  return nonce;
}

function encode({ kind, id, number, text, writtenAt, readAt }: StampedFrame): Buffer {
  const textAt = HEAD_BYTES + id.length;
  const bytes = Buffer.allocUnsafe(textAt + Buffer.byteLength(text));
  bytes.writeUInt8(KINDS.indexOf(kind), 0);
  bytes.writeUInt32BE(number, 1);
  bytes.writeUIntBE(writtenAt, 5, STAMP_BYTES);
  bytes.writeUIntBE(readAt, 5 + STAMP_BYTES, STAMP_BYTES);
  bytes.writeUInt8(id.length, HEAD_BYTES - 1);
  bytes.write(id, HEAD_BYTES, 'latin1');
  bytes.write(text, textAt);
  return bytes;
}

/** @throws Error if the frame is of no kind that this version knows */
function decode(bytes: Buffer): StampedFrame {
  const kind = KINDS[bytes.readUInt8(0)];
  const textAt = HEAD_BYTES + bytes.readUInt8(HEAD_BYTES - 1);
  if (kind === undefined || textAt > bytes.length) throw new Error('invalid frame');
  return {
    kind,
    number: bytes.readUInt32BE(1),
    writtenAt: bytes.readUIntBE(5, STAMP_BYTES),
    readAt: bytes.readUIntBE(5 + STAMP_BYTES, STAMP_BYTES),
    id: bytes.toString('latin1', HEAD_BYTES, textAt),
    text: bytes.toString('utf8', textAt),
  };
}
