/** Unguessable bytes, numbers and ids, and digests for keys and tokens. */
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

/** Generates 52 random bits, with a one before them: an integer from 2^52 to 2^53 - 1, which is exact as a double. */
export function randomInteger(): number {
  return takeRandom(8, (start) => {
    const high = pool.readUInt32LE(start) >>> 12;
    return (2 ** 20 + high) * 2 ** 32 + pool.readUInt32LE(start + 4);
  });
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
