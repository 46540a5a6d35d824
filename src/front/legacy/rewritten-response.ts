/** A response in which each message of the server is rewritten before the client gets it: what a list shows depends on its caller. */
import type { RewriteMessage } from '../passthrough/rewriting.ts';
import type { StreamResponse } from './event-stream.ts';

const DATA = /^(data: )(.+)$/m;

export class RewrittenResponse implements StreamResponse {
  readonly #response: StreamResponse;
  readonly #rewrite: RewriteMessage;

  constructor(response: StreamResponse, rewrite: RewriteMessage) {
    this.#response = response;
    this.#rewrite = rewrite;
  }

  get isOpen(): boolean {
    return this.#response.isOpen;
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    this.#response.head(status, headers);
  }

  /** Events are written whole, one at a time. */
  write(text: string): boolean {
    return this.#response.write(
      text.replace(DATA, (_line, field: string, json: string) => field + this.#rewrite(json)),
    );
  }

  end(text?: string): void {
    if (text === undefined) this.#response.end();
    else this.#response.end(this.#rewrite(text));
  }

  watch(listener: { caughtUp(): void; closed(): void }): void {
    this.#response.watch(listener);
  }
}
