/**
 * The keys that all replicas share: the first one seals, all of them open, so that keys can be rotated while
 * calls are parked. Each purpose has a key that is derived from the configured one.
 */
import {
  createSecretKey,
  hkdfSync,
  randomBytes,
  timingSafeEqual,
  type KeyObject,
} from 'node:crypto';

export const SECRET_BYTES = 32;
export const KEY_ID = /^[A-Za-z0-9_-]{1,64}$/;

/** Short enough to read out, long enough that two keys do not get the same one by chance. */
const KID_BYTES = 6;

/** A key as the operator configures it. */
export interface SecretKey {
  /** Its public name, which everybody can read in the tokens that it seals. */
  readonly kid: string;
  readonly secret: Uint8Array;
}

/** Where keys come from that can change: the first one seals, all of them open. */
export interface KeySource {
  readonly all: readonly SecretKey[];
}

/** What is sealed. */
export type SealPurpose = 'seal' | 'relay' | 'frames' | 'home' | 'task' | 'lease' | 'greeting';
/** `audit`: the names of principals in the log. */
export type KeyPurpose = SealPurpose | 'audit';

/** A derived key. */
export interface RingKey {
  readonly kid: string;
  readonly key: KeyObject;
}

export interface KeyRing<Purpose extends KeyPurpose> {
  readonly purpose: Purpose;
  /** The key that seals. */
  readonly sealing: RingKey;
  /** Finds the key with this name among all keys. */
  find(kid: string): RingKey | undefined;
}

export type KeyRingProblem =
  'key_ring_empty' | 'key_id_malformed' | 'key_id_duplicate' | 'key_length' | 'key_reused';

/** Thrown for unusable keys. The message is for the operator and contains no key. */
export class InvalidKeyRing extends Error {
  readonly code: KeyRingProblem;

  constructor(code: KeyRingProblem, message: string) {
    super(message);
    this.name = 'InvalidKeyRing';
    this.code = code;
  }
}

/**
 * Generates a key under a random name, which is in hex so that it suits a file name.
 * @param random a source of secret random bytes
 */
export function generateKey(random: (bytes: number) => Uint8Array = randomBytes): SecretKey {
  const kid = Buffer.from(random(KID_BYTES)).toString('hex');
  return { kid, secret: Uint8Array.from(random(SECRET_BYTES)) };
}

/**
 * Derives the keys for one purpose.
 * @param keys the configured keys, the one that seals first. The ring keeps no reference to them.
 * @throws InvalidKeyRing
 */
export function createKeyRing<Purpose extends KeyPurpose>(
  keys: readonly SecretKey[],
  purpose: Purpose,
): KeyRing<Purpose> {
  keys.forEach((key, index) => checkKey(key, index, keys.slice(0, index)));
  const [sealing, ...others] = keys.map((key) => deriveKey(key, purpose));
  if (sealing === undefined) {
    throw new InvalidKeyRing(
      'key_ring_empty',
      'no sealing key is configured; "mrtr-gateway keygen" prints one',
    );
  }
  const byKid = new Map([sealing, ...others].map((key) => [key.kid, key]));
  return { purpose, sealing, find: (kid) => byKid.get(kid) };
}

/** Names a key by its position: a malformed id could be a secret in the wrong field. */
function checkKey({ kid, secret }: SecretKey, index: number, earlier: readonly SecretKey[]): void {
  const place = `sealing key ${index + 1}`;
  if (!KEY_ID.test(kid)) {
    throw new InvalidKeyRing(
      'key_id_malformed',
      `${place}: invalid "kid"; expected 1 to 64 letters, digits, "_" or "-"`,
    );
  }
  if (!(secret instanceof Uint8Array) || secret.byteLength !== SECRET_BYTES) {
    const found = secret instanceof Uint8Array ? `${secret.byteLength} bytes` : 'no bytes';
    throw new InvalidKeyRing(
      'key_length',
      `${place} ("${kid}"): expected exactly ${SECRET_BYTES} random bytes, got ${found}; ` +
        '"mrtr-gateway keygen" prints a valid key',
    );
  }
  for (const other of earlier) {
    if (other.kid === kid) {
      throw new InvalidKeyRing(
        'key_id_duplicate',
        `${place}: duplicate "kid" "${kid}"; each key needs its own`,
      );
    }
    if (timingSafeEqual(other.secret, secret)) {
      throw new InvalidKeyRing(
        'key_reused',
        `${place}: "${kid}" has the same bytes as "${other.kid}"; ` +
          'rotation needs a new key ("mrtr-gateway keygen" prints one), not only a new name',
      );
    }
  }
}

/** Derives with HKDF-SHA256 (RFC 5869). */
function deriveKey({ kid, secret }: SecretKey, purpose: KeyPurpose): RingKey {
  const info = `mrtr-gateway/${purpose}/v1`;
  const derived = new Uint8Array(hkdfSync('sha256', secret, new Uint8Array(), info, SECRET_BYTES));
  const key = createSecretKey(derived);
  derived.fill(0);
  return { kid, key };
}
