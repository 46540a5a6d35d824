/**
 * What replicas write to each other, over HTTP or through Redis. Each letter is sealed with a key of its
 * own purpose, since it holds a client's credentials and answers; it is good for one process and one
 * retry, and nobody outside the fleet can write one, whatever address a pointer or a claim names. No
 * letter expires by a clock, since those of two replicas may differ: a retry counts only when the
 * replica that wrote it confirms it (`ready` and `go`).
 */
import { z } from 'zod';
import { parseJson } from '../../protocol/json/parse.ts';
import { openBytes, sealBytes } from '../../seal/envelope.ts';
import type { KeyRing } from '../../seal/key-ring.ts';

const KINDS = {
  /** From the asker: a client's retry, as `relay-message.ts` writes it. */
  retry: 'retry',
  /** From the owner: the call is here, and the retry is carried out when the asker confirms it. */
  ready: 'ready',
  /** From the asker: its client waits still. Repeats the text of the `ready` that it answers. */
  go: 'go',
  /** From the owner: a piece of what the client is to be told, in lines. */
  piece: 'piece',
  /** From either: a sign of life. */
  alive: 'alive',
  /** From the owner: the call is not here. */
  unknown: 'unknown',
  /** From the asker, which stops: the client is to come again, if the call lets it. */
  release: 'release',
  /** From the asker: it waits no more, and its client was told to come again. */
  again: 'again',
  /** From the asker: the client has gone. */
  closed: 'closed',
} as const;
export type LetterKind = keyof typeof KINDS;

export interface Letter {
  readonly kind: LetterKind;
  /** One retry and all that is said about it. */
  readonly id: string;
  /** The process that wrote it. */
  readonly from: string;
  /** Counts the pieces of one answer, from zero; zero for all other kinds. */
  readonly number: number;
  readonly text: string;
}

const content = z.strictObject({
  v: z.literal(2),
  to: z.string().min(1),
  kind: z.enum(KINDS),
  id: z.string().min(1).max(64),
  from: z.string().min(1).max(64),
  number: z.int().min(0),
  text: z.string(),
});

/** How long a letter may be whose text has so many bytes: base64url takes four for three. */
export function sealedBytes(textBytes: number): number {
  return Math.ceil((textBytes * 4) / 3) + 2_048;
}

/** The letter for the process `to`. */
export function sealLetter(ring: KeyRing<'relay'>, to: string, letter: Letter): string {
  const written: z.infer<typeof content> = { v: 2, to, ...letter };
  return sealBytes(ring, Buffer.from(JSON.stringify(written)));
}

/** The letter that a replica of this fleet wrote to the process `to`, or `null`. */
export function openLetter(
  ring: KeyRing<'relay'>,
  to: string,
  sealed: string,
  maxBytes: number,
): Letter | null {
  try {
    const bytes = openBytes(ring, sealed, sealedBytes(maxBytes));
    const read = content.parse(parseJson(Buffer.from(bytes).toString('utf8')));
    if (read.to !== to) return null;
    const { kind, id, from, number, text } = read;
    return { kind, id, from, number, text };
  } catch {
    return null;
  }
}
