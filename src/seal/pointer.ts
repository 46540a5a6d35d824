/**
 * What a `requestState` says once it is open: which call of which replica it continues, for whom, and
 * for which request. And its form inside the seal, which is read strictly: a replica that does not
 * know a version or mode refuses the pointer and does not guess.
 */
import { z } from 'zod';
import { callId, type CallId } from '../protocol/ids.ts';

export type Pointer = ParkPointer;

/** A pointer to a call whose exchange waits in the process of one replica. */
export interface ParkPointer {
  readonly version: 1;
  readonly mode: 'park';
  /** The fleet whose replicas accept it. */
  readonly audience: string;
  /** The id of the route that the call came in on. */
  readonly route: string;
  readonly callId: CallId;
  /** The number of the `InputRequiredResult` that carries it; the first is 1. */
  readonly round: number;
  readonly owner: PointerOwner;
  /** Seconds since the epoch. */
  readonly issuedAtSeconds: number;
  /** Seconds since the epoch; fractions are kept. */
  readonly expiresAtSeconds: number;
  /** See `principalTag`; `null` when nobody is identified. */
  readonly principal: string | null;
  readonly method: string;
  /** The tool or prompt name, or the resource URI. */
  readonly target: string;
  /** See `requestDigest`. */
  readonly digest: string;
}

/** The replica that holds the call; `boot` tells a replica from its restarted self. */
export interface PointerOwner {
  readonly id: string;
  readonly boot: string;
  readonly address?: string;
}

const text = z.string().min(1);

const parkClaims = z.strictObject({
  v: z.literal(1),
  mode: z.literal('park'),
  aud: text,
  rt: text,
  c: text,
  n: z.int().min(1),
  o: z.strictObject({ id: text, boot: text, addr: z.exactOptional(text) }),
  iat: z.number(),
  exp: z.number(),
  p: text.nullable(),
  m: text,
  t: z.string(),
  d: text,
});

const pointerClaims = z.discriminatedUnion('mode', [parkClaims]);
export type PointerClaims = z.infer<typeof pointerClaims>;

/** In: a pointer. Out: its claims, or `null` when it is none that `readPointer` would take. */
export function writePointer(pointer: Pointer): PointerClaims | null {
  const { id, boot, address } = pointer.owner;
  const claims: PointerClaims = {
    v: pointer.version,
    mode: pointer.mode,
    aud: pointer.audience,
    rt: pointer.route,
    c: pointer.callId,
    n: pointer.round,
    o: address === undefined ? { id, boot } : { id, boot, addr: address },
    iat: pointer.issuedAtSeconds,
    exp: pointer.expiresAtSeconds,
    p: pointer.principal,
    m: pointer.method,
    t: pointer.target,
    d: pointer.digest,
  };
  return pointerClaims.safeParse(claims).success ? claims : null;
}

/** In: any parsed value. Out: the pointer, or `null` when a claim is missing, odd, or not known. */
export function readPointer(value: unknown): Pointer | null {
  const parsed = pointerClaims.safeParse(value);
  if (!parsed.success) return null;
  const { o: owner, ...claims } = parsed.data;
  return {
    version: claims.v,
    mode: claims.mode,
    audience: claims.aud,
    route: claims.rt,
    callId: callId(claims.c),
    round: claims.n,
    owner: {
      id: owner.id,
      boot: owner.boot,
      ...(owner.addr === undefined ? {} : { address: owner.addr }),
    },
    issuedAtSeconds: claims.iat,
    expiresAtSeconds: claims.exp,
    principal: claims.p,
    method: claims.m,
    target: claims.t,
    digest: claims.d,
  };
}
