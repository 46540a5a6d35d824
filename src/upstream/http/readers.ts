/** Readers of responses outside the streams of a session. */
import type { JsonValue } from '../../protocol/json.ts';
import type { UpstreamFailure } from '../../model/upstream-failure.ts';
import { type ServerSentEvent, upstreamJson } from './bodies.ts';
import type { ResponseReader } from './http-exchange.ts';
import type { BodyForm, ResponseHead } from './http-request.ts';

/** Reads a response whose status says everything. */
export class StatusReader implements ResponseReader {
  readonly sent: () => void;
  readonly #done = Promise.withResolvers<void>();
  /** Rejects with UpstreamFailure for an error status, or without a response. */
  readonly done = this.#done.promise;

  /** @param onSent called when the request is written on a connection */
  constructor(onSent: () => void = () => {}) {
    this.sent = onSent;
  }

  head(): BodyForm {
    this.#done.resolve();
    return 'none';
  }

  /** Nobody waits for the response any more. */
  end(): void {
    this.#done.resolve();
  }

  failed(failure: UpstreamFailure): void {
    this.#done.reject(failure);
  }
}

export interface ResponseMessages {
  readonly head: ResponseHead;
  /** The JSON of the body, or of each event of the type `message`. */
  readonly messages: readonly JsonValue[];
  readonly eventIds: readonly string[];
}

/** Reads the messages of a response, as JSON or as events, up to one that is wanted. */
export class MessageReader implements ResponseReader {
  /** The head of the response, if there is one. */
  responseHead: ResponseHead | null = null;
  readonly #done = Promise.withResolvers<ResponseMessages>();
  /** Resolves when the response has ended. Rejects with UpstreamFailure if the wanted message is missing then. */
  readonly done = this.#done.promise;
  readonly #isWanted: (message: JsonValue) => boolean;
  readonly #onFound: () => void;
  readonly #messages: JsonValue[] = [];
  readonly #eventIds: string[] = [];
  #found = false;

  /**
   * @param isWanted returns true for the message after which nothing more is read
   * @param onFound called when that message was read, to close a stream that does not end
   */
  constructor(isWanted: (message: JsonValue) => boolean, onFound: () => void = () => {}) {
    this.#isWanted = isWanted;
    this.#onFound = onFound;
  }

  head(head: ResponseHead): BodyForm {
    this.responseHead = head;
    if (head.mediaType === 'application/json') return 'json';
    if (head.mediaType === 'text/event-stream') return 'events';
    this.end();
    return 'none';
  }

  event({ event, data, id }: ServerSentEvent): void {
    if (this.#found) return;
    if (id !== undefined) this.#eventIds.push(id);
    if (event === 'message' && data !== '') this.json(upstreamJson(data));
  }

  json(message: JsonValue): void {
    this.#messages.push(message);
    this.#found = this.#isWanted(message);
    if (this.#found) this.#onFound();
  }

  /** Ends the reading, if the response has begun. */
  end(): void {
    const head = this.responseHead;
    const [messages, eventIds] = [this.#messages, this.#eventIds];
    if (head !== null) this.#done.resolve({ head, messages, eventIds });
  }

  failed(failure: UpstreamFailure): void {
    if (this.#found) this.end();
    else this.#done.reject(failure);
  }
}
