/** By what a question is known again when a call is made anew: all that the client would see of it. */
import type { InputRequest } from '../protocol/translate/input-request.ts';
import { without } from '../protocol/json/json.ts';
import { canonicalJson } from '../protocol/json/canonical.ts';
import { sha256 } from '../lib/sha256.ts';

/**
 * In: a question as it is shown to the client. Out: SHA-256 as base64url, which does not depend on its
 * `_meta`, where servers put what differs each time.
 */
export function questionDigest({ method, params }: InputRequest): string {
  const text = canonicalJson({ method, params: without(params, ['_meta']) });
  return sha256(text);
}
