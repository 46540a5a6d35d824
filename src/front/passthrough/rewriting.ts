/** Rewrites the messages of a response on their way to the client: in one JSON body, or in the events of a stream. */
import { Transform } from 'node:stream';
import { END_OF_EVENT, firstEvent, withData } from './response.ts';

/** Returns the text of a message as the client gets it: the same text, if nothing changes. */
export type RewriteMessage = (text: string) => string;

/**
 * @param contentType of the response, which is not compressed
 * @param maxBytes of a message. A larger one passes as it is
 * @returns `null` if it is not a response with messages
 */
export function rewritingMessages(
  contentType: string,
  rewrite: RewriteMessage,
  maxBytes: number,
): Transform | null {
  const type = contentType.split(';')[0]?.trim().toLowerCase();
  if (type === 'application/json') return rewritingBody(rewrite, maxBytes);
  return type === 'text/event-stream' ? rewritingEvents(rewrite, maxBytes) : null;
}

function rewritingBody(rewrite: RewriteMessage, maxBytes: number): Transform {
  const held = new Held();
  let isTooLarge = false;
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      if (isTooLarge) return done(null, chunk);
      held.add(chunk);
      isTooLarge = held.bytes > maxBytes;
      done(null, isTooLarge ? held.take() : undefined);
    },
    flush(done) {
      done(null, rewritten(held.take(), rewrite));
    },
  });
}

/** Bytes stay as they are, unless the text changes. */
function rewritten(bytes: Buffer, rewrite: RewriteMessage): Buffer {
  const text = bytes.toString('utf8');
  const changed = rewrite(text);
  return changed === text ? bytes : Buffer.from(changed);
}

/** As many bytes as an end of an event can have before its last one. */
const BEFORE_END = 3;

function rewritingEvents(rewrite: RewriteMessage, maxBytes: number): Transform {
  const held = new Held();
  let before = Buffer.alloc(0);
  return new Transform({
    transform(chunk: Buffer, _encoding, done) {
      // Only what is new is searched: an event can come in many parts.
      const searched = Buffer.concat([before, chunk]);
      before = searched.subarray(-BEFORE_END);
      held.add(chunk);
      if (held.bytes > maxBytes) return done(null, held.take());
      const hasEnd = searched.toString('latin1').search(END_OF_EVENT) >= 0;
      if (!hasEnd) return done();
      const [events, rest] = splitEvents(held.take());
      held.add(rest);
      done(null, Buffer.concat(events.map((event) => rewrittenEvent(event, rewrite))));
    },
    flush(done) {
      done(null, held.take());
    },
  });
}

function splitEvents(bytes: Buffer): readonly [events: readonly Buffer[], rest: Buffer] {
  const events: Buffer[] = [];
  let from = 0;
  // Latin-1 keeps every byte as it is.
  for (const { index, 0: end } of bytes.toString('latin1').matchAll(END_OF_EVENT)) {
    events.push(bytes.subarray(from, index + end.length));
    from = index + end.length;
  }
  return [events, bytes.subarray(from)];
}

function rewrittenEvent(block: Buffer, rewrite: RewriteMessage): Buffer {
  const event = firstEvent(block);
  if (event === null) return block;
  const changed = rewrite(event.data);
  return changed === event.data ? block : withData(block, changed);
}

/** What has come of a message. */
class Held {
  #chunks: Buffer[] = [];
  bytes = 0;

  add(chunk: Buffer): void {
    this.#chunks.push(chunk);
    this.bytes += chunk.byteLength;
  }

  take(): Buffer {
    const all = Buffer.concat(this.#chunks, this.bytes);
    this.#chunks = [];
    this.bytes = 0;
    return all;
  }
}
