/** Makes tokens that the sealer would not: other headers and other contents, under genuine keys. */
import { randomBytes, webcrypto } from 'node:crypto';
import { createKeyRing, type KeyPurpose, type SecretKey } from '../../../src/seal/key-ring.ts';
import { OLD_KEY } from './sealing-fixture.ts';

export const HEADER = { alg: 'dir', enc: 'A256GCM', kid: OLD_KEY.kid, typ: 'mrtr+jwe' };

export interface Forgery {
  readonly header?: unknown;
  readonly headerText?: string;
  readonly content?: Uint8Array | string;
  readonly claims?: unknown;
  readonly signedBy?: SecretKey;
  readonly purpose?: KeyPurpose;
}

/** A compact JWE whose tag is right for whatever header and content it is given. */
export async function forge(forgery: Forgery): Promise<string> {
  const ring = await createKeyRing([forgery.signedBy ?? OLD_KEY], forgery.purpose ?? 'seal');
  const headerText = forgery.headerText ?? JSON.stringify(forgery.header ?? HEADER);
  const header = Buffer.from(headerText).toString('base64url');
  const iv = randomBytes(12);
  const sealed = Buffer.from(
    await webcrypto.subtle.encrypt(
      { name: 'AES-GCM', iv, additionalData: Buffer.from(header) },
      ring.sealing.key,
      Buffer.from(forgery.content ?? JSON.stringify(forgery.claims)),
    ),
  );
  const parts = [iv, sealed.subarray(0, -16), sealed.subarray(-16)];
  return `${header}..${parts.map((part) => part.toString('base64url')).join('.')}`;
}
