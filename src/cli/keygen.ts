/** `mrtr-gateway keygen`: generates a sealing key. */
import { generateKey } from '../seal/key-ring.ts';
import type { SecretKey } from '../seal/key-ring.ts';

/** Formats a key as two lines for `seal.keys`. It is quoted, since YAML reads a name of digits as a number. */
export function keygen(key: SecretKey = generateKey()): string {
  const secret = Buffer.from(key.secret).toString('base64url');
  return `    # under seal.keys\n    - kid: "${key.kid}"\n      key: "${secret}"\n`;
}
