/** Writes the log: one line for each event, of JSON or of text for people. */
import type { Log, LogEvent, LogLevel } from './log.ts';
import { LEVELS, TEXTS } from './log-texts.ts';

export interface LogOptions {
  readonly level: LogLevel;
  readonly format: 'json' | 'pretty';
  readonly destination: NodeJS.WritableStream;
  /** The number of the worker that writes it, which every line then has. */
  readonly worker?: number;
  /** Whether levels are colored on a terminal. */
  readonly colors?: boolean;
}

const MAX_FIELD_CHARACTERS = 256;
/** What says what to do is not cut off. */
const MAX_PROBLEM_CHARACTERS = 1_024;

const HAS_CONTROL = /[\u0000-\u001f\u007f-\u009f]/;
const CONTROL = new RegExp(HAS_CONTROL, 'g');

/** What is above what. */
const SEVERITIES: Readonly<Record<LogLevel, number>> = {
  trace: 10,
  debug: 20,
  info: 30,
  warn: 40,
  error: 50,
  fatal: 60,
};

/** Creates a log. Text fields are truncated, and control characters are escaped. */
export function createLog({
  format,
  destination,
  worker,
  colors = false,
  ...options
}: LogOptions): Log {
  let { level } = options;
  // Workers share a pipe, which takes only so much of each as one piece.
  const buffer = new LineBuffer(destination, worker === undefined ? Infinity : PIPE_BUF);
  return {
    setLevel: (next) => {
      level = next;
    },
    event(name, fields) {
      const of = LEVELS[name] ?? 'info';
      if (SEVERITIES[of] < SEVERITIES[level]) return;
      const time = new Date().toISOString();
      const values: Record<string, unknown> = worker === undefined ? {} : { worker };
      for (const [field, value] of Object.entries(fields)) {
        const max = field === 'problem' ? MAX_PROBLEM_CHARACTERS : MAX_FIELD_CHARACTERS;
        values[field] = safe(value, max);
      }
      const msg = TEXTS[name] ?? name;
      const line =
        format === 'pretty'
          ? prettyLine({ time, level: of, event: name, msg }, values, colors)
          : JSON.stringify({ level: of, time, event: name, ...values, msg });
      buffer.write(`${line}\n`);
      if (!IN_EVERY_CALL.has(name)) buffer.flush();
    },
  };
}

interface Said {
  readonly time: string;
  readonly level: LogLevel;
  readonly event: LogEvent;
  readonly msg: string;
}

/** Formats an event as one line for people: the time of day, level, event, fields, and what it means. */
function prettyLine(
  { time, level, event, msg }: Said,
  fields: Readonly<Record<string, unknown>>,
  colors: boolean,
): string {
  const paint = (code: number, text: string) => (colors ? `\u001b[${code}m${text}\u001b[0m` : text);
  const shown = Object.entries(fields)
    .filter(([, value]) => value !== null && value !== '')
    .map(([name, value]) => `${paint(DIM, `${name}=`)}${quoted(value)}`);
  const said = msg === event ? [] : [paint(DIM, `(${msg})`)];
  const start = [
    paint(DIM, time.slice(11, 23)),
    paint(COLORS[level], level.toUpperCase().padEnd(5)),
    event,
  ];
  return [...start, ...shown, ...said].join(' ');
}

function quoted(value: unknown): string {
  const text = String(value);
  return /[\s"=]/.test(text) ? JSON.stringify(text) : text;
}

/** SGR codes. */
const DIM = 2;
const COLORS: Readonly<Record<LogLevel, number>> = {
  trace: 2,
  debug: 36,
  info: 32,
  warn: 33,
  error: 31,
  fatal: 31,
};

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

function safe(value: unknown, max: number): unknown {
  if (typeof value !== 'string') return value;
  if (value.length <= max && !HAS_CONTROL.test(value)) return value;
  const escaped = value.replace(CONTROL, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
  });
  return escaped.length > max ? `${escaped.slice(0, max)}…` : escaped;
}
