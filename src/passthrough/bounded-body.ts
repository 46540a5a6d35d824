/** A request body that is streamed on and counted, since nothing else holds it to a size. */
import { Transform, type Readable } from 'node:stream';

export class BodyTooLarge extends Error {
  readonly code = 'body_too_large';
  constructor(maxBytes: number) {
    super(`the body is larger than ${maxBytes} bytes`);
    this.name = 'BodyTooLarge';
  }
}

/**
 * The same bytes, up to `maxBytes`; a longer body ends in a `BodyTooLarge` error. Whatever happens to
 * the result, the source lives on, as its connection has an answer to carry.
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
  // Nobody may be reading the body any more when it turns out to be too long.
  bounded.on('error', () => {});
  return source.pipe(bounded);
}
