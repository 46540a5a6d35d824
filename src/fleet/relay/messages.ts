/**
 * What replicas send each other, over HTTP or through Redis; the kept connection carries the same messages in frames.
 * Each message is sealed with a key of its own purpose, since it holds a client's credentials and answers. It is valid for one process and one retry. No message expires
 * by a clock, since the clocks of two replicas can differ: a retry counts only if its sender confirms it.
 *
 * Messages are lines. Long texts travel in pieces, so that the longest reply fits into messages of bounded size and each
 * piece counts as a heartbeat. No byte is scanned twice, however long the text is.
 */
import { z } from 'zod';
import type { CallReply, EdgeRequest } from '../../model/request.ts';
import { isJsonObject, type JsonObject, parseJson } from '../../protocol/json.ts';
import { openBytes, sealBytes, type Place } from '../../seal/envelope.ts';
import type { KeyRing } from '../../seal/key-ring.ts';

const KINDS = {
  /** From the requester: a client's retry, see `writeRequest`. */
  retry: 'retry',
  /** From the owner: the call is here, and the retry is carried out if the requester confirms it. */
  ready: 'ready',
  /** From the requester: confirms that its client still waits. Repeats the text of the `ready`. */
  go: 'go',
  /** From the owner: a piece of the lines for the client, see `writeLine`. */
  piece: 'piece',
  /** From either: a heartbeat. */
  alive: 'alive',
  /** From the owner: the call is not here. */
  unknown: 'unknown',
  /** From the requester, which stops: the client should be told to retry, if the call allows it. */
  release: 'release',
  /** From the requester: it no longer waits, and its client was told to retry. */
  again: 'again',
  /** From the requester: the client has left. */
  closed: 'closed',
} as const;
export type MessageKind = keyof typeof KINDS;

export interface RelayMessage {
  readonly kind: MessageKind;
  /** Identifies one retry and all its messages. */
  readonly id: string;
  /** The process that wrote it. */
  readonly from: string;
  /** The index of a piece; 0 for all other kinds. */
  readonly number: number;
  readonly text: string;
}

const relayMessage = z.strictObject({
  v: z.literal(1),
  kind: z.enum(KINDS),
  id: z.string().min(1).max(64),
  from: z.string().min(1).max(64),
  number: z.int().min(0),
  text: z.string(),
});

/** Returns the longest sealed message whose text has `textBytes` bytes: base64url takes four for three. */
function maxSealedLength(textBytes: number): number {
  return Math.ceil((textBytes * 4) / 3) + 2_048;
}

/**
 * Returns the longest content of a message with a retry whose text has `textBytes` bytes: the text is JSON, and takes twice
 * as many as a text in JSON if all of it are quotes and backslashes.
 */
export function maxRetryBytes(textBytes: number): number {
  return 2 * textBytes;
}

/** Seals a message for a process. @param to its deployment, and its name in pointers */
export function sealMessage(ring: KeyRing<'relay'>, to: Place, message: RelayMessage): string {
  const content: z.infer<typeof relayMessage> = { v: 1, ...message };
  return sealBytes(ring, to, Buffer.from(JSON.stringify(content)));
}

/** Opens a message. @returns `null` if it is not from a replica of this deployment to the process `to` */
export function openMessage(
  ring: KeyRing<'relay'>,
  to: Place,
  sealed: string,
  maxBytes: number,
): RelayMessage | null {
  try {
    const bytes = openBytes(ring, to, sealed, maxSealedLength(maxBytes));
    const { v: _v, ...message } = relayMessage.parse(parseJson(bytes.toString('utf8')));
    return message;
  } catch {
    return null;
  }
}

/** The text of a `retry`: the client's request, as the edge read it. */
export interface RelayedRequest {
  readonly route: string;
  readonly request: EdgeRequest;
}

/** A line for the client. */
export type RelayLine =
  | { readonly type: 'notification'; readonly method: string; readonly params: JsonObject }
  | { readonly type: 'reply'; readonly reply: CallReply };

/** Writes a request. Its span and its task stay here: another replica continues the trace of `hop`. */
export function writeRequest({ route, request }: RelayedRequest): string {
  const { task: _task, span, ...rest } = request;
  return JSON.stringify({ route, request: { ...rest, hop: span?.context } });
}

/** Reads a request. @returns `null` if it is invalid */
export function readRequest(text: string): RelayedRequest | null {
  const read = readObject(text);
  if (typeof read?.['route'] !== 'string' || !isJsonObject(read['request'])) return null;
  return read as unknown as RelayedRequest;
}

export function writeLine(line: RelayLine): string {
  return `${JSON.stringify(line)}\n`;
}

/** Reads a line, without its line feed. @returns `null` if it is invalid */
export function readLine(text: string): RelayLine | null {
  const read = readObject(text);
  const isLine =
    read?.['type'] === 'reply'
      ? isJsonObject(read['reply'])
      : read?.['type'] === 'notification' && isJsonObject(read['params']);
  return isLine ? (read as unknown as RelayLine) : null;
}

/**
 * Reads an object that a replica of this deployment wrote: it comes sealed, with a version. So its members are those
 * of that version, and each change of their types needs another one.
 */
function readObject(text: string): JsonObject | null {
  try {
    const value = parseJson(text);
    return isJsonObject(value) ? value : null;
  } catch {
    return null;
  }
}

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
