/** Counts the responses that have not reached their clients. The process must not exit before them. */
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
