/**
 * Session ids of a legacy server, sealed for one principal: whoever else brings one finds no session.
 * They stand in a header and in a URL with every message, so that they are short, plain ASCII, and the
 * same each time a session is named. They do not expire, as only the server knows how long a session
 * lives.
 */
import { createCipheriv, createDecipheriv, createHmac, hkdfSync } from 'node:crypto';
import { KEY_ID, SECRET_BYTES, type SecretKey } from './key-ring.ts';

/** What is sealed: a session id, or the path and query to which the messages of a session are posted. */
export type SessionMark = 'id' | 'endpoint';

export interface SessionSealOptions {
  /** Those of the fleet: the first one seals, all of them open. */
  readonly keys: readonly SecretKey[];
  /** The name of the fleet. */
  readonly audience: string;
  /** The route; a session of one route is none of another. */
  readonly route: string;
}

/** The longest id or path that is sealed, and the longest text that is opened, in characters. */
const MAX_PLAIN_LENGTH = 4096;
const MAX_SEALED_LENGTH = 6144;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;
const SHAPE = /^([A-Za-z0-9_-]{1,64})\.([A-Za-z0-9_-]{39,})$/;

interface Keys {
  readonly kid: string;
  readonly encryption: Buffer;
  readonly nonce: Buffer;
}

export class SessionSeal {
  readonly #keys: ReadonlyMap<string, Keys>;
  readonly #sealing: Keys;
  readonly #audience: string;
  readonly #route: string;

  /** @throws Error when there is no key; the keys themselves are checked where the ring is made */
  constructor({ keys, audience, route }: SessionSealOptions) {
    const [sealing, ...others] = keys.map(derived);
    if (sealing === undefined) throw new Error('session ids need a key to be sealed with');
    this.#sealing = sealing;
    this.#keys = new Map([sealing, ...others].map((key) => [key.kid, key]));
    this.#audience = audience;
    this.#route = route;
  }

  /**
   * Seals a session id, or an endpoint, for a principal.
   * @returns printable ASCII, or `null` for what is too long to stand in a header
   */
  seal(mark: SessionMark, plain: string, principal: string): string | null {
    if (plain === '' || plain.length > MAX_PLAIN_LENGTH) return null;
    const { kid, encryption, nonce: nonceKey } = this.#sealing;
    const context = this.#context(mark, principal);
    const content = Buffer.from(plain, 'latin1');
    // Made of all that is sealed: the same session has the same name, and no two contents share a nonce.
    const nonce = createHmac('sha256', nonceKey)
      .update(`${context.byteLength}.`)
      .update(context)
      .update(content)
      .digest()
      .subarray(0, NONCE_BYTES);
    const cipher = createCipheriv('aes-256-gcm', encryption, nonce).setAAD(context);
    const sealed = Buffer.concat([
      nonce,
      cipher.update(content),
      cipher.final(),
      cipher.getAuthTag(),
    ]);
    return `${kid}.${sealed.toString('base64url')}`;
  }

  /** @returns what was sealed, or `null` when that was not done here for this principal */
  open(mark: SessionMark, sealed: string, principal: string): string | null {
    if (sealed.length > MAX_SEALED_LENGTH) return null;
    const [, kid = '', text = ''] = SHAPE.exec(sealed) ?? [];
    const key = this.#keys.get(kid);
    const bytes = Buffer.from(text, 'base64url');
    // Otherwise several texts would stand for the same bytes.
    if (key === undefined || bytes.toString('base64url') !== text) return null;
    const nonce = bytes.subarray(0, NONCE_BYTES);
    const decipher = createDecipheriv('aes-256-gcm', key.encryption, nonce)
      .setAAD(this.#context(mark, principal))
      .setAuthTag(bytes.subarray(-TAG_BYTES));
    try {
      const content = decipher.update(bytes.subarray(NONCE_BYTES, -TAG_BYTES));
      return Buffer.concat([content, decipher.final()]).toString('latin1');
    } catch {
      return null;
    }
  }

  #context(mark: SessionMark, principal: string): Buffer {
    return Buffer.from(JSON.stringify([this.#audience, this.#route, mark, principal]));
  }
}

function derived({ kid, secret }: SecretKey): Keys {
  if (!KEY_ID.test(kid)) throw new Error('a key has no proper id');
  const bytes = Buffer.from(
    hkdfSync('sha256', secret, new Uint8Array(), 'mrtr-gateway/session/v1', 2 * SECRET_BYTES),
  );
  return {
    kid,
    encryption: bytes.subarray(0, SECRET_BYTES),
    nonce: bytes.subarray(SECRET_BYTES),
  };
}
