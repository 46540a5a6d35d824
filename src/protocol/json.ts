/**
 * JSON values: their types, checks of them, their canonical text, and how they are parsed within limits. A number that
 * JavaScript cannot hold (an integer beyond 2^53, or 1e400) or would write differently (1.0) is kept as it was written, so
 * that what is only passed on does not change.
 */
import secureJson from 'secure-json-parse';

export type JsonValue = null | boolean | number | ExactNumber | string | JsonValue[] | JsonObject;
export interface JsonObject {
  [member: string]: JsonValue;
}

declare const exact: unique symbol;
/** A number as it was written. `JSON.stringify` writes it unchanged. */
export interface ExactNumber {
  readonly [exact]: true;
}

/** From the ECMAScript proposal "JSON.parse source text access". The compiler does not know it yet. */
declare global {
  interface JSON {
    rawJSON(text: string): ExactNumber;
    isRawJSON(value: unknown): value is ExactNumber;
  }
}

/** Keeps a number as JSON writes it. */
export function exactNumber(text: string): ExactNumber {
  return JSON.rawJSON(text);
}

/** Tells whether a value is a number that is kept as it was written. */
export function isExactNumber(value: unknown): value is ExactNumber {
  return JSON.isRawJSON(value);
}

/** Tells whether a value is a JSON number, of any size and precision. */
export function isJsonNumber(value: unknown): value is number | ExactNumber {
  return typeof value === 'number' || isExactNumber(value);
}

/** Tells whether a value is an integer, of any size and spelling. */
export function isJsonInteger(value: unknown): value is number | ExactNumber {
  if (!isExactNumber(value)) return Number.isInteger(value);
  const text = JSON.stringify(value);
  return /^-?\d+$/.test(text) || (isHeld(text) && Number.isInteger(Number(text)));
}

/** Tells whether a value is a JSON object (not `null`, an array or an `ExactNumber`). */
export function isJsonObject(value: unknown): value is JsonObject {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !JSON.isRawJSON(value)
  );
}

/** Converts a JSON number to the nearest double. @returns `null` if the value is not a number */
export function numberOf(value: unknown): number | null {
  if (isExactNumber(value)) return Number(JSON.stringify(value));
  return typeof value === 'number' ? value : null;
}

/** Reads an own member that is a JSON object. @returns `undefined` if it is missing or something else */
export function objectMember(object: JsonObject, member: string): JsonObject | undefined {
  const value = Object.hasOwn(object, member) ? object[member] : undefined;
  return isJsonObject(value) ? value : undefined;
}

/** Returns an object without the named members: a copy, unless it has none of them. */
export function without(object: JsonObject, members: readonly string[]): JsonObject {
  if (!members.some((member) => Object.hasOwn(object, member))) return object;
  return membersWhere(object, (member) => !members.includes(member));
}

/** Copies the members whose names are kept. A member `__proto__` stays a member: an assignment would set the prototype. */
export function membersWhere(object: JsonObject, keeps: (member: string) => boolean): JsonObject {
  const kept: JsonObject = {};
  for (const member in object) {
    if (!keeps(member)) continue;
    if (member === '__proto__') {
      return Object.fromEntries(Object.entries(object).filter(([name]) => keeps(name)));
    }
    kept[member] = object[member]!;
  }
  return kept;
}

/**
 * Writes the canonical text of a value. It also accepts what RFC 8785 refuses, since a digest of what a client
 * sent must never fail: unpaired surrogates stay escaped, and a number that JavaScript cannot hold stays as it was
 * written. Neither text can come from another value.
 * @param value whose depth has been limited
 * @returns text without unpaired surrogates, so that UTF-8 encodes it without loss
 */
export function canonicalJson(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (isJsonObject(value)) {
    const members = Object.entries(value)
      .sort(byMemberName)
      .map(([member, content]) => `${JSON.stringify(member)}:${canonicalJson(content)}`);
    return `{${members.join(',')}}`;
  }
  return JSON.stringify(isExactNumber(value) ? plainNumber(JSON.stringify(value)) : value);
}

/** Compares by UTF-16 code units, not by locale (RFC 8785, section 3.2.3). */
function byMemberName([a]: [string, JsonValue], [b]: [string, JsonValue]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}

/**
 * Matches any text with a number that JavaScript cannot hold (from 2^53 on, which has 16 digits and begins with a 9) or can
 * write differently: with an exponent, a fraction that ends in 0 or is long, or as -0. It can match inside a string, too. It
 * looks only once at the digits of a number.
 */
const SPELLED_NUMBER =
  /(?:^|[\s:,[])(?:-0(?![\d.])|-?(?:\d{17}|9\d{15}|\d{9,}\.|\d+(?:[eE]|\.(?:\d{8}|\d*(?:[eE]|0(?!\d))))))/;
/** The shortest text with such a number, `:-0}`. */
const SHORTEST = 4;
/** Finds candidates; `NUMBER` decides. */
const NUMBER_LIKE = /-?\d[\d.eE+-]{2,}|-0/g;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;
/** How many numbers of a text keep their spelling although JavaScript can hold them: each takes 20 times as long as another. */
const MAX_SPELLED = 131_072;
/** Members of messages that hold data of tools. The gateway reads numbers in others. */
const DATA = new Set(['arguments', 'inputResponses', 'requestedSchema', 'result', 'data']);

/** Replaces such a number while the rest is parsed. It is random, so that no sender can forge it. */
const MARK = `number-${crypto.randomUUID()}-`;

/**
 * Parses JSON. A member `__proto__` is a member like any other. Numbers are written again as they were.
 * @param text whose depth has been checked with `excessOf`
 * @throws SyntaxError if it is not JSON
 */
export function parseJson(text: string): JsonValue {
  return parseWith(parsePlainly, text, true);
}

/**
 * Parses a message. Outside of data of tools, numbers that JavaScript can hold are numbers, in any spelling.
 * @param text whose depth has been checked with `excessOf`
 * @throws SyntaxError if it is not JSON
 */
export function parseMessage(text: string): JsonValue {
  return parseWith(parsePlainly, text, false);
}

/**
 * Parses a message of a client.
 * @param text whose depth has been checked with `excessOf`
 * @throws SyntaxError if it is not JSON, or if a member could set the prototype of an object in some program
 */
export function parseStrictly(text: string): JsonValue {
  return parseWith(parseWithoutPrototypes, text, false);
}

function parseWith(parse: (text: string) => JsonValue, text: string, isData: boolean): JsonValue {
  if (!SPELLED_NUMBER.test(text)) return parse(text);
  // A reviver is told the source of each number as well, but takes thirty times as long.
  const kept: string[] = [];
  let spelled = 0;
  const isKept = (number: string) => {
    if (JSON.stringify(Number(number)) === number || !NUMBER.test(number)) return false;
    return !isHeld(number) || (spelled += 1) <= MAX_SPELLED;
  };
  const marked = replaceOutsideStrings(text, (numbers) =>
    numbers.replace(NUMBER_LIKE, (number) => {
      if (!isKept(number)) return number;
      return `"${MARK}${kept.push(number) - 1}"`;
    }),
  );
  return kept.length === 0 ? parse(text) : withNumbers(parse(marked), kept, isData);
}

function parsePlainly(text: string): JsonValue {
  // Some servers begin with a byte order mark.
  return JSON.parse(text.startsWith('\uFEFF') ? text.slice(1) : text) as JsonValue;
}

/** Each spelling of a member that sets a prototype has one of these. */
const SUSPECT = ['__proto__', 'constructor', String.raw`\u00`];

function parseWithoutPrototypes(text: string): JsonValue {
  if (!SUSPECT.some((part) => text.includes(part))) return parsePlainly(text);
  const options = { protoAction: 'error', constructorAction: 'error' } as const;
  return secureJson.parse(text, options) as JsonValue;
}

function replaceOutsideStrings(text: string, replace: (part: string) => string): string {
  const parts: string[] = [];
  let at = 0;
  while (at < text.length) {
    const quote = text.indexOf('"', at);
    const end = quote < 0 ? text.length : quote;
    const part = text.slice(at, end);
    parts.push(part.length < SHORTEST ? part : replace(part));
    at = quote < 0 ? end : endOfString(text, quote) + 1;
    if (quote >= 0) parts.push(text.slice(quote, at));
  }
  return parts.join('');
}

/** Tells whether JavaScript holds the number exactly, or with the usual rounding of a double. */
function isHeld(number: string): boolean {
  const value = Number(number);
  if (/[eE]/.test(number)) return Number.isFinite(value);
  return Math.abs(value) <= Number.MAX_SAFE_INTEGER || String(value) === number;
}

function plainNumber(text: string): number | ExactNumber {
  return isHeld(text) ? Number(text) : exactNumber(text);
}

/**
 * Puts the numbers back, in place, without recursion.
 * @param isData whether all of it is data
 * @throws SyntaxError if one stood for the name of a member
 */
function withNumbers(parsed: JsonValue, kept: readonly string[], isData: boolean): JsonValue {
  const left: [JsonValue[] | JsonObject, boolean][] = [];
  const visit = (value: JsonValue, isData: boolean): JsonValue => {
    if (typeof value === 'string' && value.startsWith(MARK)) {
      const text = kept[Number(value.slice(MARK.length))] ?? 'null';
      return isData ? exactNumber(text) : plainNumber(text);
    }
    if (Array.isArray(value) || isJsonObject(value)) left.push([value, isData]);
    return value;
  };
  const root = visit(parsed, isData);
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const [container, isData] = next;
    if (Array.isArray(container)) {
      for (const [index, value] of container.entries()) container[index] = visit(value, isData);
    } else {
      for (const name of Object.keys(container)) {
        if (name.startsWith(MARK)) throw new SyntaxError('a member has a number for its name');
        container[name] = visit(container[name] ?? null, isData || DATA.has(name));
      }
    }
  }
  return root;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * The most objects and arrays in one message. Each takes up to 170 bytes of memory for 3 bytes of text;
 * everything else in JSON takes a small multiple of its text.
 */
export const MAX_CONTAINERS = 131_072;

/** A limit of JSON text that is exceeded: how deep objects and arrays nest, or how many there are. */
export type JsonExcess = 'depth' | 'containers';

/**
 * Checks the limits of a text before it is parsed.
 * @returns `depth` if objects and arrays nest deeper than `maxDepth`, `containers` if there are more than
 *   `MAX_CONTAINERS` of them, otherwise `null`
 */
export function excessOf(text: string, maxDepth: number): JsonExcess | null {
  // Most messages of servers are too short to exceed a limit.
  if (text.length <= maxDepth) return null;
  const members = membersWithin(text, maxDepth);
  return typeof members === 'string' ? members : null;
}

/**
 * Checks the limits of a text before it is parsed, and counts what would be members, in one pass without recursion.
 * @returns which limit is exceeded, or one for each colon outside of strings: if the text is JSON, the members of all
 *   objects
 */
export function membersWithin(text: string, maxDepth: number): JsonExcess | number {
  let [depth, containers, members] = [0, 0, 0];
  for (let at = 0; at < text.length; at += 1) {
    switch (text.charCodeAt(at)) {
      case 0x7b: // {
      case 0x5b: // [
        depth += 1;
        containers += 1;
        if (depth > maxDepth) return 'depth';
        if (containers > MAX_CONTAINERS) return 'containers';
        break;
      case 0x7d: // }
      case 0x5d: // ]
        depth -= 1;
        break;
      case QUOTE:
        at = endOfString(text, at);
        break;
      case 0x3a: // :
        members += 1;
        break;
    }
  }
  return members;
}

/** Finds the closing quote of the string that begins at `start`. @returns its index, or the length of the text if there is none */
export function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end > 0 && isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end < 0 ? text.length : end;
}

const AFTER_SCALAR = /[\s,}]/;

/**
 * Finds the end of the value of a member.
 * @returns the index after it, or one that is not in the text if the value does not end in it
 */
export function endOfValue(text: string, start: number): number {
  if (text[start] === '"') return endOfString(text, start) + 1;
  let [at, depth] = [start, 0];
  while (at < text.length) {
    const char = text[at]!;
    if (depth === 0 && AFTER_SCALAR.test(char)) return at;
    if (char === '"') at = endOfString(text, at);
    else if (char === '{' || char === '[') depth += 1;
    else if (char === '}' || char === ']') {
      depth -= 1;
      if (depth === 0) return at + 1;
    }
    at += 1;
  }
  return at;
}

/** Finds the first character that is no space. @returns its index, or the length of the text if there is none */
export function skipSpace(text: string, from: number): number {
  let at = from;
  while (at < text.length && SPACE.test(text[at]!)) at += 1;
  return at;
}

const SPACE = /\s/;

/**
 * Returns the spelling that a name has in common with all that differ in case only, as some decoders compare names. Each of the two
 * changes has one spelling of letters that the other keeps apart, such as those for "s" and "k".
 */
export function caseless(name: string): string {
  return name.toUpperCase().toLowerCase();
}

/** Tells whether an odd number of backslashes precedes a character. */
function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text.charCodeAt(first - 1) === BACKSLASH) first -= 1;
  return (at - first) % 2 === 1;
}
