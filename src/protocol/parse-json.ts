/**
 * JSON from others, so that what is only passed on leaves as it came: a number that JavaScript cannot
 * hold (an integer beyond 2^53, or 1e400) is kept as it was written.
 */
import secureJson from 'secure-json-parse';
import { exactNumber, type JsonValue } from './json.ts';

/** What such a number looks like. It may be in a string as well; then only a little time is lost. */
const LONG_NUMBER = /\d{16}|\d[eE]\+?\d{3}/;
const INTEGER = /^-?\d+$/;

/**
 * In: text of a depth that was limited before. Out: its value.
 * @throws SyntaxError when it is not JSON, or when a member would reach the prototype of an object
 */
export function parseJson(text: string): JsonValue {
  const reviver = LONG_NUMBER.test(text) ? keepLongNumbers : undefined;
  return secureJson.parse(text, reviver, {
    protoAction: 'error',
    constructorAction: 'error',
  }) as JsonValue;
}

function keepLongNumbers(
  _name: string,
  value: unknown,
  context?: { readonly source?: string },
): unknown {
  const source = context?.source;
  if (typeof value !== 'number' || source === undefined) return value;
  const isHeld = INTEGER.test(source)
    ? Number.isSafeInteger(value) || String(value) === source
    : Number.isFinite(value);
  return isHeld ? value : exactNumber(source);
}
