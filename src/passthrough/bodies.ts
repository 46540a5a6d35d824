/** Bodies that are streamed: of a request within its limit of size, and of a response to the client. */
import { pipeline, Transform, type Readable } from 'node:stream';
import type { FastifyReply } from 'fastify';

export class BodyTooLarge extends Error {
  readonly code = 'body_too_large';
  constructor(maxBytes: number) {
    super(`the body is larger than ${maxBytes} bytes`);
    this.name = 'BodyTooLarge';
  }
}

/**
 * Passes on a body of at most `maxBytes`. A longer one ends with a `BodyTooLarge` error. The source stays open, since
 * its connection carries the response.
 */
export function boundedBody(source: Readable, maxBytes: number): Readable {
  let bytes = 0;
  const bounded = new Transform({
    transform(chunk: Buffer, _encoding, done) {
      bytes += chunk.byteLength;
      if (bytes > maxBytes) done(new BodyTooLarge(maxBytes));
      else done(null, chunk);
    },
  });
  source.once('error', (error) => bounded.destroy(error));
  // The reader may be gone when the body turns out to be too long.
  bounded.on('error', () => {});
  return source.pipe(bounded);
}

/** Sends the head at once, since an event stream can stay empty for long, and then the body. */
export function pipe(stream: Readable, reply: FastifyReply, through: Transform | null): void {
  const { raw, statusCode } = reply;
  const headers = reply.getHeaders();
  reply.hijack();
  raw.statusCode = statusCode;
  for (const [name, value] of Object.entries(headers)) {
    const isOfOtherLength = through !== null && name === 'content-length';
    if (value !== undefined && !isOfOtherLength) raw.setHeader(name, value);
  }
  // An empty write, since `flushHeaders` would encode bytes beyond ASCII as UTF-8.
  if (!raw.hasHeader('content-length')) raw.write(Buffer.alloc(0));
  // The end of each side ends the other; a broken one is broken there, too.
  if (through === null) pipeline(stream, raw, () => {});
  else pipeline(stream, through, raw, () => {});
}
