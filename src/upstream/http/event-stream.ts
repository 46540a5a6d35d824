/**
 * Reads an event stream within limits: on the bytes of an event, of which none is a text before all of them are there, on the length
 * of its id, and on the reconnection time that a server may ask for. Of an event that is too large what it was for can be told.
 */
import type { HeldBytes } from '../../lib/byte-budget.ts';
import { DiscardedMessage } from '../discarded-message.ts';
import { GrowingBuffer } from '../growing-buffer.ts';
import { exceededLimit, tooLarge, type SizeLimit } from '../size-limits.ts';

export interface ServerSentEvent {
  /** `message` if the server named none. */
  readonly event: string;
  readonly data: string;
  readonly id: string | undefined;
  /** What is left of the data, if it was too large; `data` is empty then. */
  readonly discarded?: DiscardedMessage;
}

export interface EventStreamListener {
  /** Whether an event that is too large is discarded and told. Otherwise it ends the stream. */
  readonly discardsLarge?: boolean;
  event(event: ServerSentEvent): void;
  /** The server asks to wait this long before a reconnection, in ms. */
  retryAfter(waitMs: number): void;
}

const MAX_ID_LENGTH = 1024;
const MIN_RETRY_MS = 100;
/** The longest life of a call: a client must wait as long as it is told (2025-11-25 transports, "Sending Messages to the Server"). */
const MAX_RETRY_MS = 7 * 24 * 3_600_000;
const MAX_LINES = 100_000;
/** The bytes of a line beside its data: the name of the field, and the line end. */
const LINE_OVERHEAD = 8;
/** The bytes of an event beside its data: the other fields. */
const EVENT_OVERHEAD = 512;
/** Of the name of an event that is discarded no more is told: no event of MCP has a longer one. */
const MAX_DISCARDED_NAME = 64;
/** Of its other fields no more is kept: as many characters, however many bytes they take. */
const MAX_DISCARDED_BYTES = 4 * MAX_DISCARDED_NAME;

export const LARGE_EVENT = 'an event is too large';

const LF = 0x0a;
const CR = 0x0d;
const NOTHING = Buffer.alloc(0);
const LINE_FEED = Buffer.from('\n');
const BYTE_ORDER_MARK = Buffer.from('\uFEFF');
/** A field with what separates it from its value. All other lines are comments, or unknown. */
const FIELD = /^(data|event|id|retry)(?:$|: ?)/;
/** What shows the field of a line: the longest name, and a space behind it. */
const FIELD_BYTES = 'event: '.length;

type Field = 'data' | 'event' | 'id' | 'retry' | 'other';

export class EventStreamBody {
  readonly #maxEventBytes: number;
  readonly #listener: EventStreamListener;
  readonly #held: HeldBytes;
  /** The beginning of the stream, or of a line, until it shows what it is. */
  #start = NOTHING;
  #hasBegun = false;
  /** The last byte was a carriage return, so that a line feed after it belongs to it. */
  #afterReturn = false;
  /** The field of the line that has not ended; `null` before that is known. */
  #field: Field | null = null;
  /** The value of that field, if it is not `data`. */
  readonly #value = new GrowingBuffer();
  /** The lines of the current event; 0 between two events, where comments do not count. */
  #lines = 0;
  #bytes = 0;
  readonly #data = new GrowingBuffer();
  #hasData = false;
  #name = '';
  #id: string | undefined;
  /** What is left of the data, if the event is too large. */
  #discarded: DiscardedMessage | null = null;

  /**
   * @param maxEventBytes the limit for the data of one event
   * @param held what an event takes until it is whole
   */
  constructor(maxEventBytes: number, held: HeldBytes, listener: EventStreamListener) {
    this.#held = held;
    this.#maxEventBytes = maxEventBytes;
    this.#listener = listener;
  }

  /**
   * Tells the listener each event that is whole now.
   * @throws UpstreamFailure for an event that is too large
   */
  write(chunk: Buffer): void {
    const bytes = this.#hasBegun ? chunk : this.#withoutMark(chunk);
    let at = this.#afterReturn && bytes[0] === LF ? 1 : 0;
    this.#afterReturn &&= bytes.length === 0;
    const ends = new LineEnds(bytes);
    while (at < bytes.length) {
      const end = ends.from(at);
      this.#take(bytes.subarray(at, end), end < bytes.length);
      if (end === bytes.length) break;
      at = end + 1;
      if (bytes[end] === CR) {
        if (bytes[at] === LF) at += 1;
        else this.#afterReturn = at === bytes.length;
      }
    }
    const line = this.#start.length + this.#value.length;
    const heldBytes = line + this.#data.length + this.#name.length;
    if (!this.#held.hold(heldBytes)) this.#discard('limits.maxMemoryPercent');
  }

  /** An event that did not end is dropped. A reconnection time in it has counted. */
  end(): void {}

  /** Takes the byte order mark off that the stream can begin with. */
  #withoutMark(chunk: Buffer): Buffer {
    const bytes = this.#start.length === 0 ? chunk : Buffer.concat([this.#start, chunk]);
    const mark = BYTE_ORDER_MARK.subarray(0, bytes.length);
    const isMark = bytes.subarray(0, mark.length).equals(mark);
    this.#hasBegun = !isMark || mark.length === BYTE_ORDER_MARK.length;
    this.#start = this.#hasBegun ? NOTHING : Buffer.from(bytes);
    if (!this.#hasBegun) return NOTHING;
    return isMark ? bytes.subarray(mark.length) : bytes;
  }

  /** Takes a line, or a part of one. */
  #take(part: Buffer, isEnd: boolean): void {
    let value = part;
    if (this.#field === null) {
      const line = this.#start.length === 0 ? part : Buffer.concat([this.#start, part]);
      this.#start = NOTHING;
      if (line.length === 0) return isEnd ? this.#endEvent() : undefined;
      if (line.length < FIELD_BYTES && !isEnd) {
        this.#start = Buffer.from(line);
        return;
      }
      value = this.#beginLine(line);
    }
    if (this.#lines > 0) this.#takeValue(value);
    if (this.#discarded?.isHopeless === true) throw tooLarge(LARGE_EVENT, this.#discarded.exceeds);
    if (isEnd) this.#endLine();
  }

  /** Finds out which field a line has. @returns its value, as far as it is there */
  #beginLine(line: Buffer): Buffer {
    const [name = '', field = 'other'] = FIELD.exec(line.toString('latin1', 0, FIELD_BYTES)) ?? [];
    this.#field = field as Field;
    if (field === 'other' && this.#lines === 0) return NOTHING;
    this.#lines += 1;
    this.#count(name.length);
    if (field === 'data' && this.#hasData) this.#takeData(LINE_FEED);
    this.#hasData ||= field === 'data';
    return line.subarray(name.length);
  }

  #takeValue(value: Buffer): void {
    if (this.#field === 'data') return this.#takeData(value);
    this.#count(value.length);
    if (this.#field === 'other') return;
    const most = this.#discarded === null ? Infinity : MAX_DISCARDED_BYTES;
    this.#value.append(value.subarray(0, Math.max(0, most - this.#value.length)));
  }

  #takeData(bytes: Buffer): void {
    this.#allow(bytes.length);
    if (this.#discarded !== null) return this.#discarded.take(bytes);
    this.#bytes += bytes.length;
    this.#data.append(bytes);
  }

  /** Counts bytes that are no data. */
  #count(bytes: number): void {
    this.#allow(bytes);
    if (this.#discarded === null) this.#bytes += bytes;
    else this.#discarded.count(bytes);
  }

  /** Checks whether the event can have so many bytes more. */
  #allow(bytes: number): void {
    const most = this.#maxEventBytes + EVENT_OVERHEAD + this.#lines * LINE_OVERHEAD;
    const isTooLarge = this.#lines > MAX_LINES || this.#bytes + bytes > most;
    if (isTooLarge) this.#discard('upstream.maxEvent');
  }

  #endLine(): void {
    const field = this.#field;
    this.#field = null;
    this.#discarded?.count(1);
    if (field === 'data' || field === 'other') return;
    const value = this.#value.take().toString('utf8');
    if (field === 'event') this.#name = value;
    else if (field === 'retry' && /^\d+$/.test(value)) {
      this.#listener.retryAfter(clampRetry(Number(value)));
    } else if (field === 'id' && this.#discarded === null && !value.includes('\0')) {
      if (value.length > MAX_ID_LENGTH) {
        throw tooLarge(`an event id is longer than ${MAX_ID_LENGTH} characters`, null);
      }
      this.#id = value;
    }
  }

  #endEvent(): void {
    const data = this.#data.take().toString('utf8');
    // What comes with the data is allowed for, and a byte that is no text becomes three.
    if (Buffer.byteLength(data) > this.#maxEventBytes) {
      this.#data.append(Buffer.from(data));
      this.#discard('upstream.maxEvent');
    }
    const discarded = this.#discarded;
    const [hasData, id, event] = [this.#hasData, this.#id, this.#name || 'message'];
    this.#lines = 0;
    this.#bytes = 0;
    this.#hasData = false;
    this.#name = '';
    this.#id = undefined;
    this.#discarded = null;
    if (discarded !== null) {
      const name = event.slice(0, MAX_DISCARDED_NAME);
      this.#listener.event({ event: name, data: '', id: undefined, discarded });
    } else if (hasData) this.#listener.event({ event, data, id });
    // An id without data is told as an event without data: the stream can be resumed after it (HTML, section 9.2.6).
    else if (id !== undefined) this.#listener.event({ event: 'message', data: '', id });
  }

  /** The event is too large. @throws UpstreamFailure if that ends the stream */
  #discard(limit: SizeLimit): void {
    if (this.#discarded !== null) return;
    if (this.#listener.discardsLarge !== true) {
      throw tooLarge(LARGE_EVENT, exceededLimit(limit, this.#maxEventBytes, null));
    }
    this.#discarded = new DiscardedMessage(limit, this.#maxEventBytes);
    this.#discarded.count(this.#bytes - this.#data.length);
    this.#discarded.take(this.#data.take());
    this.#held.release();
  }
}

function clampRetry(waitMs: number): number {
  return Math.min(Math.max(waitMs, MIN_RETRY_MS), MAX_RETRY_MS);
}

/** Finds the line ends of a chunk, one after the other. */
class LineEnds {
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
