/** How much an owner can send for one retry before the client of the other replica has read it, in UTF-16 code units. */
import { sleep, type Clock } from '../../../lib/clock.ts';

/** Four pieces. */
const WINDOW_LENGTH = 512 * 1024;
/** What is read is reported when it comes to this, or after this time, in ms. */
const REPORTED_LENGTH = WINDOW_LENGTH / 8;
const REPORT_AFTER_MS = 5_000;

/** The owner's side. */
export class SendWindow {
  readonly #clock: Clock;
  readonly #timeoutMs: number;
  #left = WINDOW_LENGTH;
  #opened = new AbortController();

  /** @param timeoutMs how long the window can stay closed, in ms */
  constructor(clock: Clock, timeoutMs: number) {
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
  }

  /** Resolves when a text can be sent. @throws Error if nothing was read for too long */
  async take(length: number): Promise<void> {
    while (this.#left <= 0) {
      this.#opened = new AbortController();
      await sleep(this.#clock, this.#timeoutMs, this.#opened.signal);
      if (!this.#opened.signal.aborted) throw new Error('the other replica reads nothing');
    }
    this.#left -= length;
  }

  /** Makes room, since the other side has read so much. */
  open(length: number): void {
    this.#left += length;
    this.#opened.abort();
  }
}

/** The side that reads: counts what the owner does not know of. */
export class ReadProgress {
  readonly #clock: Pick<Clock, 'elapsed'>;
  #length = 0;
  #reportedAtMs: number;

  constructor(clock: Pick<Clock, 'elapsed'>) {
    this.#clock = clock;
    this.#reportedAtMs = clock.elapsed();
  }

  /** Counts a text that was read. @returns what the owner should be told of; 0 for nothing yet */
  add(length: number): number {
    this.#length += length;
    const nowMs = this.#clock.elapsed();
    const isDue = this.#length >= REPORTED_LENGTH || nowMs - this.#reportedAtMs >= REPORT_AFTER_MS;
    if (!isDue) return 0;
    const report = this.#length;
    this.#length = 0;
    this.#reportedAtMs = nowMs;
    return report;
  }
}
