/** The bytes of an event stream, up to the end of the last whole event. */

export const LF = 0x0a;
export const CR = 0x0d;
/**
 * The first bytes of the fields of an event: data, event, id, retry, and a byte order mark in front of the first one. A parser
 * skips all other lines.
 */
const FIELDS = new Set([0x64, 0x65, 0x69, 0x72, 0xef]);

const MAX_LINES = 100_000;
/** The bytes of a line beside its data: the name of the field, and the line end. */
const LINE_OVERHEAD = 8;
/** The bytes of an event beside its data: the other fields. */
const EVENT_OVERHEAD = 512;

/**
 * Holds the bytes of an event back until the event is whole. As bytes it takes what it is long; a parser in
 * the middle of an event keeps one text of it, and two more of each line. Other lines pass at once.
 */
export class EventBytes {
  readonly #maxDataBytes: number;
  readonly #held = new GrowingBuffer();
  /** The lines of the current event; 0 between two events. */
  #lines = 0;
  #bytes = 0;
  /** The last line has not ended yet. */
  #inLine = false;
  /** The last byte was a carriage return, so that a line feed after it belongs to it. */
  #afterReturn = false;
  #isTooLarge = false;

  /** @param maxDataBytes the limit for the data of one event */
  constructor(maxDataBytes: number) {
    this.#maxDataBytes = maxDataBytes;
  }

  /** True once an event was too large. */
  get isTooLarge(): boolean {
    return this.#isTooLarge;
  }

  /**
   * Takes the next bytes of the stream.
   * @returns the bytes that are due, up to the end of the last whole event
   */
  take(chunk: Buffer): Buffer {
    let at = this.#afterReturn && chunk[0] === LF ? 1 : 0;
    let due = this.#lines === 0 ? at : 0;
    this.#afterReturn &&= chunk.length === 0;
    const ends = new LineEnds(chunk);
    while (at < chunk.length && !this.#isTooLarge) {
      const end = ends.from(at);
      this.#count(chunk, at, end);
      at = end + 1;
      if (chunk[end] === CR) {
        if (chunk[at] === LF) at += 1;
        else this.#afterReturn = at === chunk.length;
      }
      this.#inLine = end === chunk.length;
      if (this.#lines === 0) due = Math.min(at, chunk.length);
    }
    // Most events come in one piece, which needs no view of a part of it.
    if (due > 0 && due === chunk.length) return this.#held.with(chunk);
    const whole = due === 0 ? NOTHING : this.#held.with(chunk.subarray(0, due));
    this.#held.append(chunk.subarray(due));
    return whole;
  }

  /** How many bytes wait for the end of their event. */
  get heldBytes(): number {
    return this.#held.length;
  }

  /** Takes the bytes of an event that did not end. */
  rest(): Buffer {
    return this.#held.with();
  }

  /** Takes the bytes of an event that is too large, and of all that came after it. The next bytes begin anew. */
  restart(): Buffer {
    this.#lines = 0;
    this.#bytes = 0;
    this.#inLine = false;
    this.#afterReturn = false;
    this.#isTooLarge = false;
    return this.rest();
  }

  /** Counts a line, or a part of a line. */
  #count(chunk: Buffer, start: number, end: number): void {
    if (!this.#inLine) {
      if (start === end) {
        // An empty line ends the event.
        this.#lines = 0;
        this.#bytes = 0;
        return;
      }
      if (this.#lines > 0 || FIELDS.has(chunk[start] ?? 0)) this.#lines += 1;
    }
    if (this.#lines === 0) return;
    this.#bytes += end - start;
    const most = this.#maxDataBytes + EVENT_OVERHEAD + this.#lines * LINE_OVERHEAD;
    this.#isTooLarge = this.#lines > MAX_LINES || this.#bytes > most;
  }
}

const NOTHING = Buffer.alloc(0);

/** Finds the line ends of a chunk, one after the other. */
export class LineEnds {
  readonly #chunk: Buffer;
  #lineFeed = -1;
  #carriageReturn = -1;

  constructor(chunk: Buffer) {
    this.#chunk = chunk;
  }

  /** Returns the end of the line at `start`, or the length of the chunk if it does not end there. */
  from(start: number): number {
    if (this.#lineFeed < start) this.#lineFeed = this.#next(LF, start);
    if (this.#carriageReturn < start) this.#carriageReturn = this.#next(CR, start);
    return Math.min(this.#lineFeed, this.#carriageReturn);
  }

  #next(byte: number, start: number): number {
    const found = this.#chunk.indexOf(byte, start);
    return found === -1 ? this.#chunk.length : found;
  }
}

/** A buffer for many small pieces. */
export class GrowingBuffer {
  #buffer = NOTHING;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  append(bytes: Buffer): void {
    if (bytes.length === 0) return;
    const length = this.#length + bytes.length;
    if (length > this.#buffer.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(1024, Math.ceil(length * 1.5)));
      this.#buffer.copy(larger, 0, 0, this.#length);
      this.#buffer = larger;
    }
    bytes.copy(this.#buffer, this.#length);
    this.#length = length;
  }

  /** Takes all bytes, followed by these. */
  with(bytes: Buffer = NOTHING): Buffer {
    if (this.#length === 0) return bytes;
    this.append(bytes);
    const all = this.#buffer.subarray(0, this.#length);
    this.#buffer = NOTHING;
    this.#length = 0;
    return all;
  }
}
