/**
 * The sealed envelope: bytes in a JWE (RFC 7516), `dir` with `A256GCM`, in the compact form. Exactly one text opens to the
 * sealed bytes: the header and the base64url are compared with what sealing writes (ADR 3 and 21). It opens only where it was
 * put: the place is the additional authenticated data (JWE AAD), which is not written into the text.
 */
import { createCipheriv, createDecipheriv, type KeyObject } from 'node:crypto';
import { fewRandomBytes } from '../lib/crypto.ts';
import { InvalidRequestState } from './invalid-request-state.ts';
import type { SealPurpose, KeyRing, RingKey } from './key-ring.ts';

/** The `typ` of each purpose: a token for one is refused for another, even if their keys are mixed up. */
const TYPES: Readonly<Record<SealPurpose, string>> = {
  seal: 'mrtr+jwe',
  relay: 'mrtr-relay+jwe',
  frames: 'mrtr-frames+jwe',
  home: 'mrtr-home+jwe',
  task: 'mrtr-task+jwe',
  lease: 'mrtr-lease+jwe',
  greeting: 'mrtr-greeting+jwe',
};

/** Where a sealed text is put: among those of its purpose, it opens nowhere else. */
export interface Place {
  /** The name of the deployment: one that has the same keys has other places. */
  readonly audience: string;
  /** What is kept, or whom it is for. */
  readonly key: string;
}

/** The place of what clients carry: it is put nowhere, and what it is bound to is in it, so that a log can say what is wrong. */
export const CARRIED = 'carried';

/** The header as `headerOf` writes it, with its `kid` and its `typ`. */
const HEADER = /^\{"alg":"dir","enc":"A256GCM","kid":"([A-Za-z0-9_-]{1,64})","typ":"([a-z+-]+)"\}$/;

/**
 * Encrypts bytes under the sealing key of the ring.
 * @param place where the token is to be opened
 * @returns the token, different each time
 */
export function sealBytes(
  ring: KeyRing<SealPurpose>,
  place: Place | typeof CARRIED,
  content: Uint8Array,
): string {
  const { key } = ring.sealing;
  const header = headerOf(ring);
  const nonce = fewRandomBytes(NONCE_BYTES);
  const { sealed, tag } = encrypt(content, { key, nonce, associatedData: bind(header, place) });
  const segments = [nonce, sealed, tag].map((bytes) => bytes.toString('base64url'));
  return `${header}..${segments.join('.')}`;
}

/**
 * Decrypts a token.
 * @param place where the token was found
 * @param token of any type: the `requestState` of a client, or a message of a replica
 * @param maxTokenBytes the longest token that is accepted
 * @returns the bytes that one of the ring's keys sealed for this place
 * @throws InvalidRequestState with `malformed`, `oversized`, `unknown-key` or `seal`
 */
export function openBytes(
  ring: KeyRing<SealPurpose>,
  place: Place | typeof CARRIED,
  token: unknown,
  maxTokenBytes: number,
): Buffer {
  if (typeof token !== 'string') throw new InvalidRequestState('malformed');
  // First, since all other checks cost more for a longer token. The shape is ASCII: characters are bytes.
  if (!(token.length <= maxTokenBytes)) throw new InvalidRequestState('oversized');
  const { header, nonce, sealed, tag } = readSegments(token);
  // Only the key that the header names is tried.
  const isOfSealingKey = header === headerOf(ring);
  const named = isOfSealingKey ? ring.sealing : ring.find(readKid(header, TYPES[ring.purpose]));
  if (named === undefined) throw new InvalidRequestState('unknown-key');
  const { key } = named;
  try {
    return decrypt(sealed, tag, { key, nonce, associatedData: bind(header, place) });
  } catch {
    throw new InvalidRequestState('seal');
  }
}

/** Returns what the tag covers besides the content: as RFC 7516, section 5.1, step 14 says. */
function bind(header: string, place: Place | typeof CARRIED): Buffer {
  if (place === CARRIED) return Buffer.from(header);
  const { audience, key } = place;
  return Buffer.from(
    `${header}.${Buffer.from(JSON.stringify([audience, key])).toString('base64url')}`,
  );
}

/** Splits a token: header, no encrypted key, nonce, ciphertext, tag. */
function readSegments(token: string) {
  const [header = '', key, ...rest] = token.split('.', 6);
  const [nonce, sealed, tag, excess] = rest.map(readCanonical);
  const isComplete =
    key === '' &&
    nonce?.length === NONCE_BYTES &&
    sealed !== undefined &&
    sealed.length > 0 &&
    tag?.length === TAG_BYTES &&
    excess === undefined;
  if (!isComplete) throw new InvalidRequestState('malformed');
  return { header, nonce, sealed, tag };
}

/** Decodes base64url. Refuses all other spellings of the same bytes: padding, other letters, unused bits that are set. */
function readCanonical(segment: string): Buffer {
  const bytes = Buffer.from(segment, 'base64url');
  if (bytes.toString('base64url') !== segment) throw new InvalidRequestState('malformed');
  return bytes;
}

const headers = new WeakMap<RingKey, string>();

/** Returns the header of what a ring seals. To write it takes a tenth of a seal. */
function headerOf({ sealing, purpose }: KeyRing<SealPurpose>): string {
  const written = headers.get(sealing);
  if (written !== undefined) return written;
  const fields = { alg: 'dir', enc: 'A256GCM', kid: sealing.kid, typ: TYPES[purpose] };
  const header = Buffer.from(JSON.stringify(fields)).toString('base64url');
  headers.set(sealing, header);
  return header;
}

/** Compares the whole header, byte by byte: it can neither ask for compression nor name another algorithm. */
function readKid(header: string, type: string): string {
  const [, kid, typ] = HEADER.exec(readCanonical(header).toString('latin1')) ?? [];
  if (kid === undefined || typ !== type) throw new InvalidRequestState('malformed');
  return kid;
}

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
