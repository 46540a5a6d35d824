/** A limit on bytes that wait for their end, in all and for each owner: a body, or a message, of which a part has come. */

/** What each can hold without being counted, so that small ones come in while large ones take all the room. */
const FREE_BYTES = 16 * 1024;
/** The part of all that one owner can hold. */
const OWN_PART = 1 / 2;

/** The bytes that one body or message holds. */
export interface HeldBytes {
  /**
   * Changes how many are held.
   * @returns false if there is no room for as many: then no more are held than before
   */
  hold(bytes: number): boolean;
  /** Gives all of them back. */
  release(): void;
}

export class ByteBudget {
  readonly #maxBytes: () => number;
  readonly #byOwner = new Map<string, number>();
  #heldBytes = 0;

  /** @param maxBytes returns how many can be held in all */
  constructor(maxBytes: () => number) {
    this.#maxBytes = maxBytes;
  }

  /** How many count now. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** Begins to count for a body or a message. */
  open(owner: string): HeldBytes {
    let counted = 0;
    const hold = (bytes: number) => {
      const change = Math.max(0, bytes - FREE_BYTES) - counted;
      if (change > 0 && !this.#hasRoom(owner, change)) return false;
      if (change !== 0) this.#add(owner, change);
      counted += change;
      return true;
    };
    return { hold, release: () => void hold(0) };
  }

  #hasRoom(owner: string, bytes: number): boolean {
    const max = this.#maxBytes();
    const own = this.#byOwner.get(owner) ?? 0;
    if (own + bytes > max * OWN_PART) return false;
    return this.#heldBytes + bytes <= max;
  }

  #add(owner: string, bytes: number): void {
    this.#heldBytes += bytes;
    const own = (this.#byOwner.get(owner) ?? 0) + bytes;
    if (own === 0) this.#byOwner.delete(owner);
    else this.#byOwner.set(owner, own);
  }
}
