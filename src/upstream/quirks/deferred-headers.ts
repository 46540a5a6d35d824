/**
 * Learns whether a server opens standalone streams, and whether it takes the GET, and responds with the first message
 * only. Servers of the Java SDK do.
 */

/** How long the head of the response is waited for, in ms. */
const PATIENCE_MS = 2_000;
/** The same, at a server that was seen to hold it back: time for the GET to arrive before the call. */
const SHORT_PATIENCE_MS = 100;

export class DeferredHeaders {
  #areHeld = false;
  #isOffered = false;

  /** Whether the server has opened such a stream, so that one that it refuses may only be one too many for now. */
  get isOffered(): boolean {
    return this.#isOffered;
  }

  /** How long to wait for the head of the standalone stream, in ms. */
  get patienceMs(): number {
    return this.#areHeld ? SHORT_PATIENCE_MS : PATIENCE_MS;
  }

  /** The head did not come in that time, and the stream was not refused. */
  held(): void {
    this.#isOffered = true;
    this.#areHeld = true;
  }

  /** The head came so long after the GET, in ms. */
  opened(afterMs: number): void {
    this.#isOffered = true;
    if (afterMs < PATIENCE_MS) this.#areHeld = false;
  }
}
