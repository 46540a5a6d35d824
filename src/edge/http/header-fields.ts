/** HTTP header fields as the modern transport uses them (streamable-http, "Request Metadata"). */

export type HeaderField =
  | { readonly type: 'absent' }
  | { readonly type: 'present'; readonly value: string }
  /** Sent more than once: two readers could disagree on which one counts. */
  | { readonly type: 'repeated' };

/**
 * A header field by its name, which is compared without regard to case.
 * @param rawHeaders names and values in turn, as Node's HTTP parser keeps them
 */
export function readHeader(rawHeaders: readonly string[], name: string): HeaderField {
  const wanted = name.toLowerCase();
  let value: string | null = null;
  for (let at = 0; at + 1 < rawHeaders.length; at += 2) {
    if (rawHeaders[at]?.toLowerCase() !== wanted) continue;
    if (value !== null) return { type: 'repeated' };
    value = withoutOuterWhitespace(rawHeaders[at + 1] ?? '');
  }
  return value === null ? { type: 'absent' } : { type: 'present', value };
}

/** Only space and tab are whitespace to HTTP; `trim` would take the last byte of some UTF-8 letters. */
function withoutOuterWhitespace(value: string): string {
  let start = 0;
  let end = value.length;
  while (start < end && ' \t'.includes(value.charAt(start))) start += 1;
  while (end > start && ' \t'.includes(value.charAt(end - 1))) end -= 1;
  return value.slice(start, end);
}

const SENTINEL_START = '=?base64?';
const SENTINEL_END = '?=';
const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/**
 * The text that a header value stands for (streamable-http, "Value Encoding"), or `null` when it is
 * marked as Base64 and is not. Clients that send UTF-8 without the marker are understood too.
 */
export function decodeHeaderValue(value: string): string | null {
  const encoded = value.startsWith(SENTINEL_START) && value.endsWith(SENTINEL_END);
  if (!encoded) return decodeUtf8(Buffer.from(value, 'latin1')) ?? value;
  const base64 = value.slice(SENTINEL_START.length, -SENTINEL_END.length);
  if (value.length < SENTINEL_START.length + SENTINEL_END.length) return null;
  const bytes = Buffer.from(base64, 'base64');
  // Only the canonical spelling: several spellings of one value would pass different filters.
  if (!BASE64.test(base64) || bytes.toString('base64') !== base64) return null;
  return decodeUtf8(bytes);
}

function decodeUtf8(bytes: Uint8Array): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return null;
  }
}

export type Accepts = 'both' | 'json' | 'none';

/** Which of the two answer forms an `Accept` header allows; a missing one allows both. */
export function readAccept(value: string | undefined): Accepts {
  if (value === undefined || value.trim() === '') return 'both';
  const types = value
    .split(',')
    .map((part) => part.split(';')[0]?.trim().toLowerCase() ?? '')
    .filter((type) => type !== '');
  const takes = (type: string, wildcard: string) =>
    types.includes(type) || types.includes(wildcard) || types.includes('*/*');
  const json = takes('application/json', 'application/*');
  const stream = takes('text/event-stream', 'text/*');
  if (stream) return 'both';
  return json ? 'json' : 'none';
}

/** True for `application/json`, with parameters or without. */
export function isJsonMediaType(value: string | undefined): boolean {
  return value?.split(';')[0]?.trim().toLowerCase() === 'application/json';
}
