/** Unguessable bytes and ids, and digests for keys and tokens. */
import { randomFillSync, hash } from 'node:crypto';

const ID_BYTES = 16;
/** A system call costs more than the bytes it returns, so many are read at once. */
const pool = Buffer.alloc(ID_BYTES * 256);
let used = pool.length;

/** Returns a few random bytes, which are in no other place. */
export function fewRandomBytes(count: number): Buffer {
  return takeRandom(count, (start) => Buffer.copyBytesFrom(pool, start, count));
}

/** Generates 128 random bits. @returns base64url */
export function randomId(): string {
  return takeRandom(ID_BYTES, (start) => pool.toString('base64url', start, used));
}

/** Has some bytes of the pool copied, which are used once. */
function takeRandom<Copy>(count: number, copy: (start: number) => Copy): Copy {
  if (used + count > pool.length) {
    randomFillSync(pool);
    used = 0;
  }
  const start = used;
  used += count;
  const copied = copy(start);
  pool.fill(0, start, used);
  return copied;
}

/** Computes the SHA-256 of a text in UTF-8. @returns base64url */
export function sha256(text: string): string {
  return hash('sha256', text, 'base64url');
}
