/**
 * Reads request bodies from clients that may be hostile: of a bounded size, valid UTF-8, of a bounded depth, and
 * without duplicate members, since two parsers could pick different ones (RFC 7493).
 */
import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import type { HeldBytes } from '../../lib/byte-budget.ts';
import { BODY_TOO_LARGE, NO_ROOM_FOR_BODY, refuse } from '../response-writer.ts';
import {
  isJsonObject,
  type JsonValue,
  endOfString,
  membersWithin,
  MAX_CONTAINERS,
  parseStrictly,
} from '../../protocol/json.ts';

export type JsonBody =
  | { readonly type: 'json'; readonly value: JsonValue }
  | { readonly type: 'unparsable'; readonly problem: string }
  /** Valid JSON that the gateway does not accept. */
  | { readonly type: 'refused'; readonly problem: string };

const QUOTE = 0x22;
const COLON = 0x3a;
const OPEN_OBJECT = 0x7b;
const CLOSE_OBJECT = 0x7d;
const OPEN_ARRAY = 0x5b;
const CLOSE_ARRAY = 0x5d;
const UTF8 = new TextDecoder('utf-8', { fatal: true });

/** Why a body is not read: it is larger than a body can be, or others take the room that there is. */
export type UnreadBody = 'too large' | 'no room';

/** The status of the response to a request whose body is not read, and its text. */
const UNREAD = {
  'too large': [413, BODY_TOO_LARGE, {}],
  'no room': [503, NO_ROOM_FOR_BODY, { 'retry-after': '1' }],
} as const;

/** Refuses a request whose body is not read. */
export function refuseBody(response: ServerResponse, why: UnreadBody): void {
  const [status, message, headers] = UNREAD[why];
  refuse(response, status, message, headers);
}

/**
 * Reads the bytes of a body.
 * @param held what the body takes until all of it has come
 * @param onBody called with the whole body, or with the reason as soon as it cannot be read; never if the client leaves
 */
export function readBody(
  request: Readable,
  maxBytes: number,
  held: HeldBytes,
  onBody: (body: Buffer | UnreadBody) => void,
): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  const onData = (chunk: Buffer) => {
    bytes += chunk.byteLength;
    chunks.push(chunk);
    const isTooLarge = bytes > maxBytes;
    if (!isTooLarge && held.hold(bytes)) return;
    held.release();
    request.off('data', onData).off('end', onEnd);
    onBody(isTooLarge ? 'too large' : 'no room');
  };
  const onEnd = () => {
    held.release();
    const [only] = chunks;
    onBody(chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks, bytes));
  };
  // The response is closed with the request, and tells of it.
  request
    .on('data', onData)
    .on('end', onEnd)
    .on('close', () => held.release())
    .on('error', () => {});
}

/** Deeper than tools nest their arguments, and far from where recursive code runs out of stack. */
const MAX_JSON_DEPTH = 64;

/** Parses a body. Never throws. Checks the depth before any recursive code reads the text. */
export function readJsonBody(bytes: Uint8Array): JsonBody {
  let text: string;
  try {
    text = UTF8.decode(bytes);
  } catch {
    return { type: 'unparsable', problem: 'the body is not UTF-8' };
  }
  const members = membersWithin(text, MAX_JSON_DEPTH);
  if (typeof members === 'string') return { type: 'refused', problem: EXCESSES[members] };
  try {
    const value = parseStrictly(text);
    // The parser keeps the last of several members with one name.
    if (membersOf(value) === members) return { type: 'json', value };
    const name = duplicateIn(text);
    return { type: 'refused', problem: `duplicate member "${shorten(name)}"` };
  } catch {
    return isJson(text)
      ? {
          type: 'refused',
          problem: 'the members "__proto__" and "constructor.prototype" are not allowed',
        }
      : { type: 'unparsable', problem: 'the body is not JSON' };
  }
}

const EXCESSES = {
  depth: `the body is nested deeper than ${MAX_JSON_DEPTH} levels`,
  containers: `the body has more than ${MAX_CONTAINERS} objects and arrays`,
};

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Counts the members of all objects in a value. */
function membersOf(value: JsonValue): number {
  let members = 0;
  if (Array.isArray(value)) {
    for (const element of value) members += membersOf(element);
  } else if (isJsonObject(value)) {
    for (const name in value) members += 1 + membersOf(value[name]!);
  }
  return members;
}

/** Finds the name of the first duplicate member in a text that is JSON and has one. */
function duplicateIn(text: string): string {
  /** For each open bracket: the names so far, which are none in an array. */
  const open: Set<string>[] = [];
  let literal = '';
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === OPEN_OBJECT || code === OPEN_ARRAY) open.push(new Set());
    else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) open.pop();
    else if (code === QUOTE) {
      const end = endOfString(text, at);
      literal = text.slice(at, end + 1);
      at = end;
    } else if (code === COLON) {
      // Two spellings of one name are equal.
      const name = String(JSON.parse(literal));
      const names = open.at(-1);
      if (names?.has(name) === true) return name;
      names?.add(name);
    }
  }
  throw new Error('no member is a duplicate');
}

function shorten(name: string): string {
  return name.length > 40 ? `${name.slice(0, 40)}…` : name;
}
