/** Reads HTTP header fields as the modern transport uses them (streamable-http, "Request Metadata"). */

export type HeaderField =
  | { readonly type: 'absent' }
  | { readonly type: 'present'; readonly value: string }
  /** Sent more than once: two parsers could disagree on which one counts. */
  | { readonly type: 'repeated' };

const ABSENT: HeaderField = { type: 'absent' };
const REPEATED: HeaderField = { type: 'repeated' };

/**
 * Finds a header field by its name, regardless of case.
 * @param rawHeaders names and values alternating, as in `IncomingMessage.rawHeaders`
 */
export function readHeader(rawHeaders: readonly string[], name: string): HeaderField {
  return readHeaders(rawHeaders, [name.toLowerCase()])[0] ?? ABSENT;
}

/**
 * Finds several header fields in one pass.
 * @param names in lower case
 * @returns the fields, in the order of their names
 */
export function readHeaders(
  rawHeaders: readonly string[],
  names: readonly string[],
): readonly HeaderField[] {
  const fields = names.map(() => ABSENT);
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    const index = indexOfName(names, rawHeaders[at]!);
    if (index < 0) continue;
    const value = withoutOuterWhitespace(rawHeaders[at + 1]!);
    fields[index] = fields[index] === ABSENT ? { type: 'present', value } : REPEATED;
  }
  return fields;
}

/**
 * Finds a field name among others, regardless of case. Most names of a request are none of them, and have another length.
 * @param names in lower case
 * @returns its index, or -1
 */
export function indexOfName(names: readonly string[], name: string): number {
  for (let index = 0; index < names.length; index += 1) {
    const other = names[index]!;
    if (other.length === name.length && other === name.toLowerCase()) return index;
  }
  return -1;
}

/** Only space and tab are whitespace in HTTP. `trim` would remove the last byte of some UTF-8 letters. */
function withoutOuterWhitespace(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && isWhitespace(value.charCodeAt(start))) start += 1;
  while (end > start && isWhitespace(value.charCodeAt(end - 1))) end -= 1;
  return value.slice(start, end);
}

function isWhitespace(code: number): boolean {
  return code === 0x20 || code === 0x09;
}

const SENTINEL_START = '=?base64?';
const SENTINEL_END = '?=';
const ASCII = /^[\x20-\x7e]*$/;
const UTF8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/**
 * Decodes a header value (streamable-http, "Value Encoding"). Accepts UTF-8 without the marker as well.
 * @returns the text, or `null` if the value is marked as Base64 and is not canonical Base64 of UTF-8
 */
export function decodeHeaderValue(value: string): string | null {
  const encoded = value.startsWith(SENTINEL_START) && value.endsWith(SENTINEL_END);
  if (!encoded)
    return ASCII.test(value) ? value : (decodeUtf8(Buffer.from(value, 'latin1')) ?? value);
  const base64 = value.slice(SENTINEL_START.length, -SENTINEL_END.length);
  if (value.length < SENTINEL_START.length + SENTINEL_END.length) return null;
  const bytes = Buffer.from(base64, 'base64');
  // Only canonical Base64: two spellings of one value could pass different filters.
  if (!BASE64.test(base64) || bytes.toString('base64') !== base64) return null;
  return decodeUtf8(bytes);
}

function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return UTF8.decode(bytes);
  } catch {
    return null;
  }
}

export type Accepts = 'both' | 'json' | 'none';

/** Reads which of the two response forms an `Accept` header allows. A missing header allows both. */
export function readAccept(value: string | undefined): Accepts {
  // As the transport requires clients to send it (streamable-http, "Sending Messages").
  if (value === 'application/json, text/event-stream') return 'both';
  if (value === undefined || value.trim() === '') return 'both';
  const types = value
    .split(',')
    .map((part) => part.split(';')[0]?.trim().toLowerCase() ?? '')
    .filter((type) => type !== '');
  const accepts = (type: string, wildcard: string) =>
    types.includes(type) || types.includes(wildcard) || types.includes('*/*');
  const json = accepts('application/json', 'application/*');
  const stream = accepts('text/event-stream', 'text/*');
  if (stream) return 'both';
  return json ? 'json' : 'none';
}

/** Returns true for `application/json`, with or without parameters. */
export function isJsonMediaType(value: string | undefined): boolean {
  if (value === 'application/json') return true;
  return value?.split(';')[0]?.trim().toLowerCase() === 'application/json';
}
