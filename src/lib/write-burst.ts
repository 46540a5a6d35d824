/** Writes to sockets, made together where that costs less. */

/** The most writes that wait: the first one should not wait for many others. */
const MOST_WAITING = 32;

/**
 * Makes the writes of one turn of the event loop at its end, one right after the other. A write wakes up the process at
 * the other end of the socket if it sleeps. After a burst that process wakes up once, and finds several messages
 * (docs/adr/0045).
 */
export class WriteBurst {
  readonly #isAlone: () => boolean;
  #waiting: (() => void)[] = [];

  /** @param isAlone whether no more than one client waits for a response: then no other write would come in this turn */
  constructor(isAlone: () => boolean) {
    this.#isAlone = isAlone;
  }

  /** Whether a write should be made at once: only one client waits, and none of its writes does. */
  get isDue(): boolean {
    return this.#waiting.length === 0 && this.#isAlone();
  }

  /**
   * Makes a write: at once if it is due, else after this turn has read what arrived. Writes stay in order.
   * @param write must not throw
   */
  add(write: () => void): void {
    if (this.isDue) return write();
    const waiting = this.#waiting.push(write);
    if (waiting === 1) setImmediate(() => this.#flush());
    else if (waiting === MOST_WAITING) this.#flush();
  }

  #flush(): void {
    const writes = this.#waiting;
    this.#waiting = [];
    for (const write of writes) write();
  }
}
