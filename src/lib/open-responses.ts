/** Answers that are not with their client yet: the process must not leave before them. */
import type { ServerResponse } from 'node:http';

export class OpenAnswers {
  #count = 0;

  get count(): number {
    return this.#count;
  }

  /** Counts this answer until the last byte of it is out, or nobody is there to take it. */
  add(response: ServerResponse): void {
    response.once('close', this.open());
  }

  /** Counts an answer until the function that it gives back is called. */
  open(): () => void {
    let open = true;
    this.#count += 1;
    return () => {
      if (open) this.#count -= 1;
      open = false;
    };
  }
}
