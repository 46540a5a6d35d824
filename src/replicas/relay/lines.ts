/**
 * Lines of text between replicas. Long texts travel in pieces, so that the longest reply fits into messages of
 * bounded size and each piece counts as a heartbeat. No byte is scanned twice, however long the text is.
 */
import type { Readable } from 'node:stream';

/** In UTF-16 code units. */
const PIECE_LENGTH = 128 * 1024;
/** The longest message with a piece, in bytes: a unit takes three in UTF-8, and two if JSON escapes it. */
export const MAX_PIECE_BYTES = 3 * PIECE_LENGTH + 1_024;

/** Splits a text, but no surrogate pair: half of one cannot be written as UTF-8. */
export function* splitIntoPieces(text: string): Generator<string> {
  for (let start = 0; start < text.length;) {
    const end = start + PIECE_LENGTH;
    const piece = text.slice(start, isHighSurrogate(text, end - 1) ? end - 1 : end);
    yield piece;
    start += piece.length;
  }
}

function isHighSurrogate(text: string, index: number): boolean {
  return index < text.length - 1 && (text.charCodeAt(index) & 0xfc00) === 0xd800;
}

/** Assembles pieces to lines, each of which ends with a line feed. */
export class LineAssembler {
  readonly #maxLength: number;
  /** The parts of an incomplete line. */
  #parts: string[] = [];
  #length = 0;

  /** @param maxLength of one line, in UTF-16 code units */
  constructor(maxLength: number) {
    this.#maxLength = maxLength;
  }

  /** Adds a piece. @returns the lines that it completes, without line feeds; `null` if a line is too long */
  add(piece: string): string[] | null {
    const lines = piece.split('\n');
    const rest = lines.pop() ?? '';
    if (lines.length > 0) {
      lines[0] = [...this.#parts, lines[0]].join('');
      this.#parts = [];
      this.#length = 0;
    }
    if (rest !== '') this.#parts.push(rest);
    this.#length += rest.length;
    const isTooLong = [this.#length, ...lines.map(({ length }) => length)].some(
      (length) => length > this.#maxLength,
    );
    return isTooLong ? null : lines;
  }
}

const LINE_FEED = 0x0a;

/**
 * Reads the lines of a stream.
 * @throws Error as soon as a line is longer than `maxBytes`
 */
export async function* readLines(body: Readable, maxBytes: number): AsyncGenerator<string> {
  let parts: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(LINE_FEED, start);
      const part = chunk.subarray(start, end === -1 ? chunk.length : end);
      bytes += part.length;
      if (bytes > maxBytes) throw new Error('it sent a relay message that is too long');
      parts.push(part);
      if (end === -1) break;
      yield Buffer.concat(parts).toString('latin1');
      parts = [];
      bytes = 0;
      start = end + 1;
    }
  }
}
