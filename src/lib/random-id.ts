/** Names that nobody can guess. */
import { randomFillSync } from 'node:crypto';

const ID_BYTES = 16;
/** Asking the system for randomness costs more than the bytes do, so it is asked for many at once. */
const pool = Buffer.alloc(ID_BYTES * 256);
let used = pool.length;

/** 128 random bits as base64url. */
export function randomId(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const id = pool.toString('base64url', used, used + ID_BYTES);
  // What was given out is not kept.
  pool.fill(0, used, used + ID_BYTES);
  used += ID_BYTES;
  return id;
}
