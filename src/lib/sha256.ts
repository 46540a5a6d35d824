/** Digests for keys and tokens. */
import { createHash } from 'node:crypto';

/** Computes the SHA-256 of a text in UTF-8. @returns base64url */
export function sha256(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}
