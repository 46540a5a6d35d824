/**
 * Ids of requests to legacy servers. An id is unique over all sessions, processes and restarts: some
 * servers find streams by the request id alone, or send a reply to every session.
 */
import { randomFillSync } from 'node:crypto';
import { randomId } from '../lib/random-id.ts';
import { upstreamRequestId, type UpstreamRequestId } from '../protocol/ids.ts';

const TEXT_ID = /^mrtr-[\w-]{22}$/;

/** True if only a gateway can have issued the id: other clients count from 0, or use other strings. */
export function hasGatewayIdForm(id: unknown): id is UpstreamRequestId {
  if (typeof id === 'string') return TEXT_ID.test(id);
  return Number.isSafeInteger(id) && Number(id) >= 2 ** 52;
}

/**
 * True if a server without 64-bit integers made `theirs` of `ours`: truncated, signed or unsigned, or the
 * largest value. Servers with an old rmcp do this.
 */
export function isCutTo32Bits(ours: UpstreamRequestId, theirs: unknown): boolean {
  if (typeof ours !== 'number') return false;
  return [ours % 2 ** 32, ours | 0, 2 ** 32 - 1, 2 ** 31 - 1].some((cut) => cut === theirs);
}

/** Returns a random id of 128 bits as a string, in characters that every server accepts. */
export function randomTextId(): UpstreamRequestId {
  return upstreamRequestId(`mrtr-${randomId()}`);
}

/** Random words for many ids: one system call costs more than the bytes. */
const pool = new Uint32Array(512);
let used = pool.length;

/**
 * Returns a random integer from 2^52 to 2^53 - 1, that is, 52 random bits. It is exact as a double, and
 * always beyond 32 bits, so that a server that cuts ids to 32 bits is noticed at once.
 */
export function randomRequestId(): UpstreamRequestId {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const [high = 0, low = 0] = pool.subarray(used, used + 2);
  used += 2;
  return upstreamRequestId((2 ** 20 + (high >>> 12)) * 2 ** 32 + low);
}
