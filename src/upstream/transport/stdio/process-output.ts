/**
 * What a server process writes that is not a message: its log, on standard error, and text on standard output. So much of
 * it goes to the log of the gateway.
 */
import { spellingsOf } from '../../../lib/shown-text.ts';
import type { Clock } from '../../../lib/clock.ts';

/** @param dropped how many lines before this one were dropped, because there were too many */
export type OnOutput = (stream: 'stdout' | 'stderr', line: string, dropped: number) => void;

const WINDOW_MS = 10_000;
const MAX_LINES_PER_WINDOW = 50;
const MAX_SHOWN_CHARACTERS = 200;
const MAX_KEPT_LINES = 20;
/** Shorter values of variables are not secrets, and can be part of any word. */
const MIN_SECRET_LENGTH = 8;

export class ProcessOutput {
  readonly #clock: Clock;
  readonly #secrets: readonly string[];
  readonly #onOutput: OnOutput;
  #windowEndMs = 0;
  #lines = 0;
  #dropped = 0;
  /** The last lines of standard error. */
  readonly #errors: string[] = [];
  #firstOther = '';

  /** @param env the variables that the operator sets. Their values are not shown. */
  constructor(env: Readonly<Record<string, string>>, clock: Clock, onOutput: OnOutput) {
    this.#clock = clock;
    this.#secrets = spellingsOf(Object.values(env), MIN_SECRET_LENGTH);
    this.#onOutput = onOutput;
  }

  /** Why a process may have ended, for a message: the last line on standard error that names an error, or the last. */
  get lastWords(): string {
    const line = this.#errors.findLast((each) => /error/i.test(each)) ?? this.#errors.at(-1);
    return line === undefined ? '' : `; it wrote to standard error: ${line}`;
  }

  /** The first text on standard output that was not a message, for a message. */
  get sample(): string {
    return this.#firstOther === '' ? '' : `, such as ${JSON.stringify(this.#firstOther)}`;
  }

  /** How many lines were dropped since the last one that was passed on. */
  get dropped(): number {
    return this.#dropped;
  }

  wrote(stream: 'stdout' | 'stderr', written: string): void {
    // Frames and rules of a banner say nothing.
    if (!/[\p{L}\p{N}]/u.test(written)) return;
    const line = this.#withoutSecrets(written).trimEnd();
    const shown = line.slice(0, MAX_SHOWN_CHARACTERS);
    if (stream === 'stderr') {
      this.#errors.push(shown);
      if (this.#errors.length > MAX_KEPT_LINES) this.#errors.shift();
    } else if (this.#firstOther === '') this.#firstOther = shown;
    const nowMs = this.#clock.elapsed();
    if (nowMs >= this.#windowEndMs) {
      this.#windowEndMs = nowMs + WINDOW_MS;
      this.#lines = 0;
    }
    this.#lines += 1;
    if (this.#lines > MAX_LINES_PER_WINDOW) {
      this.#dropped += 1;
      return;
    }
    this.#onOutput(stream, line, this.#dropped);
    this.#dropped = 0;
  }

  #withoutSecrets(line: string): string {
    return this.#secrets.reduce((text, secret) => text.replaceAll(secret, '***'), line);
  }
}
