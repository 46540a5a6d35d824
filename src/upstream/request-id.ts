/**
 * Ids of our requests to legacy servers. A session needs ids of its own only (basic, "Requests"), but
 * servers and bridges in the field name streams by the id alone, or send a reply to every session; so
 * no session, process or restart gives an id again that another one gave.
 */
import { randomFillSync } from 'node:crypto';
import { randomId } from '../lib/random-id.ts';
import { upstreamRequestId, type UpstreamRequestId } from '../protocol/ids.ts';

/** Whether this can only be an id that a gateway made: no other client counts so far, or in such numbers. */
export function isOfOurForm(id: unknown): id is UpstreamRequestId {
  if (typeof id === 'string') return TEXT.test(id);
  return Number.isSafeInteger(id) && Number(id) >= 2 ** 52;
}

/**
 * Whether a server made this of our id, since it holds no integers beyond 32 bits: cut off, with or without
 * a sign, or the largest that there is. Servers that are written with an old rmcp do.
 */
export function isCutTo32Bits(ours: UpstreamRequestId, theirs: unknown): boolean {
  if (typeof ours !== 'number') return false;
  return [ours % 2 ** 32, ours | 0, 2 ** 32 - 1, 2 ** 31 - 1].some((cut) => cut === theirs);
}

const TEXT = /^mrtr-[\w-]{22}$/;

/** The same as a text, of letters that every server takes which takes texts: with 128 random bits. */
export function randomTextId(): UpstreamRequestId {
  return upstreamRequestId(`mrtr-${randomId()}`);
}

/** Asking the system for randomness costs more than the bytes do, so it is asked for many at once. */
const pool = new Uint32Array(512);
let used = pool.length;

/**
 * Makes an id that is not given again: an integer with 52 random bits, from 2^52 to 2^53 - 1. That is
 * the form of every official client, exact as a double, and always beyond 32 bits, so that a server which
 * cuts ids to 32 bits shows it at once.
 * @returns the id of one request, which is its progress token as well
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
