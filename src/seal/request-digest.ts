/** What a pointer is bound to besides its target: a digest of everything in the request that counts. */
import type { JsonObject } from '../protocol/json/json.ts';
import { canonicalJson } from '../protocol/json/canonical.ts';
import { sha256 } from '../lib/sha256.ts';

/** Members that a retry must or may change: they are no part of what was asked for. */
const CHANGES_BETWEEN_ROUNDS: readonly string[] = ['_meta', 'inputResponses', 'requestState'];

/**
 * In: the method and params of a client's request. Out: SHA-256 as base64url, the same for the first
 * request and its faithful retries (MRTR, server requirement 5). Vendor members count too, and absent
 * `arguments` equal empty ones, since clients drop empty objects as they like.
 */
export function requestDigest(method: string, params: JsonObject): string {
  const salient = Object.entries({ arguments: {}, ...params }).filter(
    ([member]) => !CHANGES_BETWEEN_ROUNDS.includes(member),
  );
  const text = canonicalJson({ method, params: Object.fromEntries(salient) });
  return sha256(text);
}
