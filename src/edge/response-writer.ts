/**
 * Answering one modern request: as one JSON object while the outcome comes soon, as an event stream
 * from the first notification on or after a few seconds, and always with a response at the end.
 */
import type { ServerResponse } from 'node:http';
import type { Clock, Timer } from '../lib/clock.ts';
import type { CallAnswer, Leg } from '../model/request.ts';
import type { ClientRequestId } from '../protocol/ids.ts';
import type { JsonObject } from '../protocol/json/json.ts';

export interface AnswerOptions {
  readonly id: ClientRequestId;
  /** After this long without an outcome the answer becomes an event stream, in ms. */
  readonly commitAfterMs: number;
  /** Between two comments that keep the stream from being cut for silence, in ms. */
  readonly keepAliveMs: number;
  /** The client takes JSON only: no stream, and so no notifications. */
  readonly jsonOnly: boolean;
  /** When more bytes wait than these, the client is behind. */
  readonly maxBufferedBytes: number;
  /** Cuts the answer of a client that is behind, where nobody can be held back for it. */
  readonly cutWhenBehind: boolean;
  readonly clock: Clock;
}

/** What was sent, for logs and metrics. */
export interface Answered {
  readonly status: number;
  /** The JSON-RPC error code, or `null` for a result. */
  readonly code: number | null;
  readonly streamed: boolean;
}

const STREAM_HEADERS = {
  'content-type': 'text/event-stream',
  'cache-control': 'no-cache, no-transform',
  // Asks proxies such as nginx not to buffer (streamable-http, "Receiving Messages").
  'x-accel-buffering': 'no',
};

export class AnswerWriter implements Leg {
  readonly #response: ServerResponse;
  readonly #options: AnswerOptions;
  readonly #closed = new AbortController();
  /** Resolves when the client has the whole answer, or is gone. */
  readonly over: Promise<void>;
  #timer: Timer | null = null;
  #streaming = false;
  #finished = false;
  #backlog: PromiseWithResolvers<void> | null = null;

  constructor(response: ServerResponse, options: AnswerOptions) {
    this.#response = response;
    this.#options = options;
    // Closing before the answer is complete is cancelling (streamable-http, "Cancellation").
    const { promise, resolve } = Promise.withResolvers<void>();
    this.over = promise;
    response.once('close', () => {
      this.#stopTimer();
      if (!response.writableFinished) this.#closed.abort();
      this.#caughtUp();
      resolve();
    });
    response.on('drain', () => this.#caughtUp());
    if (!options.jsonOnly) this.#wait(options.commitAfterMs, () => this.#commit());
  }

  get closed(): AbortSignal {
    return this.#closed.signal;
  }

  get backlog(): Promise<void> | null {
    return this.#backlog?.promise ?? null;
  }

  notify(method: string, params: JsonObject): void {
    if (this.#options.jsonOnly || this.#finished || this.#closed.signal.aborted) return;
    this.#commit();
    this.#send({ jsonrpc: '2.0', method, params });
  }

  /** Sends the response and ends the answer. */
  finish(answer: CallAnswer): Answered {
    this.#finished = true;
    this.#stopTimer();
    // Nothing more comes that could wait for it.
    this.#caughtUp();
    const { id } = this.#options;
    const body =
      answer.kind === 'result'
        ? { jsonrpc: '2.0', id, result: answer.result }
        : { jsonrpc: '2.0', id, error: answer.failure.error };
    const code = answer.kind === 'result' ? null : answer.failure.error.code;
    if (this.#streaming) {
      this.#send(body);
      this.#response.end();
      return { status: 200, code, streamed: true };
    }
    const status = answer.kind === 'result' ? 200 : answer.failure.httpStatus;
    const headers = answer.kind === 'failed' ? answer.failure.headers : undefined;
    sendJson(this.#response, status, body, headers);
    return { status, code, streamed: false };
  }

  #commit(): void {
    if (this.#streaming) return;
    this.#streaming = true;
    this.#response.writeHead(200, STREAM_HEADERS);
    this.#response.flushHeaders();
    this.#keepAlive();
  }

  #keepAlive(): void {
    this.#wait(this.#options.keepAliveMs, () => {
      this.#write(': keep-alive\n\n');
      this.#keepAlive();
    });
  }

  #send(message: object): void {
    this.#write(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
  }

  #write(text: string): void {
    if (this.#closed.signal.aborted) return;
    const { maxBufferedBytes, cutWhenBehind } = this.#options;
    // Without `drain` to come, everything is out.
    const isTaken = this.#response.write(text);
    if (this.#finished || isTaken || this.#response.writableLength <= maxBufferedBytes) return;
    if (cutWhenBehind) this.#response.destroy();
    else this.#backlog ??= Promise.withResolvers();
  }

  #caughtUp(): void {
    this.#backlog?.resolve();
    this.#backlog = null;
  }

  #wait(afterMs: number, then: () => void): void {
    this.#stopTimer();
    this.#timer = this.#options.clock.setTimer(afterMs, then);
  }

  #stopTimer(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }
}

/** Sends one JSON object as the whole answer. */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: object,
  headers: Readonly<Record<string, string>> = {},
): void {
  if (response.destroyed) return;
  // As bytes: Node would write the headers in the encoding of a text, and change those beyond ASCII.
  const bytes = Buffer.from(JSON.stringify(body));
  response.writeHead(status, {
    ...headers,
    'content-type': 'application/json',
    'content-length': bytes.byteLength,
  });
  response.end(bytes);
}
