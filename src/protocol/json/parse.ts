/**
 * JSON from others, so that what is only passed on leaves as it came: a number that JavaScript cannot
 * hold (an integer beyond 2^53, or 1e400) is kept as it was written.
 */
import secureJson from 'secure-json-parse';
import { exactNumber, isJsonObject, type JsonObject, type JsonValue } from './json.ts';
import { endOfString } from './depth.ts';

/** What such a number looks like. It may be in a string as well. */
const LONG_NUMBER = /\d{16}|\d[eE]\+?\d{3}/;
const SHORTEST = 5;
/** Whatever could be a number; the next one says whether it is. */
const NUMBER_LIKE = /-?\d[\d.eE+-]{4,}/g;
const NUMBER = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/;

/** Stands for a long number while the rest is parsed; nobody who sends JSON can know it. */
const MARK = `number-${crypto.randomUUID()}-`;

/**
 * In: text of a depth that was limited before. Out: its value.
 * @throws SyntaxError when it is not JSON, or when a member would reach the prototype of an object
 */
export function parseJson(text: string): JsonValue {
  if (!LONG_NUMBER.test(text)) return parse(text);
  // A reviver would know what each number was written like, and takes thirty times as long.
  const long: string[] = [];
  const marked = replaceOutsideStrings(text, (numbers) =>
    numbers.replace(NUMBER_LIKE, (number) => {
      if (isHeld(number) || !NUMBER.test(number)) return number;
      return `"${MARK}${long.push(number) - 1}"`;
    }),
  );
  return long.length === 0 ? parse(text) : withNumbers(parse(marked), long);
}

function parse(text: string): JsonValue {
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

/** Whether a number that JavaScript makes of it says the same, or is as near as all doubles are. */
function isHeld(number: string): boolean {
  const value = Number(number);
  if (/[eE]/.test(number)) return Number.isFinite(value);
  return Math.abs(value) <= Number.MAX_SAFE_INTEGER || String(value) === number;
}

/** Puts the numbers back, in place. */
function withNumbers(parsed: JsonValue, long: readonly string[]): JsonValue {
  const left: (JsonValue[] | JsonObject)[] = [];
  const visit = (value: JsonValue): JsonValue => {
    if (typeof value === 'string' && value.startsWith(MARK)) {
      return exactNumber(long[Number(value.slice(MARK.length))] ?? 'null');
    }
    if (Array.isArray(value) || isJsonObject(value)) left.push(value);
    return value;
  };
  const root = visit(parsed);
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    if (Array.isArray(next)) {
      for (let index = 0; index < next.length; index += 1) next[index] = visit(next[index] ?? null);
    } else {
      for (const name of Object.keys(next)) next[name] = visit(next[name] ?? null);
    }
  }
  return root;
}
