/** Keeps the response to a request that the gateway waits for itself. */
import { sleep, type Clock } from '../../lib/clock.ts';
import type { StreamResponse } from './event-stream.ts';

export class Reply implements StreamResponse {
  readonly isOpen = true;
  readonly #text = Promise.withResolvers<string>();
  httpStatus = 200;
  headers: Readonly<Record<string, string>> = {};

  head(status: number, headers: Readonly<Record<string, string>>): void {
    this.httpStatus = status;
    this.headers = headers;
  }

  write(): boolean {
    return true;
  }

  end(text = ''): void {
    this.#text.resolve(text);
  }

  watch(): void {}

  /** Resolves to the response, or to `null` if it does not come in time. @param waitMs in ms */
  within(waitMs: number, clock: Clock): Promise<string | null> {
    return Promise.race([this.#text.promise, sleep(clock, waitMs).then(() => null)]);
  }
}
