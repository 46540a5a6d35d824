/**
 * Reads a `text/event-stream` body with limits: on the bytes of one event, on the length of ids, and
 * on the reconnection time that a server may ask for. The parser itself has no limits by default.
 */
import type { Readable } from 'node:stream';
import { createParser } from 'eventsource-parser';
import { UpstreamFailure } from '../failure.ts';

export interface ServerSentEvent {
  /** `message` when the server named none. */
  readonly event: string;
  readonly data: string;
  readonly id: string | undefined;
}

export interface EventStreamHandlers {
  event(event: ServerSentEvent): void;
  /** The server asks to wait this long, in ms, before a reconnection. */
  retry(afterMs: number): void;
}

const MAX_ID_LENGTH = 1024;
const RETRY_BOUNDS_MS = { least: 100, most: 30_000 };

/**
 * Feeds the body's events to the handlers until it ends.
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
  let failure: UpstreamFailure | null = null;
  const parser = createParser({
    maxBufferSize: maxEventBytes,
    onEvent: (event) => {
      if (event.id !== undefined && event.id.length > MAX_ID_LENGTH) {
        failure = tooLarge(`an event id is longer than ${MAX_ID_LENGTH} characters`);
        return;
      }
      // The parser bounds what it waits with, and not what comes whole.
      if (Buffer.byteLength(event.data) > maxEventBytes) {
        failure = tooLarge(`an event is larger than ${maxEventBytes} bytes`);
        return;
      }
      handlers.event({ event: event.event ?? 'message', data: event.data, id: event.id });
    },
    onRetry: (retry) => handlers.retry(clampRetry(retry)),
    onError: (error) => {
      if (error.type === 'max-buffer-size-exceeded') {
        failure = tooLarge(`an event is larger than ${maxEventBytes} bytes`);
      }
    },
  });
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    parser.feed(decoder.decode(chunk, { stream: true }));
    if (failure !== null) {
      body.destroy();
      throw failure;
    }
  }
}

function clampRetry(retry: number): number {
  if (Number.isNaN(retry)) return RETRY_BOUNDS_MS.least;
  return Math.min(Math.max(retry, RETRY_BOUNDS_MS.least), RETRY_BOUNDS_MS.most);
}

function tooLarge(problem: string): UpstreamFailure {
  return new UpstreamFailure('upstream_protocol_error', problem, { mayHaveActed: true });
}
