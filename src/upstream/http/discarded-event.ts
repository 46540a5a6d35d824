/** An event that is too large: it is read to its end, line by line, and only the ends of its data are kept. */
import { DiscardedMessage } from '../discarded-message.ts';
import type { SizeLimit } from '../size-limits.ts';
import { CR, LF, LineEnds } from './event-bytes.ts';

const DATA = 'data:';
const EVENT = 'event:';
/** What shows the field of a line: the longest name, and a space behind it. */
const START_BYTES = EVENT.length + 1;
/** Longer names are cut: no event of MCP has one. */
const MAX_NAME_LENGTH = 64;
const LINE_FEED = Buffer.from('\n');

export class DiscardedEvent {
  readonly message: DiscardedMessage;
  /** The beginning of the line, until it shows the field; then the field. */
  #start = '';
  #field: 'data' | 'event' | 'other' | null = null;
  #name = '';
  #hasData = false;
  /** The last byte was a carriage return, so that a line feed after it belongs to it. */
  #afterReturn = false;

  /** See `DiscardedMessage`. */
  constructor(limit: SizeLimit, limitBytes: number) {
    this.message = new DiscardedMessage(limit, limitBytes);
  }

  /** `message` if the server named none. */
  get name(): string {
    return this.#name === '' ? 'message' : this.#name;
  }

  /**
   * Takes the next bytes of the event.
   * @returns the bytes after its end; `null` if it has not ended
   */
  take(chunk: Buffer): Buffer | null {
    let at = this.#afterReturn && chunk[0] === LF ? 1 : 0;
    this.#afterReturn &&= chunk.length === 0;
    const ends = new LineEnds(chunk);
    while (at < chunk.length) {
      const end = ends.from(at);
      this.#takePart(chunk.subarray(at, end));
      if (end === chunk.length) return null;
      at = end + 1;
      if (chunk[end] === CR) {
        if (chunk[at] === LF) at += 1;
        else this.#afterReturn = at === chunk.length;
      }
      if (this.#endLine()) return chunk.subarray(at);
    }
    return null;
  }

  #takePart(part: Buffer): void {
    if (this.#field !== null) return this.#takeValue(part);
    const missing = START_BYTES - this.#start.length;
    this.#start += part.toString('latin1', 0, missing);
    if (this.#start.length < START_BYTES) return;
    this.#beginField();
    this.#takeValue(part.subarray(missing));
  }

  /** @returns true for an empty line, which ends the event */
  #endLine(): boolean {
    if (this.#field === null && this.#start === '') return true;
    if (this.#field === null) this.#beginField();
    // The name of the field, and the line end.
    this.message.count(this.#start.length + 1);
    this.#field = null;
    this.#start = '';
    return false;
  }

  #beginField(): void {
    const start = this.#start;
    if (start.startsWith(DATA) || start === 'data') {
      this.#field = 'data';
      if (this.#hasData) this.message.take(LINE_FEED);
      this.#hasData = true;
    } else if (start.startsWith(EVENT) || start === 'event') {
      this.#field = 'event';
      this.#name = '';
    } else this.#field = 'other';
    const value = start.slice(start.indexOf(':') + 1 || start.length).replace(/^ /, '');
    this.#takeValue(Buffer.from(value, 'latin1'));
  }

  #takeValue(value: Buffer): void {
    if (this.#field === 'data') return this.message.take(value);
    this.message.count(value.length);
    if (this.#field !== 'event') return;
    this.#name += value.toString('latin1', 0, MAX_NAME_LENGTH - this.#name.length);
  }
}
