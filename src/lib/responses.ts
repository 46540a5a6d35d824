/** HTTP responses that have not reached their clients: counted, since a drain waits for them, and cut if they stall. */
import type { ServerResponse } from 'node:http';

export class OpenResponses {
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Counts a response until its last byte is out, or the client has left. */
  add(response: ServerResponse): void {
    response.once('close', this.open());
  }

  /**
   * Counts a response.
   * @returns a function that ends the count; further calls do nothing
   */
  open(): () => void {
    let open = true;
    this.#count += 1;
    return () => {
      if (open) this.#count -= 1;
      open = false;
    };
  }
}

/**
 * Closes the connection if bytes of this response wait and the client reads none of them. A stream with
 * nothing to send can stay silent.
 * @param afterMs how long the client can read nothing, in ms
 */
export function cutWhenStalled(response: ServerResponse, afterMs: number): void {
  // The progress of a write counts as socket activity, so the timeout means that there was none.
  response.setTimeout(afterMs, () => {
    if (response.writableLength > 0) response.destroy();
  });
}
