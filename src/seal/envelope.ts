/**
 * The sealed envelope: bytes in a compact JWE (RFC 7516), `dir` with `A256GCM`. Only the exact form that
 * sealing produces can be opened: `jose` alone also accepts non-canonical base64url, and compression.
 */
import { CompactEncrypt, compactDecrypt } from 'jose';
import secureJson from 'secure-json-parse';
import { z } from 'zod';
import { InvalidRequestState } from './invalid-request-state.ts';
import { KEY_ID, type KeyPurpose, type KeyRing } from './key-ring.ts';

const ALGORITHM = 'dir';
const ENCRYPTION = 'A256GCM';
/** Separates the purposes: a token for one is refused for another, even if their keys are mixed up. */
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

/**
 * Encrypts bytes under the sealing key of the ring.
 * @returns the token, different each time
 */
export function sealBytes(ring: KeyRing<KeyPurpose>, content: Uint8Array): Promise<string> {
  const { kid, key } = ring.sealing;
  return new CompactEncrypt(content)
    .setProtectedHeader({ alg: ALGORITHM, enc: ENCRYPTION, kid, typ: TYPES[ring.purpose] })
    .encrypt(key);
}

/**
 * Decrypts a token.
 * @param token the `requestState` of a client, of any type
 * @param maxTokenBytes the longest token that is accepted
 * @returns the bytes that one of the ring's keys sealed
 * @throws InvalidRequestState with `malformed`, `oversized`, `unknown-key` or `seal`
 */
export async function openBytes(
  ring: KeyRing<KeyPurpose>,
  token: unknown,
  maxTokenBytes: number,
): Promise<Uint8Array> {
  if (typeof token !== 'string') throw new InvalidRequestState('malformed');
  // First, since all other checks cost more for a longer token. The shape is ASCII: characters are bytes.
  if (!(token.length <= maxTokenBytes)) throw new InvalidRequestState('oversized');
  const header = SHAPE.exec(token)?.groups?.['header'];
  if (header === undefined || !token.split('.').every(isCanonical)) {
    throw new InvalidRequestState('malformed');
  }
  // Only the key that the header names is tried.
  const key = ring.find(readKid(header, TYPES[ring.purpose]))?.key;
  if (key === undefined) throw new InvalidRequestState('unknown-key');
  try {
    const { plaintext } = await compactDecrypt(token, key, {
      keyManagementAlgorithms: [ALGORITHM],
      contentEncryptionAlgorithms: [ENCRYPTION],
      // The header check refuses `zip`. By default jose inflates up to 250 kB.
      maxDecompressedLength: 0,
    });
    return plaintext;
  } catch {
    throw new InvalidRequestState('seal');
  }
}

/** Checks that the unused last bits are zero: otherwise several texts decode to the same bytes. */
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
