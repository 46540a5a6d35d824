/** What the first event of a stream that is passed on names as the endpoint for messages, read on the side. */
import type { Readable } from 'node:stream';
import { createParser } from 'eventsource-parser';

/** An `endpoint` event is much shorter; what is longer is another kind of stream. */
const MAX_LOOKED_AT_BYTES = 16 * 1024;

/**
 * Looks at what others read from the stream, up to its first event; takes nothing of it and holds
 * nothing up. Must be called before the stream flows.
 * @param told called with the data of the first event if that is `endpoint` (2024-11-05 transports,
 *   "HTTP with SSE"); what it gives back is called when the stream is over
 */
export function watchEndpoint(stream: Readable, told: (endpoint: string) => () => void): void {
  const decoder = new TextDecoder('utf-8');
  let leftBytes = MAX_LOOKED_AT_BYTES;
  let isOver = false;
  const parser = createParser({
    onEvent: ({ event, data }) => {
      if (isOver) return;
      isOver = true;
      if (event === 'endpoint') stream.once('close', told(data));
    },
  });
  const look = (chunk: Uint8Array) => {
    const seen = chunk.subarray(0, leftBytes);
    leftBytes -= seen.byteLength;
    parser.feed(decoder.decode(seen, { stream: true }));
    if (isOver || leftBytes === 0) stream.off('data', look);
  };
  stream.on('data', look);
}
