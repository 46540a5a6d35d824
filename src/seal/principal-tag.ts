/** The name of a principal inside pointers and keys: comparable, and no use to whoever reads it. */
import { createHmac } from 'node:crypto';

/**
 * In: a key that all replicas share and key rotation leaves alone, and the verified identity of the
 * caller (`null`: nobody is identified). Out: HMAC-SHA-256 as base64url, or `null` for nobody, so that
 * "no principal" is never equal to any principal.
 */
export function principalTag(key: Uint8Array | string, principal: string | null): string | null {
  if (principal === null) return null;
  // As JSON text, because UTF-8 would turn all unpaired surrogates into the same character.
  return createHmac('sha256', key).update(JSON.stringify(principal)).digest('base64url');
}
