/** Unguessable bytes and ids, and digests for keys and tokens. */
import { randomFillSync, hash } from 'node:crypto';

const ID_BYTES = 16;
/** A system call costs more than the bytes it returns, so many are read at once. */
const pool = Buffer.alloc(ID_BYTES * 256);
let used = pool.length;

/** Returns a few random bytes, which are in no other place. */
export function fewRandomBytes(count: number): Buffer {
  if (used + count > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const bytes = Buffer.copyBytesFrom(pool, used, count);
  pool.fill(0, used, used + count);
  used += count;
  return bytes;
}

/** Generates 128 random bits. @returns base64url */
export function randomId(): string {
  return fewRandomBytes(ID_BYTES).toString('base64url');
}

/** Computes the SHA-256 of a text in UTF-8. @returns base64url */
export function sha256(text: string): string {
  return hash('sha256', text, 'base64url');
}
