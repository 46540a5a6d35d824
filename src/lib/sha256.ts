/** Digests for keys and tokens. */
import { hash } from 'node:crypto';

/** Computes the SHA-256 of a text in UTF-8. @returns base64url */
export function sha256(text: string): string {
  return hash('sha256', text, 'base64url');
}
