/**
 * How the exact repetition of a retry is recognised: a client that lost our response sends the same
 * answers again and must get the same outcome, while other answers to a used round are refused.
 */
import type { JsonObject } from '../protocol/json/json.ts';
import { canonicalJson } from '../protocol/json/canonical.ts';
import { sha256 } from '../lib/sha256.ts';

/**
 * In: the `inputResponses` of a retry; a retry without them equals one with none. Out: SHA-256 as
 * base64url, whatever order the members came in. Kept beside the round; the answers themselves are not.
 */
export function answersDigest(inputResponses: JsonObject | undefined): string {
  return sha256(canonicalJson(inputResponses ?? {}));
}
