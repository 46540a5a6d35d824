/** The response of Node.js to a legacy client. */
import type { ServerResponse } from 'node:http';
import { MAX_BUFFERED_BYTES, noteRefusal } from '../../edge/response-writer.ts';
import { isJsonObject, objectMember, parseJson } from '../../protocol/json.ts';
import type { StreamResponse } from './event-stream.ts';

export class HttpResponse implements StreamResponse {
  readonly #response: ServerResponse;
  readonly #challenge: (status: number, challenge: string) => string;
  #hasWritten = false;

  /** @param challenge rewrites what the server challenges the client with */
  constructor(response: ServerResponse, challenge: (status: number, challenge: string) => string) {
    this.#response = response;
    this.#challenge = challenge;
  }

  get isOpen(): boolean {
    return !this.#response.destroyed;
  }

  head(status: number, headers: Readonly<Record<string, string>>): void {
    if (!this.isOpen || this.#response.headersSent) return;
    const { 'www-authenticate': challenge, ...others } = headers;
    this.#response.writeHead(status, {
      ...others,
      ...(challenge !== undefined && { 'www-authenticate': this.#challenge(status, challenge) }),
    });
    if (headers['content-type'] !== 'text/event-stream') return;
    // A message that is written by then goes out with the head.
    process.nextTick(() => {
      if (!this.#hasWritten) this.#response.flushHeaders();
    });
  }

  write(text: string): boolean {
    this.#hasWritten = true;
    return this.#response.write(text) || this.#response.writableLength <= MAX_BUFFERED_BYTES;
  }

  end(text?: string): void {
    this.#hasWritten = true;
    if (text === undefined) return void this.#response.end();
    if (this.#response.statusCode >= 400) noteRefusal(this.#response, problemOf(text));
    this.#response.end(text);
  }

  watch(listener: { caughtUp(): void; closed(): void }): void {
    this.#response.on('drain', () => listener.caughtUp());
    this.#response.on('close', () => listener.closed());
  }
}

/** Returns the message of a JSON-RPC error. */
function problemOf(json: string): string {
  const response = parseJson(json);
  const error = isJsonObject(response) ? objectMember(response, 'error') : undefined;
  return String(error?.['message'] ?? '');
}
