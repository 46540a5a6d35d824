/** Splits what a process writes into lines, of which none takes more memory than a limit. */

const NEWLINE = 0x0a;
/** A process can write byte by byte, and each piece takes more memory than its bytes. */
const MAX_PIECES = 1_024;

export class LineReader {
  readonly #maxBytes: number;
  readonly #onLine: (line: string, isWhole: boolean) => void;
  #chunks: Buffer[] = [];
  #bytes = 0;
  /** The rest of a line that was cut is skipped. */
  #isSkipping = false;

  /** @param onLine called with each line; with the beginning of one that is longer than `maxBytes` */
  constructor(maxBytes: number, onLine: (line: string, isWhole: boolean) => void) {
    this.#maxBytes = maxBytes;
    this.#onLine = onLine;
  }

  push(chunk: Buffer): void {
    for (let from = 0; from < chunk.length;) {
      const end = chunk.indexOf(NEWLINE, from);
      this.#take(chunk.subarray(from, end === -1 ? chunk.length : end));
      if (end === -1) return;
      this.#endLine();
      from = end + 1;
    }
  }

  /** Takes a last line that has no newline. */
  end(): void {
    if (this.#bytes > 0) this.#endLine();
  }

  #take(piece: Buffer): void {
    if (this.#isSkipping || piece.length === 0) return;
    this.#chunks.push(piece);
    this.#bytes += piece.length;
    if (this.#chunks.length > MAX_PIECES) this.#chunks = [Buffer.concat(this.#chunks)];
    if (this.#bytes <= this.#maxBytes) return;
    this.#isSkipping = true;
    this.#onLine(this.#flush().slice(0, this.#maxBytes), false);
  }

  #endLine(): void {
    if (this.#isSkipping) this.#isSkipping = false;
    else this.#onLine(this.#flush(), true);
  }

  #flush(): string {
    const [first] = this.#chunks;
    const line = this.#chunks.length === 1 && first ? first : Buffer.concat(this.#chunks);
    this.#chunks = [];
    this.#bytes = 0;
    return line.toString('utf8').replace(/\r$/, '');
  }
}
