/**
 * What a lease in Redis says: who renews it, and where that replica is. Others connect to the address, so it is sealed for the
 * replica: nobody who only writes to Redis can send them elsewhere.
 */
import { z } from 'zod';
import { parseJson } from '../../protocol/json.ts';
import { openBytes, sealBytes } from '../../seal/envelope.ts';
import type { KeyRing } from '../../seal/key-ring.ts';
import type { PointerOwner } from '../../seal/pointer.ts';

const MAX_SEALED_LENGTH = 4_096;

const text = z.string().min(1);
const leaseRecord = z.strictObject({
  v: z.literal(1),
  id: text,
  instance: text,
  at: z.exactOptional(text),
});

export interface LeaseSeal {
  readonly ring: KeyRing<'lease'>;
  /** The name of the deployment. */
  readonly audience: string;
}

/** Writes the lease of a replica, with the key that seals now. */
export function writeLease({ id, instance, address }: PointerOwner, seal: LeaseSeal): string {
  if (address === undefined) return JSON.stringify({ v: 1, id, instance });
  const place = { audience: seal.audience, key: instance };
  return JSON.stringify({
    v: 1,
    id,
    instance,
    at: sealBytes(seal.ring, place, Buffer.from(address)),
  });
}

/** Reads a lease. @returns `null` if it is of another version, or its address is not what a replica wrote of itself */
export function readLease(value: string, { ring, audience }: LeaseSeal): PointerOwner | null {
  try {
    const { v: _v, at, ...owner } = leaseRecord.parse(parseJson(value));
    if (at === undefined) return owner;
    const address = openBytes(ring, { audience, key: owner.instance }, at, MAX_SEALED_LENGTH);
    return { ...owner, address: address.toString('utf8') };
  } catch {
    return null;
  }
}
