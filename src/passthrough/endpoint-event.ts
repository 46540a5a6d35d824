/** The `endpoint` event at the beginning of a stream that is passed through (2024-11-05 transports, "HTTP with SSE"). */
import { Transform, type Readable } from 'node:stream';
import { createParser } from 'eventsource-parser';

/** An `endpoint` event is much shorter. A longer first event is of another kind of stream. */
const MAX_EVENT_BYTES = 16 * 1024;
/** The end of a line and an empty line. */
const END_OF_EVENT = /(?:\r\n|(?<!\r)\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))/;
const LINE_END = /\r\n|\r|\n/;

/**
 * Reads the first event without consuming or delaying the stream. Must be called before the stream flows.
 * @param onEndpoint called with the data of the first event if it is `endpoint` (2024-11-05 transports, "HTTP with
 *   SSE"). The function that it returns is called when the stream ends.
 */
export function watchEndpoint(
  stream: Readable,
  onEndpoint: (endpoint: string) => () => void,
): void {
  const decoder = new TextDecoder('utf-8');
  let leftBytes = MAX_EVENT_BYTES;
  let isOver = false;
  const parser = createParser({
    onEvent: ({ event, data }) => {
      if (isOver) return;
      isOver = true;
      if (event === 'endpoint') stream.once('close', onEndpoint(data));
    },
  });
  const read = (chunk: Uint8Array) => {
    const part = chunk.subarray(0, leftBytes);
    leftBytes -= part.byteLength;
    parser.feed(decoder.decode(part, { stream: true }));
    if (isOver || leftBytes === 0) stream.off('data', read);
  };
  stream.on('data', read);
}

/**
 * Passes on a stream. Comments are passed on at once; at most the beginning of one event is held back.
 * @param rewrite returns the new data of the `endpoint` event (2024-11-05 transports, "HTTP with SSE"). If it returns
 *   `null`, the stream ends with an error.
 */
export function rewritingEndpoint(rewrite: (endpoint: string) => string | null): Transform {
  let held = Buffer.alloc(0);
  let isOver = false;
  const take = (chunk: Buffer): Buffer | null => {
    held = Buffer.concat([held, chunk]);
    const passed: Buffer[] = [];
    while (!isOver) {
      // Latin-1 keeps every byte as it is.
      const text = held.toString('latin1');
      const end = END_OF_EVENT.exec(text);
      if (end === null) break;
      const length = end.index + end[0].length;
      const block = held.subarray(0, length);
      held = held.subarray(length);
      const event = firstEvent(block);
      isOver = event !== null;
      if (event?.event !== 'endpoint') {
        passed.push(block);
        continue;
      }
      const data = rewrite(event.data);
      if (data === null) return null;
      passed.push(withData(block, data));
    }
    if (held.byteLength > MAX_EVENT_BYTES) isOver = true;
    if (isOver) {
      passed.push(held);
      held = Buffer.alloc(0);
    }
    return Buffer.concat(passed);
  };
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (isOver) return done(null, chunk);
      const passed = take(chunk);
      if (passed === null) done(new Error('the endpoint of the session cannot be sealed'));
      else done(null, passed.byteLength === 0 ? undefined : passed);
    },
    flush(done) {
      done(null, held.byteLength === 0 ? undefined : held);
    },
  });
}

function firstEvent(block: Buffer): { readonly event: string; readonly data: string } | null {
  let first: { event: string; data: string } | null = null;
  const parser = createParser({
    onEvent: ({ event = 'message', data }) => (first ??= { event, data }),
  });
  parser.feed(block.toString('utf8'));
  return first;
}

/** Replaces the data of an event. */
function withData(block: Buffer, data: string): Buffer {
  const others = block
    .toString('utf8')
    .split(LINE_END)
    .filter((line) => line !== '' && !/^data(:|$)/.test(line));
  return Buffer.from([...others, `data: ${data}`, '', ''].join('\n'));
}
