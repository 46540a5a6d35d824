/**
 * Reads the bodies of a legacy server within limits: as events (on their bytes, the length of their ids, and the
 * reconnection time that a server may ask for), or as one JSON text. The parsers have no limits by default.
 */
import { createParser } from 'eventsource-parser';
import type { HeldBytes } from '../../lib/byte-budget.ts';
import {
  excessOf,
  MAX_CONTAINERS,
  parseMessage,
  type JsonExcess,
  type JsonValue,
} from '../../protocol/json.ts';
import { DiscardedMessage } from '../discarded-message.ts';
import { UpstreamFailure, type UpstreamLimit } from '../../model/upstream-failure.ts';
import { exceededLimit, tooLarge, UNBOUNDED, type SizeLimit } from '../size-limits.ts';
import { DiscardedEvent } from './discarded-event.ts';
import { EventBytes } from './event-bytes.ts';

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

export class EventStreamBody {
  readonly #maxEventBytes: number;
  readonly #listener: EventStreamListener;
  readonly #held: HeldBytes;
  readonly #bytes: EventBytes;
  readonly #parser: ReturnType<typeof createParser>;
  #failure: UpstreamFailure | null = null;
  /** The id of the last block, until its event comes. A block without data has none. */
  #loneId: string | undefined;
  /** The event that is being discarded. */
  #discarding: DiscardedEvent | null = null;

  /**
   * @param maxEventBytes the limit for the data of one event
   * @param held what an event takes until it is whole
   */
  constructor(maxEventBytes: number, held: HeldBytes, listener: EventStreamListener) {
    this.#held = held;
    this.#maxEventBytes = maxEventBytes;
    this.#listener = listener;
    this.#bytes = new EventBytes(maxEventBytes);
    this.#parser = createParser({
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
    });
  }

  /**
   * Tells the listener each event that is whole now.
   * @throws UpstreamFailure after an event that is too large
   */
  write(chunk: Buffer): void {
    let rest = chunk;
    do rest = this.#discarding === null ? this.#read(rest) : this.#discard(this.#discarding, rest);
    while (rest.length > 0);
  }

  /** @returns what has to be discarded */
  #read(bytes: Buffer): Buffer {
    const whole = this.#bytes.take(bytes);
    if (whole.length > 0) this.#parser.feed(whole.toString('utf8'));
    this.#tellLoneId();
    const limit = this.#bytes.isTooLarge ? 'upstream.maxEvent' : 'limits.maxMemoryPercent';
    const isTooLarge = this.#bytes.isTooLarge || !this.#held.hold(this.#bytes.heldBytes);
    const discards = isTooLarge && this.#listener.discardsLarge === true;
    if (isTooLarge && !discards) this.#failure ??= this.#eventTooLarge(limit);
    if (this.#failure !== null) throw this.#failure;
    if (!discards) return NOTHING;
    this.#discarding = new DiscardedEvent(limit, this.#maxEventBytes);
    this.#held.release();
    return this.#bytes.restart();
  }

  /** @returns what comes after the event */
  #discard(event: DiscardedEvent, bytes: Buffer): Buffer {
    const rest = event.take(bytes);
    const { message } = event;
    if (message.isHopeless) throw (this.#failure ??= tooLarge(LARGE_EVENT, message.exceeds));
    if (rest === null) return NOTHING;
    this.#discarding = null;
    this.#listener.event({ event: event.name, data: '', id: undefined, discarded: message });
    return rest;
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
    const { data, id } = event;
    // `EventBytes` counts what comes with the data, and allows for that.
    const isLarge = Buffer.byteLength(data) > this.#maxEventBytes;
    if (id !== undefined && id.length > MAX_ID_LENGTH) {
      this.#failure ??= tooLarge(`an event id is longer than ${MAX_ID_LENGTH} characters`, null);
    } else if (isLarge && this.#listener.discardsLarge !== true) {
      this.#failure ??= this.#eventTooLarge();
    }
    if (this.#failure !== null) return;
    if (!isLarge) return this.#listener.event(event);
    const discarded = new DiscardedMessage('upstream.maxEvent', this.#maxEventBytes);
    discarded.take(Buffer.from(data));
    this.#listener.event({ ...event, data: '', discarded });
  }

  #eventTooLarge(limit: SizeLimit = 'upstream.maxEvent'): UpstreamFailure {
    return tooLarge(LARGE_EVENT, exceededLimit(limit, this.#maxEventBytes, null));
  }
}

const NOTHING = Buffer.alloc(0);

export const LARGE_EVENT = 'an event is too large';

function clampRetry(waitMs: number): number {
  if (Number.isNaN(waitMs)) return MIN_RETRY_MS;
  return Math.min(Math.max(waitMs, MIN_RETRY_MS), MAX_RETRY_MS);
}

/** Far more than real results need, and a quarter of what exhausts the stack when it is serialised again. */
const MAX_JSON_DEPTH = 1_000;
const EXCEEDED: Readonly<Record<JsonExcess, UpstreamLimit>> = {
  depth: `at most ${MAX_JSON_DEPTH} levels of objects and arrays`,
  containers: `at most ${MAX_CONTAINERS} objects and arrays`,
};

/**
 * Parses JSON.
 * @throws UpstreamFailure if it is not JSON, is nested too deeply, or has too many objects
 */
export function upstreamJson(text: string): JsonValue {
  const excess = excessOf(text, MAX_JSON_DEPTH);
  if (excess !== null) throw tooLarge('it sent JSON that is too large', EXCEEDED[excess]);
  try {
    return parseMessage(text);
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
  readonly #limit: 'upstream.maxEvent' | null;
  readonly #held: HeldBytes;
  readonly #chunks: Buffer[] = [];
  #bytes = 0;

  /**
   * @param onText called with the whole text
   * @param limit the key of `maxBytes`, if that can be configured
   * @param held what the body takes until it is whole
   */
  constructor(
    maxBytes: number,
    onText: (text: string) => void,
    limit: 'upstream.maxEvent' | null = null,
    held = UNBOUNDED,
  ) {
    this.#held = held;
    this.#maxBytes = maxBytes;
    this.#onText = onText;
    this.#limit = limit;
  }

  /** @throws UpstreamFailure if the body is too large */
  write(chunk: Buffer): void {
    this.#bytes += chunk.byteLength;
    const isTooLarge = this.#bytes > this.#maxBytes;
    if (isTooLarge || !this.#held.hold(this.#bytes)) {
      const limit = isTooLarge ? this.#limit : 'limits.maxMemoryPercent';
      const exceeds = limit && exceededLimit(limit, this.#maxBytes, null);
      throw tooLarge('it sent a body that is too large', exceeds);
    }
    this.#chunks.push(chunk);
  }

  end(): void {
    this.#onText(Buffer.concat(this.#chunks).toString('utf8'));
  }
}
