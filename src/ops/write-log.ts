/** Writes the log: one line for each event, of JSON or of text for people. */
import { escapeUnseen, isPlainText } from '../lib/shown-text.ts';
import { LEVELS, type LogLevel } from './event-kinds.ts';
import { EVENTS, type Log, type LogEvent } from './log.ts';

/** `writableLength`: what its reader has not taken, in bytes. */
export type LogDestination = NodeJS.WritableStream & { readonly writableLength?: number };

export interface LogOptions {
  readonly level: LogLevel;
  readonly format: 'json' | 'pretty';
  readonly destination: LogDestination;
  /** The number of the worker that writes it, which every line then has. */
  readonly worker?: number;
  /** Whether levels are colored on a terminal. */
  readonly colors?: boolean;
}

const MAX_FIELD_CHARACTERS = 256;
/** What says what to do is not cut off. */
const MAX_PROBLEM_CHARACTERS = 1_024;

/** Creates a log. Text fields are truncated, and characters that are not seen where they stand are escaped. */
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
  const takes = (name: LogEvent) => LEVELS.indexOf(EVENTS[name].level) >= LEVELS.indexOf(level);
  const write = (name: LogEvent, fields: object) => {
    const line: Line = { level: EVENTS[name].level, time: timeNow(), event: name };
    const all = worker === undefined ? fields : { worker, ...fields };
    buffer.write(format === 'pretty' ? prettyLine(line, all, colors) : jsonLine(line, all));
  };
  let dropped = 0;
  return {
    setLevel: (next) => {
      level = next;
    },
    takes,
    event(name, fields) {
      if (!takes(name)) return;
      // Half of the room is free before there are lines again, so that not every second one is about those that were dropped.
      if (buffer.waitingBytes > (dropped === 0 ? MAX_WAITING_BYTES : MAX_WAITING_BYTES / 2)) {
        dropped += 1;
        return;
      }
      if (dropped > 0) write('log.dropped', { lines: dropped });
      dropped = 0;
      write(name, fields);
      if (IN_EVERY_CALL.has(name)) return;
      if (IN_EVERY_ROUND.has(name)) buffer.flushSoon();
      else buffer.flush();
    },
  };
}

/** The beginning of a line. Its fields follow, and what the event means. */
interface Line {
  readonly level: LogLevel;
  readonly time: string;
  readonly event: LogEvent;
}

/** Formats an event as one line of JSON. It is written member by member, since each call logs one. */
function jsonLine({ level, time, event }: Line, fields: object): string {
  let line = `{"level":"${level}","time":"${time}","event":"${event}"`;
  const values = fields as Readonly<Record<string, unknown>>;
  for (const name in values) {
    const value = values[name];
    if (value !== undefined) line += `,"${name}":${jsonOf(name, value)}`;
  }
  return `${line},"msg":${(MESSAGES[event] ??= JSON.stringify(EVENTS[event].text ?? event))}}\n`;
}

/** What each event means, as JSON. */
const MESSAGES: Partial<Record<LogEvent, string>> = {};

/** A text that JSON has to escape, or that is not ASCII. */
const NEEDS_ESCAPE = /[^\x20\x21\x23-\x5b\x5d-\x7e]/;

/** Nearly every value is a short plain text or a count. To write it as it is takes half as long as `JSON.stringify`. */
function jsonOf(name: string, value: unknown): string {
  if (Number.isSafeInteger(value)) return String(value);
  const isText = typeof value === 'string' && value.length <= MAX_FIELD_CHARACTERS;
  return isText && !NEEDS_ESCAPE.test(value) ? `"${value}"` : JSON.stringify(safe(name, value));
}

/** The second of the last line, in ms since the epoch, and as text up to the point: to write it takes longer than the rest. */
let second = { atMs: NaN, text: '' };

/** Returns the time in ISO 8601. */
function timeNow(): string {
  const now = Date.now();
  const ms = now % 1000;
  if (second.atMs !== now - ms) {
    second = { atMs: now - ms, text: new Date(now).toISOString().slice(0, -4) };
  }
  return `${second.text}${String(ms).padStart(3, '0')}Z`;
}

/** Formats an event as one line for people: the time of day, level, event, fields, and what it means. */
function prettyLine(line: Line, fields: object, colors: boolean): string {
  const { level, time, event } = line;
  const paint = (code: number, text: string) => (colors ? `\u001b[${code}m${text}\u001b[0m` : text);
  const shown = Object.entries(fields)
    .filter(([, value]) => value !== undefined && value !== null && value !== '')
    .map(([name, value]) => `${paint(DIM, `${name}=`)}${quoted(safe(name, value))}`);
  const { text } = EVENTS[event];
  if (event === 'process.wrote') return spokenLine(line, fields, paint);
  const said = text === undefined ? [] : [paint(DIM, `(${text})`)];
  const start = [
    paint(DIM, time.slice(11, 23)),
    paint(COLORS[level], level.toUpperCase().padEnd(5)),
    event,
  ];
  return `${[...start, ...shown, ...said].join(' ')}\n`;
}

/** What a server wrote is read as it wrote it. */
function spokenLine(
  { level, time }: Line,
  fields: object,
  paint: (code: number, text: string) => string,
): string {
  const { route, line, dropped } = fields as Readonly<Record<string, unknown>>;
  const missing = dropped === undefined ? '' : paint(DIM, `(${String(dropped)} lines dropped) `);
  const start = `${paint(DIM, time.slice(11, 23))} ${paint(COLORS[level], level.toUpperCase().padEnd(5))}`;
  return `${start} ${paint(DIM, `${String(safe('route', route))} |`)} ${missing}${String(safe('line', line))}\n`;
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

/** Events whose lines may wait until what is being done is done, so that no client or server waits for the log. */
const IN_EVERY_ROUND: ReadonlySet<LogEvent> = new Set([
  'call.parked',
  'call.resumed',
  'call.relayed',
  'call.result_ready',
  'audit',
  'relay.hop',
]);

/** What a pipe takes as one piece at least, in bytes, on Linux; on other systems less (pipe(7)). */
const PIPE_BUF = 4096;

/** What may wait for a reader of the log that is behind, in bytes. It would grow until the process has no memory left. */
const MAX_WAITING_BYTES = 4 * 1024 * 1024;

/** How long a line may wait, in ms. */
const WAIT_MS = 10;

/** Writes lines together that come within a moment, since each write is a system call. */
class LineBuffer {
  readonly #destination: LogDestination;
  readonly #maxBytes: number;
  #lines = '';
  #bytes = 0;
  #timer: NodeJS.Timeout | undefined;
  #immediate: NodeJS.Immediate | undefined;

  /** @param maxBytes of lines that are written together */
  constructor(destination: LogDestination, maxBytes: number) {
    this.#destination = destination;
    this.#maxBytes = maxBytes;
  }

  /** What the reader has not taken. */
  get waitingBytes(): number {
    return this.#destination.writableLength ?? 0;
  }

  write(line: string): void {
    const bytes = this.#maxBytes === Infinity ? 0 : Buffer.byteLength(line);
    if (this.#bytes + bytes > this.#maxBytes) this.flush();
    this.#timer ??= setTimeout(() => this.flush(), WAIT_MS);
    this.#lines += line;
    this.#bytes += bytes;
  }

  /** Writes the lines after the next turn of the event loop: undici sends a request over an idle connection in that turn. */
  flushSoon(): void {
    this.#immediate ??= setImmediate(() => {
      this.#immediate = setImmediate(() => this.flush());
    });
  }

  flush(): void {
    clearTimeout(this.#timer);
    clearImmediate(this.#immediate);
    this.#timer = undefined;
    this.#immediate = undefined;
    const lines = this.#lines;
    if (lines === '') return;
    this.#lines = '';
    this.#bytes = 0;
    this.#destination.write(lines);
  }
}

/** Truncates a text, and escapes what is not seen in it. */
function safe(name: string, value: unknown): unknown {
  if (typeof value !== 'string') return value;
  const max = name === 'problem' ? MAX_PROBLEM_CHARACTERS : MAX_FIELD_CHARACTERS;
  if (value.length <= max && isPlainText(value)) return value;
  const escaped = escapeUnseen(value);
  return escaped.length > max ? `${escaped.slice(0, max)}…` : escaped;
}
