/**
 * The sealed envelope: bytes in a compact JWE (RFC 7516), `dir` with `A256GCM`. Opening takes nothing
 * but what sealing produces, to the letter: `jose` alone would also open a token with another last
 * character, with a newline behind it, or with a compressed content.
 */
import { CompactEncrypt, compactDecrypt } from 'jose';
import secureJson from 'secure-json-parse';
import { z } from 'zod';
import { InvalidRequestState } from './invalid-request-state.ts';
import { KEY_ID, type KeyPurpose, type KeyRing } from './key-ring.ts';

const ALGORITHM = 'dir';
const ENCRYPTION = 'A256GCM';
/** A token for one purpose never passes for one of another, even if their keys were mixed up. */
const TYPES: Readonly<Record<KeyPurpose, string>> = {
  seal: 'mrtr+jwe',
  relay: 'mrtr-relay+jwe',
};

/** Header, no encrypted key, a 96-bit nonce, ciphertext, a 128-bit tag. */
const SHAPE = /^(?<header>[A-Za-z0-9_-]+)\.\.[A-Za-z0-9_-]{16}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{22}$/;

const protectedHeader = z.strictObject({
  alg: z.literal(ALGORITHM),
  enc: z.literal(ENCRYPTION),
  kid: z.string().regex(KEY_ID),
  typ: z.string(),
});

/** In: any bytes. Out: the token, different each time, under the sealing key of the ring. */
export function sealBytes(ring: KeyRing<KeyPurpose>, content: Uint8Array): Promise<string> {
  const { kid, key } = ring.sealing;
  return new CompactEncrypt(content)
    .setProtectedHeader({ alg: ALGORITHM, enc: ENCRYPTION, kid, typ: TYPES[ring.purpose] })
    .encrypt(key);
}

/**
 * In: whatever a client sent as `requestState`, and the longest token to look at. Out: the bytes that
 * one of the ring's keys sealed. Throws `InvalidRequestState`: `malformed`, `oversized`, `unknown-key`
 * or `seal`.
 */
export async function openBytes(
  ring: KeyRing<KeyPurpose>,
  token: unknown,
  maxTokenBytes: number,
): Promise<Uint8Array> {
  if (typeof token !== 'string') throw new InvalidRequestState('malformed');
  // Before anything whose cost grows with the length. The shape is ASCII: characters are bytes.
  if (!(token.length <= maxTokenBytes)) throw new InvalidRequestState('oversized');
  const header = SHAPE.exec(token)?.groups?.['header'];
  if (header === undefined || !token.split('.').every(isCanonical)) {
    throw new InvalidRequestState('malformed');
  }
  // The key that the header names or none; nothing is tried against key after key.
  const key = ring.find(readKid(header, TYPES[ring.purpose]))?.key;
  if (key === undefined) throw new InvalidRequestState('unknown-key');
  try {
    const { plaintext } = await compactDecrypt(token, key, {
      keyManagementAlgorithms: [ALGORITHM],
      contentEncryptionAlgorithms: [ENCRYPTION],
      // The header check has refused `zip` already; jose would inflate up to 250 kB by default.
      maxDecompressedLength: 0,
    });
    return plaintext;
  } catch {
    throw new InvalidRequestState('seal');
  }
}

/** Base64url whose unused last bits are zero: otherwise several texts stand for the same bytes. */
function isCanonical(segment: string): boolean {
  return Buffer.from(segment, 'base64url').toString('base64url') === segment;
}

function readKid(header: string, type: string): string {
  const parsed = protectedHeader.safeParse(parseHeader(header));
  if (!parsed.success || parsed.data.typ !== type) throw new InvalidRequestState('malformed');
  return parsed.data.kid;
}

function parseHeader(header: string): unknown {
  try {
    return secureJson.parse(Buffer.from(header, 'base64url').toString());
  } catch {
    return undefined;
  }
}
