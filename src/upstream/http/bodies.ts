/**
 * Reads the bodies of a legacy server within limits: as events (on their bytes, the length of their ids, and the
 * reconnection time that a server may ask for), or as one JSON text. The parsers have no limits by default.
 */
import { createParser } from 'eventsource-parser';
import { excessOf, MAX_CONTAINERS, parseJson, type JsonValue } from '../../protocol/json.ts';
import { UpstreamFailure, type UpstreamLimit } from '../failure.ts';

export interface ServerSentEvent {
  /** `message` if the server named none. */
  readonly event: string;
  readonly data: string;
  readonly id: string | undefined;
}

export interface EventStreamListener {
  event(event: ServerSentEvent): void;
  /** The server asks to wait this long before a reconnection, in ms. */
  retryAfter(waitMs: number): void;
}

const MAX_ID_LENGTH = 1024;
const MIN_RETRY_MS = 100;
const MAX_RETRY_MS = 30_000;

export class EventStreamBody {
  readonly #maxEventBytes: number;
  readonly #listener: EventStreamListener;
  readonly #bytes: EventBytes;
  readonly #parser: ReturnType<typeof createParser>;
  #failure: UpstreamFailure | null = null;
  /** The id of the last block, until its event comes. A block without data has none. */
  #loneId: string | undefined;

  /** @param maxEventBytes the limit for the data of one event */
  constructor(maxEventBytes: number, listener: EventStreamListener) {
    this.#maxEventBytes = maxEventBytes;
    this.#listener = listener;
    this.#bytes = new EventBytes(maxEventBytes);
    this.#parser = createParser({
      maxBufferSize: maxEventBytes,
      onId: (id) => {
        this.#tellLoneId();
        this.#loneId = id;
      },
      onEvent: ({ event = 'message', data, id }) => {
        if (id === undefined) this.#tellLoneId();
        this.#loneId = undefined;
        this.#tell({ event, data, id });
      },
      onRetry: (waitMs) => listener.retryAfter(clampRetry(waitMs)),
      onError: ({ type }) => {
        if (type !== 'max-buffer-size-exceeded') return;
        this.#tellLoneId();
        this.#failure ??= this.#eventTooLarge();
      },
    });
  }

  /**
   * Tells the listener each event that is whole now.
   * @throws UpstreamFailure after an event that is too large
   */
  write(chunk: Buffer): void {
    const whole = this.#bytes.take(chunk);
    if (whole.length > 0) this.#parser.feed(whole.toString('utf8'));
    this.#tellLoneId();
    if (this.#bytes.isTooLarge) this.#failure ??= this.#eventTooLarge();
    if (this.#failure !== null) throw this.#failure;
  }

  /** An event that did not end is dropped. A reconnection time in it counts. */
  end(): void {
    this.#parser.feed(this.#bytes.rest().toString('utf8'));
  }

  /** Tells an id without data as an event without data: the stream can be resumed after it (HTML, section 9.2.6). */
  #tellLoneId(): void {
    const id = this.#loneId;
    this.#loneId = undefined;
    if (id !== undefined) this.#tell({ event: 'message', data: '', id });
  }

  #tell(event: ServerSentEvent): void {
    this.#failure ??= this.#problemOf(event.data, event.id);
    if (this.#failure === null) this.#listener.event(event);
  }

  /** The parser limits what it buffers, not what arrives whole. */
  #problemOf(data: string, id: string | undefined): UpstreamFailure | null {
    if (id !== undefined && id.length > MAX_ID_LENGTH) {
      return tooLarge(`an event id is longer than ${MAX_ID_LENGTH} characters`, null);
    }
    return Buffer.byteLength(data) > this.#maxEventBytes ? this.#eventTooLarge() : null;
  }

  #eventTooLarge(): UpstreamFailure {
    return tooLarge(`an event is larger than ${this.#maxEventBytes} bytes`, 'upstream.maxEvent');
  }
}

function clampRetry(waitMs: number): number {
  if (Number.isNaN(waitMs)) return MIN_RETRY_MS;
  return Math.min(Math.max(waitMs, MIN_RETRY_MS), MAX_RETRY_MS);
}

/** @param exceeds the configured limit that it is too large for, if that can be configured */
function tooLarge(problem: string, exceeds: UpstreamLimit | null): UpstreamFailure {
  const [named, details] =
    exceeds === null ? [problem, {}] : [`${problem} (${exceeds})`, { exceeds }];
  return new UpstreamFailure('upstream_protocol_error', named, { mayHaveActed: true, ...details });
}

const LF = 0x0a;
const CR = 0x0d;
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

  /** Takes the bytes of an event that did not end. */
  rest(): Buffer {
    return this.#held.with(NOTHING);
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

/** A buffer for many small pieces. */
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

  /** Takes all bytes, followed by these. */
  with(bytes: Buffer): Buffer {
    if (this.#length === 0) return bytes;
    this.append(bytes);
    const all = this.#buffer.subarray(0, this.#length);
    this.#buffer = NOTHING;
    this.#length = 0;
    return all;
  }
}

/** Far more than real results need, and far less than exhausts the stack when it is serialised again. */
const MAX_JSON_DEPTH = 500;

/**
 * Parses JSON.
 * @throws UpstreamFailure if it is not JSON, is nested too deeply, has too many objects, or sets a prototype
 */
export function upstreamJson(text: string): JsonValue {
  const excess = excessOf(text, MAX_JSON_DEPTH);
  if (excess !== null) {
    const problem =
      excess === 'depth'
        ? `it sent JSON nested more than ${MAX_JSON_DEPTH} levels deep`
        : `it sent JSON of more than ${MAX_CONTAINERS} objects and arrays`;
    throw new UpstreamFailure('upstream_protocol_error', problem, { mayHaveActed: true });
  }
  try {
    return parseJson(text);
  } catch (cause) {
    throw new UpstreamFailure('upstream_protocol_error', 'it sent a body that is not JSON', {
      mayHaveActed: true,
      cause,
    });
  }
}

/** A body that is read as one text. */
export class TextBody {
  readonly #maxBytes: number;
  readonly #onText: (text: string) => void;
  readonly #limit: UpstreamLimit | null;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  /**
   * @param onText called with the whole text
   * @param limit the key of `maxBytes`, if that can be configured
   */
  constructor(
    maxBytes: number,
    onText: (text: string) => void,
    limit: UpstreamLimit | null = null,
  ) {
    this.#maxBytes = maxBytes;
    this.#onText = onText;
    this.#limit = limit;
  }

  /** @throws UpstreamFailure if the body is too large */
  write(chunk: Buffer): void {
    this.#bytes += chunk.byteLength;
    if (this.#bytes > this.#maxBytes) {
      throw tooLarge(`it sent a body larger than ${this.#maxBytes} bytes`, this.#limit);
    }
    this.#chunks.push(chunk);
  }

  end(): void {
    const [only] = this.#chunks;
    const bytes =
      this.#chunks.length === 1 && only !== undefined ? only : Buffer.concat(this.#chunks);
    this.#onText(bytes.toString('utf8'));
  }
}
