/**
 * What lets one replica speak to another: a short-lived token, sealed with a key of its own, that
 * names the replica it is for and the body that it goes with.
 */
import { createHash } from 'node:crypto';
import secureJson from 'secure-json-parse';
import { z } from 'zod';
import type { Clock } from '../clock.ts';
import { openBytes, sealBytes } from '../seal/envelope.ts';
import type { KeyRing } from '../seal/key-ring.ts';
import { MAX_CLOCK_SKEW_MS } from '../seal/seal.ts';

const LIFETIME_MS = 30_000;
const MAX_TOKEN_BYTES = 2 * 1024;

const claims = z.strictObject({
  v: z.literal(1),
  /** The process it is for; a restarted one is another. */
  aud: z.string().min(1),
  /** SHA-256 of the body. */
  dig: z.string().min(1),
  iat: z.number(),
  exp: z.number(),
});

/** The token for a body that goes to the process `boot`. */
export function sealRelayToken(
  ring: KeyRing<'relay'>,
  boot: string,
  body: Uint8Array,
  clock: Pick<Clock, 'now'>,
): Promise<string> {
  const nowMs = clock.now();
  const content: z.infer<typeof claims> = {
    v: 1,
    aud: boot,
    dig: digest(body),
    iat: nowMs / 1000,
    exp: (nowMs + LIFETIME_MS) / 1000,
  };
  return sealBytes(ring, Buffer.from(JSON.stringify(content)));
}

/** True when a replica of this fleet made the token just now, for this process and this body. */
export async function isRelayToken(
  ring: KeyRing<'relay'>,
  token: unknown,
  boot: string,
  body: Uint8Array,
  clock: Pick<Clock, 'now'>,
): Promise<boolean> {
  try {
    const bytes = await openBytes(ring, token, MAX_TOKEN_BYTES);
    const read = claims.parse(secureJson.parse(Buffer.from(bytes).toString('utf8')));
    const nowMs = clock.now();
    return (
      read.aud === boot &&
      read.dig === digest(body) &&
      read.exp * 1000 > nowMs - MAX_CLOCK_SKEW_MS &&
      read.iat * 1000 <= nowMs + MAX_CLOCK_SKEW_MS
    );
  } catch {
    return false;
  }
}

function digest(body: Uint8Array): string {
  return createHash('sha256').update(body).digest('base64url');
}
