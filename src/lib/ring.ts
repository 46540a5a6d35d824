/**
 * A place in a ring of places, in the order in which they came. It is alone until it joins others; one that left holds none of
 * them, and none of them holds it.
 */
export class RingPlace {
  next: this = this;
  #previous: this = this;

  putBefore(other: this): void {
    this.#previous = other.#previous;
    this.next = other;
    this.#previous.next = this;
    other.#previous = this;
  }

  /** It does nothing if this has left. */
  leave(): void {
    this.#previous.next = this.next;
    this.next.#previous = this.#previous;
    this.next = this;
    this.#previous = this;
  }
}
