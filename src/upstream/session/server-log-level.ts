/** The level of the log messages that a server sends in a session (`logging/setLevel`). */
import { LOG_LEVELS } from '../../protocol/meta.ts';
import type { CallerHeaders } from '../transport/transport.ts';

export class ServerLogLevel {
  readonly #send: (level: string, headers: CallerHeaders) => Promise<unknown>;
  #level: string | null = null;
  #isSet: Promise<unknown> = Promise.resolve();

  /** @param send sends the level. It rejects if the server may not have taken the request */
  constructor(send: (level: string, headers: CallerHeaders) => Promise<unknown>) {
    this.#send = send;
  }

  /** Has the server send messages of this level, or of a more detailed one. Ignores a refusal. Never rejects. */
  async ensure(level: string, headers: CallerHeaders): Promise<void> {
    const wanted = LOG_LEVELS.indexOf(level);
    if (this.#level === null || LOG_LEVELS.indexOf(this.#level) > wanted) {
      this.#level = level;
      // One after the other: the level that the server takes last has to be the most detailed one.
      this.#isSet = this.#isSet
        .then(() => this.#send(level, headers))
        .catch(() => {
          // The next call sets it again.
          if (this.#level === level) this.#level = null;
        });
    }
    await this.#isSet;
  }
}
