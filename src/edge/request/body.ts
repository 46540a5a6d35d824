/**
 * Reads request bodies from clients that may be hostile: of a bounded size, valid UTF-8, of a bounded depth, and
 * without duplicate members, since two parsers could pick different ones (RFC 7493).
 */
import type { IncomingMessage } from 'node:http';
import type { JsonValue } from '../../protocol/json/json.ts';
import { endOfString, MAX_CONTAINERS, parseJson } from '../../protocol/json/parse.ts';

export type JsonBody =
  | { readonly type: 'json'; readonly value: JsonValue }
  | { readonly type: 'unparsable'; readonly problem: string }
  /** Valid JSON that the gateway does not accept. */
  | { readonly type: 'refused'; readonly problem: string };

const QUOTE = 0x22;
const COLON = 0x3a;
const UTF8 = new TextDecoder('utf-8', { fatal: true });

/**
 * Reads the bytes of a body.
 * @param onBody called with the whole body, or with `null` as soon as it is too large; never if the client leaves
 */
export function readBody(
  request: IncomingMessage,
  maxBytes: number,
  onBody: (body: Buffer | null) => void,
): void {
  const chunks: Buffer[] = [];
  let bytes = 0;
  const onData = (chunk: Buffer) => {
    bytes += chunk.byteLength;
    chunks.push(chunk);
    if (bytes <= maxBytes) return;
    request.off('data', onData).off('end', onEnd);
    onBody(null);
  };
  const onEnd = () => {
    const [only] = chunks;
    onBody(chunks.length === 1 && only !== undefined ? only : Buffer.concat(chunks, bytes));
  };
  // The response is closed with the request, and tells of it.
  request
    .on('data', onData)
    .on('end', onEnd)
    .on('error', () => {});
}

/** Parses a body. Never throws. Checks the depth before any recursive code reads the text. */
export function readJsonBody(bytes: Uint8Array, maxDepth: number): JsonBody {
  let text: string;
  try {
    text = UTF8.decode(bytes);
  } catch {
    return { type: 'unparsable', problem: 'the body is not UTF-8' };
  }
  const problem = structuralProblem(text, maxDepth);
  if (problem !== null) return { type: 'refused', problem };
  try {
    return { type: 'json', value: parseJson(text) };
  } catch {
    return isJson(text)
      ? {
          type: 'refused',
          problem: 'the members "__proto__" and "constructor.prototype" are not allowed',
        }
      : { type: 'unparsable', problem: 'the body is not JSON' };
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Scans the text once. Text that is not JSON can pass; the parser reports it afterwards. */
function structuralProblem(text: string, maxDepth: number): string | null {
  /** For each open bracket: the names seen so far, or `null` for an array. */
  const open: (Names | null)[] = [];
  let containers = 0;
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charCodeAt(at)) {
      case 0x7b: // {
        open.push(new Names());
        containers += 1;
        break;
      case 0x5b: // [
        open.push(null);
        containers += 1;
        break;
      case 0x7d: // }
      case 0x5d: // ]
        open.pop();
        break;
      case QUOTE: {
        const end = endOfString(text, at);
        const names = open[open.length - 1];
        if (names && isName(text, end)) {
          const name = nameOf(text, at, end);
          if (!names.add(name)) return `duplicate member "${shorten(name)}"`;
        }
        at = end;
        break;
      }
    }
    if (open.length > maxDepth) return `the body is nested deeper than ${maxDepth} levels`;
    if (containers > MAX_CONTAINERS) {
      return `the body has more than ${MAX_CONTAINERS} objects and arrays`;
    }
  }
  return null;
}

/** The names of the members of one object, which are few almost always. */
class Names {
  static readonly #FEW = 8;
  readonly #few: string[] = [];
  #many: Set<string> | null = null;

  /** @returns false if the name is there already */
  add(name: string): boolean {
    if (this.#many === null) {
      if (this.#few.includes(name)) return false;
      this.#few.push(name);
      if (this.#few.length > Names.#FEW) this.#many = new Set(this.#few);
      return true;
    }
    if (this.#many.has(name)) return false;
    this.#many.add(name);
    return true;
  }
}

function isName(text: string, closingQuote: number): boolean {
  let at = closingQuote + 1;
  while (isWhitespace(text.charCodeAt(at))) at += 1;
  return text.charCodeAt(at) === COLON;
}

function isWhitespace(code: number): boolean {
  return code === 0x20 || code === 0x09 || code === 0x0a || code === 0x0d;
}

/** Decodes escapes, so that two spellings of one name are equal. */
function nameOf(text: string, openingQuote: number, closingQuote: number): string {
  const name = text.slice(openingQuote + 1, closingQuote);
  if (!name.includes('\\')) return name;
  try {
    return String(JSON.parse(`"${name}"`));
  } catch {
    return name;
  }
}

function shorten(name: string): string {
  return name.length > 40 ? `${name.slice(0, 40)}…` : name;
}
