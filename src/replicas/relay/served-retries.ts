/** The retries of other replicas' clients that are served here, whichever way they came. */
import type { RelayedRetry } from '../../model/relay.ts';
import type { OpenResponses } from '../../lib/open-responses.ts';
import type { LetterLeg } from './remote-leg.ts';
import type { Letter } from './sealed-message.ts';
import { readRelayRequest } from './messages.ts';

export interface ServedRetriesOptions {
  readonly openResponses: OpenResponses;
  readonly retry: RelayedRetry;
}

export class ServedRetries {
  readonly #options: ServedRetriesOptions;
  /** By the ids of their letters. */
  readonly #legs = new Map<string, LetterLeg>();

  constructor(options: ServedRetriesOptions) {
    this.#options = options;
  }

  /**
   * Resolves when the answer is written, or cannot be; with false when the call is not here. A failure
   * of ours closes the leg: the other replica notices the silence, and takes the next rung.
   * @param accept called once when the call is here, before the first line
   */
  async serve({ id, text }: Letter, leg: LetterLeg, accept: () => void): Promise<boolean> {
    const message = readRelayRequest(Buffer.from(text, 'utf8'));
    if (message === null) return false;
    const { retry, openResponses } = this.#options;
    const answered = openResponses.open();
    this.#legs.set(id, leg);
    try {
      const served = await retry(message.route, message.request, leg);
      if (served === null) return false;
      accept();
      leg.begin();
      await leg.finish(await served.answer);
    } catch {
      leg.close();
    } finally {
      this.#legs.delete(id);
      answered();
    }
    return true;
  }

  /** The client of this retry has gone. */
  left(id: string): void {
    this.#legs.get(id)?.close();
  }

  close(): void {
    for (const leg of this.#legs.values()) leg.close();
  }
}
