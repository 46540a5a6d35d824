/**
 * A pointer as the bytes that are sealed: its claims as JSON. If that is long, the requests of its open questions are not
 * among them but after a line feed, as JSON and compressed with deflate.
 */
import { deflateRawSync, inflateRawSync } from 'node:zlib';
import { isJsonObject, parseJson, type JsonValue } from '../protocol/json.ts';
import { POINTER_VERSIONS, readPointer, writePointer } from './pointer-claims.ts';
import type { Pointer } from './pointer.ts';

const UTF8 = new TextDecoder('utf-8', { fatal: true });
/** JSON.stringify writes no line feed. */
const LINE_FEED = 0x0a;
/** Small and fast: the context of a larger window costs more time than it saves bytes. */
const DEFLATE = { level: 3, windowBits: 12, memLevel: 4 };
/** To compress and to inflate takes longer than all the rest of a seal, so short pointers stay as they are. */
const SHORT_BYTES = 2 * 1024;
/** The longest requests, as JSON. */
export const MAX_REQUESTS_BYTES = 1024 * 1024;

/**
 * Encodes a pointer. Only the requests are compressed: the client is shown them in the same response. What a
 * client chooses (answers) and what it must not learn (session ids) never share a compression window, since
 * the length of the token would tell one from the other (the CRIME attack; ADR 3).
 * @returns `malformed` if a claim is missing or invalid, `too large` if the questions are
 */
export function encodePointer(pointer: Pointer): Buffer | 'malformed' | 'too large' {
  const written = writePointer(pointer);
  if (written === null) return 'malformed';
  const { claims, requests: r } = written;
  const alone = Buffer.from(JSON.stringify(claims));
  if (r.length === 0) return alone;
  const requests = Buffer.from(JSON.stringify(r));
  if (alone.byteLength + requests.byteLength <= SHORT_BYTES) {
    return Buffer.from(JSON.stringify({ ...claims, r }));
  }
  if (requests.byteLength > MAX_REQUESTS_BYTES) return 'too large';
  return Buffer.concat([alone, Buffer.of(LINE_FEED), deflateRawSync(requests, DEFLATE)]);
}

/** Decodes a pointer. @returns `null` if anything of it is missing, invalid or unknown */
export function decodePointer(bytes: Buffer): Pointer | null {
  const end = bytes.indexOf(LINE_FEED);
  try {
    if (end === -1) return readPointer(parse(bytes));
    const { windowBits } = DEFLATE;
    const deflated = bytes.subarray(end + 1);
    const requests = inflateRawSync(deflated, { windowBits, maxOutputLength: MAX_REQUESTS_BYTES });
    return readPointer(parse(bytes.subarray(0, end)), parse(requests));
  } catch {
    return null;
  }
}

/** Whether another build wrote these bytes: whatever else a version changes, its number stays where it is. */
export function isOfOtherVersion(bytes: Buffer): boolean {
  const end = bytes.indexOf(LINE_FEED);
  try {
    const claims = parse(end === -1 ? bytes : bytes.subarray(0, end));
    const version = isJsonObject(claims) ? claims['v'] : null;
    return Number.isInteger(version) && !POINTER_VERSIONS.includes(version);
  } catch {
    return false;
  }
}

function parse(content: Uint8Array): JsonValue {
  return parseJson(UTF8.decode(content));
}
