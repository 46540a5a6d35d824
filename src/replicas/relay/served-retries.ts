/** The retries of other replicas' clients that are served here, by the ids of their letters. */
import type { OpenResponses } from '../../lib/open-responses.ts';
import type { Letter } from './sealed-message.ts';
import { ServedRetry, type ServedRetryOptions, type WayBack } from './served-retry.ts';

export interface ServedRetriesOptions extends ServedRetryOptions {
  readonly openResponses: OpenResponses;
}

export class ServedRetries {
  readonly #options: ServedRetriesOptions;
  readonly #served = new Map<string, ServedRetry>();

  constructor(options: ServedRetriesOptions) {
    this.#options = options;
  }

  /**
   * Serves the retry of this letter, unless it is served already; resolves when that is over.
   * @param begins called first, with the retry that is served
   */
  async serve(letter: Letter, way: WayBack, begins: (served: ServedRetry) => void): Promise<void> {
    if (this.#served.has(letter.id)) return;
    const answered = this.#options.openResponses.open();
    const served = new ServedRetry(letter, way, this.#options);
    begins(served);
    this.#served.set(letter.id, served);
    try {
      await served.serve();
    } finally {
      this.#served.delete(letter.id);
      answered();
    }
  }

  /** What a replica says of a retry that it asked for. */
  hear(letter: Letter): void {
    const served = this.#served.get(letter.id);
    if (served?.from === letter.from) served.hear(letter);
  }

  close(): void {
    for (const served of this.#served.values()) served.close();
  }
}
