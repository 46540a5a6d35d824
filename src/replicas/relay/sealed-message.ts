/**
 * What replicas write to each other, over HTTP or through Redis. Each letter is sealed with a key of its
 * own purpose, since it holds a client's credentials and answers; it is good for one process and for a
 * moment, and nobody outside the fleet can write one, whatever address a pointer or a claim names.
 */
import { z } from 'zod';
import type { Clock } from '../../lib/clock.ts';
import { parseJson } from '../../protocol/json/parse.ts';
import { openBytes, sealBytes } from '../../seal/envelope.ts';
import type { KeyRing } from '../../seal/key-ring.ts';
import { MAX_CLOCK_SKEW_MS } from '../../seal/seal.ts';

/**
 * - `retry`: a client's retry, as `relay-message.ts` writes it
 * - `line`: what its client is to be told, in one line or several; an empty one is a sign of life
 * - `waiting`: a sign of life of the one that asked
 * - `unknown`: the call is not here
 * - `closed`: the client has gone
 */
export type LetterKind = 'retry' | 'line' | 'waiting' | 'unknown' | 'closed';

export interface Letter {
  readonly kind: LetterKind;
  /** One retry and all that is said about it. */
  readonly id: string;
  /** The process that wrote it. */
  readonly from: string;
  readonly text: string;
}

export const LETTER_LIFETIME_MS = 30_000;

const content = z.strictObject({
  v: z.literal(1),
  to: z.string().min(1),
  exp: z.number(),
  kind: z.enum(['retry', 'line', 'waiting', 'unknown', 'closed']),
  id: z.string().min(1).max(64),
  from: z.string().min(1).max(64),
  text: z.string(),
});

/** How long a letter may be whose text has so many bytes: base64url takes four for three. */
export function sealedBytes(textBytes: number): number {
  return Math.ceil((textBytes * 4) / 3) + 2_048;
}

/** The letter for the process `to`. */
export function sealLetter(
  ring: KeyRing<'relay'>,
  to: string,
  letter: Letter,
  clock: Pick<Clock, 'now'>,
): Promise<string> {
  const exp = clock.now() + LETTER_LIFETIME_MS;
  const written: z.infer<typeof content> = { v: 1, to, exp, ...letter };
  return sealBytes(ring, Buffer.from(JSON.stringify(written)));
}

/**
 * The letter that a replica of this fleet wrote to the process `to`, or `null`; `untimely` for a retry that
 * was not written just now, by the clock here.
 */
export async function openLetter(
  ring: KeyRing<'relay'>,
  to: string,
  sealed: string,
  { clock, maxBytes }: { readonly clock: Pick<Clock, 'now'>; readonly maxBytes: number },
): Promise<Letter | 'untimely' | null> {
  try {
    const bytes = await openBytes(ring, sealed, sealedBytes(maxBytes));
    const read = content.parse(parseJson(Buffer.from(bytes).toString('utf8')));
    if (read.to !== to) return null;
    const leftMs = read.exp - clock.now();
    const isOfNow =
      leftMs >= -MAX_CLOCK_SKEW_MS && leftMs <= LETTER_LIFETIME_MS + MAX_CLOCK_SKEW_MS;
    const { kind, id, from, text } = read;
    // The others count for as long as somebody waits for what they name.
    if (kind === 'retry' && !isOfNow) return 'untimely';
    return { kind, id, from, text };
  } catch {
    return null;
  }
}
