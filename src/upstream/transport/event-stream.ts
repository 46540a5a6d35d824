/**
 * Reads a `text/event-stream` body with limits: on the bytes of one event, on the length of ids, and
 * on the reconnection time that a server may ask for. The parser itself has no limits by default.
 */
import type { Readable } from 'node:stream';
import { createParser } from 'eventsource-parser';
import { EventBytes } from './event-bytes.ts';
import { UpstreamFailure } from '../failure.ts';

export interface ServerSentEvent {
  /** `message` when the server named none. */
  readonly event: string;
  readonly data: string;
  readonly id: string | undefined;
}

export interface EventStreamHandlers {
  /** Nothing more is read before the promise resolves that it gives back. */
  event(event: ServerSentEvent): Promise<void> | void;
  /** The server asks to wait this long, in ms, before a reconnection. */
  retry(afterMs: number): void;
}

const MAX_ID_LENGTH = 1024;
const RETRY_BOUNDS_MS = { least: 100, most: 30_000 };

/**
 * Feeds the body's events to the handlers until it ends, one after the other.
 * @param maxEventBytes the most bytes that one event may take
 * @throws UpstreamFailure `upstream_protocol_error` when an event is larger; the body is destroyed
 * @throws whatever the body fails with when the connection breaks
 */
export async function readEventStream(
  body: Readable,
  maxEventBytes: number,
  handlers: EventStreamHandlers,
): Promise<void> {
  const decoder = new TextDecoder('utf-8');
  const bytes = new EventBytes(maxEventBytes);
  let failure: UpstreamFailure | null = null;
  const whole: ServerSentEvent[] = [];
  const parser = createParser({
    maxBufferSize: maxEventBytes,
    onEvent: ({ event = 'message', data, id }) => {
      failure ??= problemOf(data, id, maxEventBytes);
      if (failure === null) whole.push({ event, data, id });
    },
    onRetry: (retry) => handlers.retry(clampRetry(retry)),
    onError: (error) => {
      if (error.type === 'max-buffer-size-exceeded') failure ??= eventTooLarge(maxEventBytes);
    },
  });
  for await (const chunk of body as AsyncIterable<Buffer>) {
    parser.feed(decoder.decode(bytes.take(chunk), { stream: true }));
    if (bytes.isTooLarge) failure ??= eventTooLarge(maxEventBytes);
    for (const event of whole.splice(0)) await handlers.event(event);
    if (failure !== null) {
      body.destroy();
      throw failure;
    }
  }
  // An event that did not end is none; a reconnection time in it counts.
  parser.feed(decoder.decode(bytes.rest()));
}

/** The parser bounds what it waits with, and not what comes whole. */
function problemOf(
  data: string,
  id: string | undefined,
  maxEventBytes: number,
): UpstreamFailure | null {
  if (id !== undefined && id.length > MAX_ID_LENGTH) {
    return tooLarge(`an event id is longer than ${MAX_ID_LENGTH} characters`);
  }
  return Buffer.byteLength(data) > maxEventBytes ? eventTooLarge(maxEventBytes) : null;
}

function eventTooLarge(maxEventBytes: number): UpstreamFailure {
  return tooLarge(`an event is larger than ${maxEventBytes} bytes`);
}

function clampRetry(retry: number): number {
  if (Number.isNaN(retry)) return RETRY_BOUNDS_MS.least;
  return Math.min(Math.max(retry, RETRY_BOUNDS_MS.least), RETRY_BOUNDS_MS.most);
}

function tooLarge(problem: string): UpstreamFailure {
  return new UpstreamFailure('upstream_protocol_error', problem, { mayHaveActed: true });
}
