/** An event stream whose first event is changed on the way when it is `endpoint`, and nothing else of it. */
import { Transform } from 'node:stream';
import { createParser } from 'eventsource-parser';

/** An `endpoint` event is much shorter; what is longer is another kind of stream. */
const MAX_HELD_BYTES = 16 * 1024;
/** A line that ends, and an empty one behind it. */
const END_OF_EVENT = /(?:\r\n|(?<!\r)\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))/;
const LINE_END = /\r\n|\r|\n/;

/**
 * Passes a stream on. Comments pass as they come; no more than the beginning of one event is held back.
 * @param rewrite what the `endpoint` event of 2024-11-05 says instead ("HTTP with SSE"), or `null` when
 *   that cannot be told: the stream then ends with an error
 */
export function rewritingEndpoint(rewrite: (endpoint: string) => string | null): Transform {
  let held = Buffer.alloc(0);
  let isOver = false;
  const take = (chunk: Buffer): Buffer | null => {
    held = Buffer.concat([held, chunk]);
    const passed: Buffer[] = [];
    while (!isOver) {
      // As bytes: what is not looked at stays as it came.
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
      const told = rewrite(event.data);
      if (told === null) return null;
      passed.push(rewritten(block, told));
    }
    if (held.byteLength > MAX_HELD_BYTES) isOver = true;
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
      if (passed === null) done(new Error('the endpoint of the session cannot be told'));
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

/** The same event with other data. */
function rewritten(block: Buffer, data: string): Buffer {
  const others = block
    .toString('utf8')
    .split(LINE_END)
    .filter((line) => line !== '' && !/^data(:|$)/.test(line));
  return Buffer.from([...others, `data: ${data}`, '', ''].join('\n'));
}
