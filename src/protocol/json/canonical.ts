/**
 * The one text of a JSON value (RFC 8785): what is equal as JSON is equal as text, whatever order its
 * members came in. Two values that RFC 8785 refuses get a text here too, because a digest of what a
 * client sent must never fail: unpaired surrogates stay escaped, and a number that JavaScript cannot
 * hold stays as it was written. Neither text can arise from any other value.
 */
import { isJsonObject, type JsonValue } from './json.ts';

/**
 * In: a parsed JSON value, of a depth that the edge has limited. Out: its canonical text, in which no
 * unpaired surrogate is left, so that encoding it as UTF-8 loses nothing.
 */
export function canonicalJson(value: JsonValue): string {
  if (Array.isArray(value)) return `[${value.map(canonicalJson).join(',')}]`;
  if (isJsonObject(value)) {
    const members = Object.entries(value)
      .sort(byMemberName)
      .map(([member, content]) => `${JSON.stringify(member)}:${canonicalJson(content)}`);
    return `{${members.join(',')}}`;
  }
  return JSON.stringify(value);
}

/** By UTF-16 code units, never by locale (RFC 8785, section 3.2.3). */
function byMemberName([a]: [string, JsonValue], [b]: [string, JsonValue]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
