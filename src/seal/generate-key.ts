/** Makes a new key for the ring: for `keygen`, and for a gateway that is started without one. */
import { randomBytes } from 'node:crypto';
import { SECRET_BYTES, type SecretKey } from './key-ring.ts';

/** Short enough to read out, long enough that two keys of a fleet do not share it by chance. */
const KID_BYTES = 6;

/** In: a source of secret random bytes. Out: a key under a random name, in hex so that it suits a file name. */
export function generateKey(random: (bytes: number) => Uint8Array = randomBytes): SecretKey {
  const kid = Buffer.from(random(KID_BYTES)).toString('hex');
  return { kid, secret: Uint8Array.from(random(SECRET_BYTES)) };
}
