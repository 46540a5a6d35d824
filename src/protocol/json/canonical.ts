/** Canonical JSON (RFC 8785): equal values have equal texts, whatever the order of their members. */
import { isJsonObject, type JsonValue } from './json.ts';

/**
 * Writes the canonical text of a value. It also accepts what RFC 8785 refuses, since a digest of what a client
 * sent must never fail: unpaired surrogates stay escaped, and an `ExactNumber` stays as it was written.
 * Neither text can come from another value.
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
  return JSON.stringify(value);
}

/** Compares by UTF-16 code units, not by locale (RFC 8785, section 3.2.3). */
function byMemberName([a]: [string, JsonValue], [b]: [string, JsonValue]): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
