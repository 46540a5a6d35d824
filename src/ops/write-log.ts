/** Writes the log: one line of JSON for each event, or pretty text on a terminal. */
import type { Writable } from 'node:stream';
import pretty from 'pino-pretty';
import { LEVELS, TEXTS, type Log, type LogEvent, type LogLevel } from './log.ts';

export interface LogOptions {
  readonly level: LogLevel;
  readonly format: 'json' | 'pretty';
  readonly destination: NodeJS.WritableStream;
  /** The number of the worker that writes it, which every line then has. */
  readonly worker?: number;
}

const MAX_FIELD_CHARACTERS = 256;

const HAS_CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const CONTROL = new RegExp(HAS_CONTROL, 'g');

/** As bunyan and pino number the levels. */
const SEVERITIES: Readonly<Record<LogLevel, number>> = {
  trace: 10,
  debug: 20,
  info: 30,
  warn: 40,
  error: 50,
  fatal: 60,
};

/** Creates a log. Text fields are truncated, and control characters are escaped. */
export function createLog({ level, format, destination, worker }: LogOptions): Log {
  // Workers share a pipe, which takes only so much of each as one piece.
  const buffer = new LineBuffer(destination, worker === undefined ? Infinity : PIPE_BUF);
  const lines =
    format === 'pretty'
      ? pretty({
          destination: destination as Writable,
          colorize: true,
          ignore: 'pid,hostname,event',
        })
      : buffer;
  return {
    event(name, fields) {
      const severity = SEVERITIES[LEVELS[name] ?? 'info'];
      if (severity < SEVERITIES[level]) return;
      const line: Record<string, unknown> = { level: severity, time: Date.now() };
      if (worker !== undefined) line['worker'] = worker;
      line['event'] = name;
      const values: Readonly<Record<string, unknown>> = { ...fields };
      for (const field in values) line[field] = safe(values[field]);
      line['msg'] = TEXTS[name] === undefined ? name : `${name}: ${TEXTS[name]}`;
      lines.write(`${JSON.stringify(line)}\n`);
      if (!IN_EVERY_CALL.has(name)) buffer.flush();
    },
  };
}

/** Events whose lines may wait a moment for others. */
const IN_EVERY_CALL: ReadonlySet<LogEvent> = new Set([
  'call.started',
  'call.moved',
  'call.ended',
  'edge.request',
]);

/** What a pipe takes as one piece at least, in bytes, on Linux; on other systems less (pipe(7)). */
const PIPE_BUF = 4096;

/** How long a line may wait, in ms. */
const WAIT_MS = 10;

/** Writes lines together that come within a moment, since each write is a system call. */
class LineBuffer {
  readonly #destination: NodeJS.WritableStream;
  readonly #maxBytes: number;
  #lines: string[] = [];
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param maxBytes of lines that are written together */
  constructor(destination: NodeJS.WritableStream, maxBytes: number) {
    this.#destination = destination;
    this.#maxBytes = maxBytes;
  }

  write(line: string): void {
    const bytes = Buffer.byteLength(line);
    if (this.#bytes + bytes > this.#maxBytes) this.flush();
    this.#timer ??= setTimeout(() => this.flush(), WAIT_MS);
    this.#lines.push(line);
    this.#bytes += bytes;
  }

  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    if (this.#lines.length === 0) return;
    const lines = this.#lines.join('');
    this.#lines = [];
    this.#bytes = 0;
    this.#destination.write(lines);
  }
}

function safe(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  if (value.length <= MAX_FIELD_CHARACTERS && !HAS_CONTROL.test(value)) return value;
  const escaped = value.replace(CONTROL, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
  return escaped.length > MAX_FIELD_CHARACTERS
    ? `${escaped.slice(0, MAX_FIELD_CHARACTERS)}…`
    : escaped;
}
