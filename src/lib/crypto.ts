/** Unguessable ids, and digests for keys and tokens. */
import { randomFillSync, hash } from 'node:crypto';

const ID_BYTES = 16;
/** A system call costs more than the bytes it returns, so many are read at once. */
const pool = Buffer.alloc(ID_BYTES * 256);
let used = pool.length;

/** Generates 128 random bits. @returns base64url */
export function randomId(): string {
  if (used === pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const id = pool.toString('base64url', used, used + ID_BYTES);
  // An id that was returned does not stay in memory.
  pool.fill(0, used, used + ID_BYTES);
  used += ID_BYTES;
  return id;
}

/** Computes the SHA-256 of a text in UTF-8. @returns base64url */
export function sha256(text: string): string {
  return hash('sha256', text, 'base64url');
}
