/**
 * Long texts in pieces of some size: each piece is a sign of life by itself, the largest answer needs no
 * letter of its size, and nothing is read twice, however long the text is.
 */

/** In UTF-16 code units. */
const PIECE_LENGTH = 128 * 1024;
/** In bytes of a letter: a unit takes three in UTF-8, and two when it is escaped in JSON. */
export const MAX_PIECE_BYTES = 3 * PIECE_LENGTH + 1_024;

export function* piecesOf(text: string): Generator<string> {
  for (let start = 0; start < text.length; start += PIECE_LENGTH) {
    yield text.slice(start, start + PIECE_LENGTH);
  }
}

/** Puts pieces together to lines, each of which ends with a line feed. */
export class LinesOfPieces {
  readonly #maxLength: number;
  /** The beginning of a line whose end has not come yet. */
  #begun: string[] = [];
  #begunLength = 0;

  /** @param maxLength of one line, in UTF-16 code units */
  constructor(maxLength: number) {
    this.#maxLength = maxLength;
  }

  /** The lines that this piece completes, without their line feeds; `null` when one is too long. */
  add(piece: string): string[] | null {
    const parts = piece.split('\n');
    const rest = parts.pop() ?? '';
    const [first, ...others] = parts;
    const lines = first === undefined ? [] : [this.#complete(first), ...others];
    if (lines.some(({ length }) => length > this.#maxLength)) return null;
    if (rest !== '') this.#begun.push(rest);
    this.#begunLength += rest.length;
    return this.#begunLength > this.#maxLength ? null : lines;
  }

  #complete(end: string): string {
    const line = [...this.#begun, end].join('');
    this.#begun = [];
    this.#begunLength = 0;
    return line;
  }
}
