/** AES-256-GCM: the one cipher of all seals. */
import { createCipheriv, createDecipheriv, type KeyObject } from 'node:crypto';

const CIPHER = 'aes-256-gcm';
export const NONCE_BYTES = 12;
export const TAG_BYTES = 16;

/** What is needed to encrypt and to decrypt. */
export interface CipherContext {
  /** 32 bytes. */
  readonly key: KeyObject | Uint8Array;
  readonly nonce: Uint8Array;
  /** Authenticated, and not encrypted. */
  readonly associatedData: Uint8Array;
}

/** Encrypts bytes. A nonce must not be used for two contents under one key. */
export function encrypt(content: Uint8Array, { key, nonce, associatedData }: CipherContext) {
  const cipher = createCipheriv(CIPHER, key, nonce).setAAD(associatedData);
  const sealed = cipher.update(content);
  // In this mode the end of a text adds nothing to it.
  cipher.final();
  return { sealed, tag: cipher.getAuthTag() };
}

/** Decrypts bytes. @throws Error if the key, the nonce, the associated data or any byte is another one */
export function decrypt(
  sealed: Uint8Array,
  tag: Uint8Array,
  { key, nonce, associatedData }: CipherContext,
): Buffer {
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES })
    .setAAD(associatedData)
    .setAuthTag(tag);
  const content = decipher.update(sealed);
  decipher.final();
  return content;
}
