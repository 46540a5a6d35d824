/** Makes tokens that the sealer would not: other headers and other contents, under genuine keys. */
import { createCipheriv, randomBytes } from 'node:crypto';
import { createKeyRing, type SealPurpose, type SecretKey } from '../../../../src/seal/key-ring.ts';
import { OLD_KEY } from '../sealing-fixture.ts';

export const HEADER = { alg: 'dir', enc: 'A256GCM', kid: OLD_KEY.kid, typ: 'mrtr+jwe' };

export interface Forgery {
  readonly header?: unknown;
  readonly headerText?: string;
  readonly content?: Uint8Array | string;
  readonly claims?: unknown;
  readonly signedBy?: SecretKey;
  readonly purpose?: SealPurpose;
}

/** A compact JWE whose tag is right for whatever header and content it is given. */
export function forge(forgery: Forgery): string {
  const ring = createKeyRing([forgery.signedBy ?? OLD_KEY], forgery.purpose ?? 'seal');
  const headerText = forgery.headerText ?? JSON.stringify(forgery.header ?? HEADER);
  const header = Buffer.from(headerText).toString('base64url');
  const nonce = randomBytes(12);
  const cipher = createCipheriv('aes-256-gcm', ring.sealing.key, nonce).setAAD(Buffer.from(header));
  const content = Buffer.from(forgery.content ?? JSON.stringify(forgery.claims));
  const sealed = Buffer.concat([cipher.update(content), cipher.final()]);
  const parts = [nonce, sealed, cipher.getAuthTag()];
  return `${header}..${parts.map((part) => part.toString('base64url')).join('.')}`;
}
