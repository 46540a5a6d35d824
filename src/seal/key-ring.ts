/**
 * The keys of a fleet: the first one seals, all of them open, so that a key can be brought in and
 * retired while calls are parked. What the operator supplies is never used itself: each purpose gets
 * a key derived from it, and what one purpose sealed the other cannot open.
 */
import { hkdfSync, timingSafeEqual, type webcrypto } from 'node:crypto';

export const SECRET_BYTES = 32;
export const KEY_ID = /^[A-Za-z0-9_-]{1,64}$/;

/** A key as the operator supplies it. */
export interface SecretKey {
  /** Its public name, readable in every token that it seals. */
  readonly kid: string;
  readonly secret: Uint8Array;
}

export type KeyPurpose = 'seal' | 'relay';

/** A key ready for use: derived, imported, and not extractable. */
export interface RingKey {
  readonly kid: string;
  readonly key: webcrypto.CryptoKey;
}

export interface KeyRing<Purpose extends KeyPurpose> {
  readonly purpose: Purpose;
  /** The key that seals. */
  readonly sealing: RingKey;
  /** The key of that name, of all that open. */
  find(kid: string): RingKey | undefined;
}

export type KeyRingProblem =
  'key_ring_empty' | 'key_id_malformed' | 'key_id_duplicate' | 'key_length' | 'key_reused';

/** Thrown for keys that must not be used. The message is for the operator and holds no key. */
export class InvalidKeyRing extends Error {
  readonly code: KeyRingProblem;

  constructor(code: KeyRingProblem, message: string) {
    super(message);
    this.name = 'InvalidKeyRing';
    this.code = code;
  }
}

/**
 * In: the operator's keys, first the one that seals, and what they are for. Out: the ring; it holds
 * nothing of the given arrays. Throws `InvalidKeyRing`.
 */
export async function createKeyRing<Purpose extends KeyPurpose>(
  keys: readonly SecretKey[],
  purpose: Purpose,
): Promise<KeyRing<Purpose>> {
  keys.forEach((key, index) => checkKey(key, index, keys.slice(0, index)));
  const [sealing, ...others] = await Promise.all(keys.map((key) => deriveKey(key, purpose)));
  if (sealing === undefined) {
    throw new InvalidKeyRing(
      'key_ring_empty',
      'no sealing key is configured; "mrtr-gateway keygen" prints one',
    );
  }
  const byKid = new Map([sealing, ...others].map((key) => [key.kid, key]));
  return { purpose, sealing, find: (kid) => byKid.get(kid) };
}

/** Names a key by its place: an id that is not well-formed may be a secret in the wrong field. */
function checkKey({ kid, secret }: SecretKey, index: number, earlier: readonly SecretKey[]): void {
  const place = `sealing key ${index + 1}`;
  if (!KEY_ID.test(kid)) {
    throw new InvalidKeyRing(
      'key_id_malformed',
      `${place}: its "kid" must be 1 to 64 letters, digits, "_" or "-"; rename the key`,
    );
  }
  if (!(secret instanceof Uint8Array) || secret.byteLength !== SECRET_BYTES) {
    const found = secret instanceof Uint8Array ? `${secret.byteLength} bytes` : 'no bytes';
    throw new InvalidKeyRing(
      'key_length',
      `${place} ("${kid}"): a key is exactly ${SECRET_BYTES} random bytes, this one has ${found}; ` +
        '"mrtr-gateway keygen" prints a good one',
    );
  }
  for (const other of earlier) {
    if (other.kid === kid) {
      throw new InvalidKeyRing(
        'key_id_duplicate',
        `${place}: "${kid}" is listed already; give each key a "kid" of its own`,
      );
    }
    if (timingSafeEqual(other.secret, secret)) {
      throw new InvalidKeyRing(
        'key_reused',
        `${place}: "${kid}" has the same bytes as "${other.kid}"; ` +
          'rotation needs a new key ("mrtr-gateway keygen"), not a new name',
      );
    }
  }
}

/** HKDF-SHA256 (RFC 5869); reads the secret before it first awaits, so later changes to it are harmless. */
async function deriveKey({ kid, secret }: SecretKey, purpose: KeyPurpose): Promise<RingKey> {
  const derived = new Uint8Array(
    hkdfSync('sha256', secret, new Uint8Array(), `mrtr-gateway/${purpose}/v1`, SECRET_BYTES),
  );
  const key = await crypto.subtle.importKey('raw', derived, 'AES-GCM', false, [
    'encrypt',
    'decrypt',
  ]);
  derived.fill(0);
  return { kid, key };
}
