/**
 * What a JSON-RPC message is for, as far as its beginning and its end show it. The members of a message come in any order:
 * some servers write the id first, and the official TypeScript SDK writes it last. Both ends are read exactly, with their
 * strings and their depth, so that an "id" inside of a result is not taken for that of the message. What does not decide
 * it certainly is `unknown`.
 */
import {
  endOfString,
  endOfValue,
  parseMessage,
  skipSpace,
  type ExactNumber,
  type JsonValue,
} from './json.ts';

export type CutMessage =
  | { readonly type: 'response'; readonly id: string | number | null }
  | {
      readonly type: 'request';
      readonly id: string | number | ExactNumber;
      readonly method: string;
    }
  | { readonly type: 'notification'; readonly method: string }
  | { readonly type: 'unknown' };

/**
 * The members of an object that an end shows, each with the text of its value: `null` if that is no scalar, or not
 * certain; `undefined` if it is cut off.
 */
type Members = Map<string, string | null | undefined>;

const UNKNOWN: CutMessage = { type: 'unknown' };
/** What all notifications of MCP begin with. Without it, the id may just be in what was cut out. */
const NOTIFICATION = 'notifications/';
const SPACE = /\s/;
const BEFORE_SCALAR = /[\s:]/;

/**
 * Reads a message of which the middle is missing.
 * @param head its beginning
 * @param tail its end. It can overlap with the beginning
 */
export function readCutMessage(head: string, tail: string): CutMessage {
  const first = readHead(head);
  if (first === null) return UNKNOWN;
  if (first.isWhole) return classify(first.members);
  const last = readTail(tail);
  if (last === null) return UNKNOWN;
  for (const [name, value] of last) add(first.members, name, value);
  return classify(first.members);
}

function classify(members: Members): CutMessage {
  const id = scalarOf(members, 'id');
  if (members.has('method')) {
    const method = scalarOf(members, 'method');
    if (typeof method !== 'string') return UNKNOWN;
    if (!members.has('id') && method.startsWith(NOTIFICATION)) {
      return { type: 'notification', method };
    }
    return isId(id) || JSON.isRawJSON(id) ? { type: 'request', id, method } : UNKNOWN;
  }
  const isReply = members.has('result') || members.has('error');
  return isReply && (isId(id) || id === null) ? { type: 'response', id } : UNKNOWN;
}

function isId(id: unknown): id is string | number {
  return typeof id === 'string' || typeof id === 'number';
}

/** @returns `undefined` if the value is not known */
function scalarOf(members: Members, name: string): JsonValue | undefined {
  const text = members.get(name) ?? null;
  return text === null ? undefined : parsed(text);
}

/** Two different values of one member decide nothing. */
function add(members: Members, name: string, value: string | null | undefined): void {
  const known = members.get(name);
  const isSame = !members.has(name) || known === undefined || known === value;
  members.set(name, isSame ? value : null);
}

function parsed(text: string): JsonValue | undefined {
  try {
    return parseMessage(text);
  } catch {
    return undefined;
  }
}

/** Reads members until the text ends. @returns `null` if it is no object */
function readHead(head: string): { members: Members; isWhole: boolean } | null {
  const members: Members = new Map();
  const part = { members, isWhole: false };
  let at = skipSpace(head, 0);
  if (head[at] !== '{') return null;
  at = skipSpace(head, at + 1);
  while (at < head.length && head[at] !== '}') {
    if (head[at] !== '"') return null;
    const nameEnd = endOfString(head, at) + 1;
    const colon = skipSpace(head, nameEnd);
    if (colon >= head.length) return part;
    const name = parsed(head.slice(at, nameEnd));
    if (typeof name !== 'string' || head[colon] !== ':') return null;
    const start = skipSpace(head, colon + 1);
    if (start >= head.length) return part;
    const end = endOfValue(head, start);
    const isScalar = head[start] !== '{' && head[start] !== '[';
    const isCutOff = end >= head.length;
    add(members, name, !isScalar ? null : isCutOff ? undefined : head.slice(start, end));
    at = skipSpace(head, end);
    if (at >= head.length || head[at] === '}') break;
    if (head[at] !== ',') return null;
    at = skipSpace(head, at + 1);
  }
  if (at >= head.length) return part;
  return skipSpace(head, at + 1) === head.length ? { members, isWhole: true } : null;
}

/** Reads members from the end until the text does not go on. @returns `null` if it is not the end of an object */
function readTail(tail: string): Members | null {
  const members: Members = new Map();
  let at = skipBack(tail, tail.length - 1);
  if (tail[at] !== '}') return null;
  at = skipBack(tail, at - 1);
  while (at >= 0 && tail[at] !== '{') {
    const end = at + 1;
    const start = startOfValue(tail, at);
    if (start === null) return null;
    const colon = skipBack(tail, start - 1);
    if (colon < 0) break;
    if (tail[colon] !== ':') return null;
    const nameEnd = skipBack(tail, colon - 1);
    if (nameEnd < 0) break;
    if (tail[nameEnd] !== '"') return null;
    const nameStart = startOfString(tail, nameEnd);
    if (nameStart === null) return null;
    if (nameStart < 0) break;
    const name = parsed(tail.slice(nameStart, nameEnd + 1));
    if (typeof name !== 'string') return null;
    const isScalar = tail[at] !== '}' && tail[at] !== ']';
    add(members, name, isScalar ? tail.slice(start, end) : null);
    const before = skipBack(tail, nameStart - 1);
    if (before < 0 || tail[before] === '{') break;
    if (tail[before] !== ',') return null;
    at = skipBack(tail, before - 1);
  }
  return members;
}

/** @returns the index of its first character; -1 if that is not in the text; `null` if this cannot be JSON */
function startOfValue(text: string, last: number): number | null {
  if (text[last] === '"') return startOfString(text, last);
  let [at, depth] = [last, 0];
  while (at >= 0) {
    const char = text[at]!;
    if (depth === 0 && BEFORE_SCALAR.test(char)) return at + 1;
    if (char === '"') {
      const start = startOfString(text, at);
      if (start === null) return null;
      at = start;
    } else if (char === '}' || char === ']') depth += 1;
    else if (char === '{' || char === '[') {
      depth -= 1;
      if (depth === 0) return at;
      if (depth < 0) return null;
    }
    at -= 1;
  }
  return -1;
}

/**
 * Finds the quote that opens a string. Within a string each quote has an odd number of backslashes in front of it, and
 * outside of strings there are none.
 * @returns its index; -1 if it is not in the text; `null` if this cannot be JSON
 */
function startOfString(text: string, close: number): number | null {
  let quote = close;
  for (;;) {
    quote = quote > 0 ? text.lastIndexOf('"', quote - 1) : -1;
    let before = quote - 1;
    while (text[before] === '\\') before -= 1;
    // More backslashes may precede the text.
    if (before < 0) return -1;
    const backslashes = quote - 1 - before;
    if (backslashes === 0) return quote;
    if (backslashes % 2 === 0) return null;
  }
}

function skipBack(text: string, from: number): number {
  let at = from;
  while (at >= 0 && SPACE.test(text[at]!)) at -= 1;
  return at;
}
