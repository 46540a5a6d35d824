/** Random numbers that depend on nothing but a text: each part of a simulation has a source of its own, by its name. */
import { createHash } from 'node:crypto';

/** The generator sfc32, started from a digest of `seed`. */
export class Random {
  readonly #state: Int32Array;

  constructor(seed: string) {
    const digest = createHash('sha256').update(seed).digest();
    this.#state = Int32Array.from([0, 4, 8, 12], (at) => digest.readInt32LE(at));
    for (let round = 0; round < 12; round++) this.next();
  }

  /** A whole number of 32 bits. */
  next(): number {
    const [a = 0, b = 0, c = 0, counter = 0] = this.#state;
    const sum = (((a + b) | 0) + counter) | 0;
    this.#state.set([
      b ^ (b >>> 9),
      (c + (c << 3)) | 0,
      ((c << 21) | (c >>> 11)) + sum,
      counter + 1,
    ]);
    return sum >>> 0;
  }

  /** At least 0 and less than 1. */
  fraction(): number {
    return this.next() / 2 ** 32;
  }

  /** A whole number, at least 0 and less than `end`. */
  below(end: number): number {
    return Math.floor(this.fraction() * end);
  }

  fill(bytes: Uint8Array): void {
    for (let at = 0; at < bytes.length; at++) bytes[at] = this.next() >>> 24;
  }
}

/** A choice that depends on nothing but its name: to drop another one changes nothing of it. */
export function choose<Choice>(why: string, choices: readonly [Choice, ...Choice[]]): Choice {
  return choices[below(why, choices.length)] ?? choices[0];
}

/** A whole number, at least 0 and less than `end`, that depends on nothing but its name. */
export function below(why: string, end: number): number {
  return new Random(why).below(end);
}
