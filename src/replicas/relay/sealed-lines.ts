/** Sealed letters on a connection: one a line. */
import type { Readable } from 'node:stream';

const LINE_FEED = 0x0a;

/** The lines as they come. Throws when one is longer than allowed, without waiting for its end. */
export async function* sealedLines(body: Readable, maxBytes: number): AsyncGenerator<string> {
  let begun: Buffer[] = [];
  let begunBytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(LINE_FEED, start);
      const part = chunk.subarray(start, end === -1 ? chunk.length : end);
      begunBytes += part.length;
      if (begunBytes > maxBytes) throw new Error('it sent a relay message that is too long');
      begun.push(part);
      if (end === -1) break;
      yield Buffer.concat(begun).toString('latin1');
      begun = [];
      begunBytes = 0;
      start = end + 1;
    }
  }
}
