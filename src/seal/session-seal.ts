/**
 * Seals session ids of a legacy server, and ids of tasks, for one principal. They travel in headers and URLs: they are
 * short ASCII, and equal each time. They do not expire, since only the server knows how long a session lives, and only
 * its record how long a task.
 */
import { createHmac, hkdfSync } from 'node:crypto';
import { decrypt, encrypt, NONCE_BYTES, TAG_BYTES } from './envelope.ts';
import { KEY_ID, SECRET_BYTES, type KeySource, type SecretKey } from './key-ring.ts';

/**
 * What is sealed: a session id of the server, one of the gateway itself, the path and query to which a client posts the
 * messages of a session, what the client of a dialect declared when it opened its session, or the key of a task.
 */
export type SessionMark = 'id' | 'own-id' | 'endpoint' | 'declared' | 'task';

export interface SessionSealOptions {
  /** The keys that all replicas share. */
  readonly keys: KeySource;
  /** The name of the deployment. */
  readonly audience: string;
  /** The route. A session is valid on its own route only. */
  readonly route: string;
}

/** Limits of what is sealed and of what is opened, in characters. */
const MAX_PLAIN_LENGTH = 4096;
const MAX_SEALED_LENGTH = 6144;
const SHAPE = /^([A-Za-z0-9_-]{1,64})\.([A-Za-z0-9_-]{39,})$/;

interface DerivedKeys {
  readonly kid: string;
  readonly encryption: Buffer;
  readonly nonce: Buffer;
}

/** The keys that were derived last, and what from. */
interface Derived {
  readonly from: readonly SecretKey[];
  readonly sealing: DerivedKeys;
  readonly byKid: ReadonlyMap<string, DerivedKeys>;
}

export class SessionSeal {
  readonly #source: KeySource;
  #derived: Derived;
  readonly #audience: string;
  readonly #route: string;

  /** @throws Error if there is no key. `createKeyRing` checks the keys themselves. */
  constructor({ keys, audience, route }: SessionSealOptions) {
    this.#source = keys;
    this.#derived = derive(keys.all);
    this.#audience = audience;
    this.#route = route;
  }

  /**
   * Seals a session id, or an endpoint, for a principal.
   * @returns printable ASCII, or `null` if it is too long for a header
   */
  seal(mark: SessionMark, plain: string, principal: string): string | null {
    if (plain === '' || plain.length > MAX_PLAIN_LENGTH) return null;
    const { kid, encryption: key, nonce: nonceKey } = this.#keys.sealing;
    const associatedData = this.#context(mark, principal);
    const content = Buffer.from(plain, 'latin1');
    // Derived from all that is sealed: one session has one sealed id, and no two contents share a nonce.
    const nonce = createHmac('sha256', nonceKey)
      .update(`${associatedData.byteLength}.`)
      .update(associatedData)
      .update(content)
      .digest()
      .subarray(0, NONCE_BYTES);
    const { sealed, tag } = encrypt(content, { key, nonce, associatedData });
    return `${kid}.${Buffer.concat([nonce, sealed, tag]).toString('base64url')}`;
  }

  /** Opens a sealed id. @returns `null` if it was not sealed by these keys for this principal */
  open(mark: SessionMark, sealed: string, principal: string): string | null {
    if (sealed.length > MAX_SEALED_LENGTH) return null;
    const [, kid = '', text = ''] = SHAPE.exec(sealed) ?? [];
    const key = this.#keys.byKid.get(kid);
    const bytes = Buffer.from(text, 'base64url');
    // Otherwise several texts decode to the same bytes.
    if (key === undefined || bytes.toString('base64url') !== text) return null;
    const nonce = bytes.subarray(0, NONCE_BYTES);
    const associatedData = this.#context(mark, principal);
    try {
      const context = { key: key.encryption, nonce, associatedData };
      const sealed = bytes.subarray(NONCE_BYTES, -TAG_BYTES);
      return decrypt(sealed, bytes.subarray(-TAG_BYTES), context).toString('latin1');
    } catch {
      return null;
    }
  }

  get #keys(): Derived {
    const { all } = this.#source;
    if (all !== this.#derived.from) this.#derived = derive(all);
    return this.#derived;
  }

  #context(mark: SessionMark, principal: string): Buffer {
    return Buffer.from(JSON.stringify([this.#audience, this.#route, mark, principal]));
  }
}

function derive(from: readonly SecretKey[]): Derived {
  const [sealing, ...others] = from.map(deriveKeys);
  if (sealing === undefined) throw new Error('no key to seal session ids with');
  return { from, sealing, byKid: new Map([sealing, ...others].map((key) => [key.kid, key])) };
}

function deriveKeys({ kid, secret }: SecretKey): DerivedKeys {
  if (!KEY_ID.test(kid)) throw new Error('invalid key id');
  const bytes = Buffer.from(
    hkdfSync('sha256', secret, new Uint8Array(), 'mrtr-gateway/session/v1', 2 * SECRET_BYTES),
  );
  return {
    kid,
    encryption: bytes.subarray(0, SECRET_BYTES),
    nonce: bytes.subarray(SECRET_BYTES),
  };
}
