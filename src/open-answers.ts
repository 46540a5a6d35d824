/** Answers that are not with their client yet: the process must not leave before them. */
import type { ServerResponse } from 'node:http';

export class OpenAnswers {
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Counts this answer until the last byte of it is out, or nobody is there to take it. */
  add(response: ServerResponse): void {
    this.#count += 1;
    response.once('close', () => (this.#count -= 1));
  }
}
