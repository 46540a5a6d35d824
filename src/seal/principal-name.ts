/** The names of principals in the log, where nobody should find out who they are with a list of likely ones. */
import { createHmac } from 'node:crypto';
import type { KeyRing } from './key-ring.ts';

const CHARACTERS = 16;

/** Names a principal by the start of an HMAC-SHA-256 with the key that seals: replicas with the same keys say the same. */
export function principalName({ sealing }: KeyRing<'audit'>, principal: string): string {
  const digest = createHmac('sha256', sealing.key).update(principal).digest('base64url');
  return digest.slice(0, CHARACTERS);
}
