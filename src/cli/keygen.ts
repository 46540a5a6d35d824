/** `mrtr-gateway keygen`: a new sealing key. */
import { generateKey } from '../seal/key-ring.ts';
import type { SecretKey } from '../seal/key-ring.ts';

/** A key as two lines that go under `seal.keys`. Quoted, since a name of digits alone would be a number. */
export function keygen(key: SecretKey = generateKey()): string {
  const secret = Buffer.from(key.secret).toString('base64url');
  return `    # under seal.keys\n    - kid: "${key.kid}"\n      key: "${secret}"\n`;
}
