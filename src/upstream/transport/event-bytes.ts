/**
 * The bytes of an event stream, held back until an event is whole: as bytes it costs what it is long, while a
 * parser that waits in the middle of it keeps a text, and two more for each line. What belongs to no event
 * goes on as it comes.
 */

const LF = 0x0a;
const CR = 0x0d;
/** How the fields begin that make an event: data, event, id, retry. A parser skips every other line. */
const FIELDS = new Set([0x64, 0x65, 0x69, 0x72]);

const MAX_LINES = 100_000;
/** What a line may have beside its share of the data: the name of its field, and its end. */
const LINE_OVERHEAD = 8;
/** The same for the fields beside the data. */
const EVENT_OVERHEAD = 512;

export class EventBytes {
  readonly #maxDataBytes: number;
  readonly #held = new GrowingBuffer();
  /** Lines of the event that has begun; zero between two events. */
  #lines = 0;
  #bytes = 0;
  /** The last line has not ended yet. */
  #inLine = false;
  /** The last byte was a carriage return: a line feed behind it belongs to it. */
  #afterReturn = false;
  #isTooLarge = false;

  /** @param maxDataBytes the most that the data of one event may have */
  constructor(maxDataBytes: number) {
    this.#maxDataBytes = maxDataBytes;
  }

  /** True from the first event on that is too large. */
  get isTooLarge(): boolean {
    return this.#isTooLarge;
  }

  /** In: the next bytes of the stream. Out: those that are due, up to the end of the last whole event. */
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
    if (due === 0) {
      this.#held.append(chunk);
      return NOTHING;
    }
    const whole = this.#held.with(chunk.subarray(0, due));
    this.#held.append(chunk.subarray(due));
    return whole;
  }

  /** The bytes of an event that did not end. */
  rest(): Buffer {
    return this.#held.with(NOTHING);
  }

  /** Counts a line, or a part of one. */
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

/** The ends of the lines in a chunk, asked for one after the other. */
class LineEnds {
  readonly #chunk: Buffer;
  #lineFeed = -1;
  #carriageReturn = -1;

  constructor(chunk: Buffer) {
    this.#chunk = chunk;
  }

  /** Where the line ends that `start` is in; the length of the chunk when it does not end in there. */
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

/** Bytes that come in many small pieces, none of which is kept as an object of its own. */
class GrowingBuffer {
  #buffer = NOTHING;
  #length = 0;

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

  /** Gives all bytes with these behind them, and is empty again. */
  with(bytes: Buffer): Buffer {
    if (this.#length === 0) return bytes;
    this.append(bytes);
    const all = this.#buffer.subarray(0, this.#length);
    this.#buffer = NOTHING;
    this.#length = 0;
    return all;
  }
}
