/** Bodies that are sent upstream. */
import { Readable } from 'node:stream';

/** A request is known for as long as its answer goes on, which may be hours; a body of this size is not to be. */
const LARGE_BYTES = 16 * 1024;

export interface Upload {
  readonly body: string | Readable | null;
  readonly headers: Readonly<Record<string, string>>;
}

/** In: the text of a body. Out: what to give to undici, which keeps texts and buffers, but not streams. */
export function upload(text: string | undefined): Upload {
  if (text === undefined) return { body: null, headers: {} };
  if (text.length < LARGE_BYTES) return { body: text, headers: {} };
  const bytes = Buffer.from(text);
  return {
    body: Readable.from([bytes], { objectMode: false }),
    headers: { 'content-length': String(bytes.byteLength) },
  };
}
