/** Digests, as they stand in keys and tokens. */
import { createHash } from 'node:crypto';

/** In: any text. Out: the SHA-256 of its UTF-8, in base64url. */
export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
