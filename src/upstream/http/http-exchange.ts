/**
 * One HTTP request and its response: the handler that undici calls. It limits the body and the time, and
 * gives the body to a reader as events or as JSON. A reader that is slow pauses the connection.
 */
import type { IncomingHttpHeaders } from 'node:http';
import type { Dispatcher } from 'undici';
import type { Clock, Timer } from '../../lib/clock.ts';
import type { HeldBytes } from '../../lib/byte-budget.ts';
import type { JsonValue } from '../../protocol/json.ts';
import {
  asUpstreamFailure,
  isBrokenConnection,
  UpstreamFailure,
} from '../../model/upstream-failure.ts';
import { failureOfStatus, refuseForeignForms } from './error-response.ts';
import type { BodyForm, HttpRequest, ResponseHead } from './http-request.ts';
import { UNBOUNDED } from '../size-limits.ts';
import { EventStreamBody, type ServerSentEvent, TextBody, upstreamJson } from './bodies.ts';

/** How long a server can take to end a stream after its reply, in ms: then the connection serves other requests. */
export const LINGER_MS = 1_000;

/**
 * What is told of a response: `sent`, `head`, then `event` or `json`, then `end`; or `failed` at any point. After
 * `head` nothing is told to a reader that takes no body.
 */
export interface ResponseReader {
  /** The request is written on a connection. Before that, silence says nothing of the server. */
  sent?(): void;
  /**
   * The response has begun, with a status below 300.
   * @throws UpstreamFailure to refuse the response
   */
  head(head: ResponseHead): BodyForm;
  /** Whether an event that is too large is discarded and told. Otherwise it breaks the response. */
  readonly discardsLarge?: boolean;
  event?(event: ServerSentEvent): void;
  /** The server asks to wait this long before a reconnection, in ms. */
  retryAfter?(waitMs: number): void;
  json?(value: JsonValue): void;
  end?(): void;
  /** There is no response, an error status, or a body that is broken or refused. */
  failed(failure: UpstreamFailure): void;
}

/** Connections with room for one more request. */
export interface ConnectionGroup {
  readonly dispatcher: Dispatcher;
  /** Called once, when the response is over. */
  release(): void;
}

export interface ExchangeOptions {
  readonly maxBodyBytes: number;
  readonly maxEventBytes: number;
  /** Begins to count what waits for its end; without it, each body and event has its own limit only. */
  readonly holdBytes?: () => HeldBytes;
  /** Called with the head of each response. */
  readonly onHead?: (method: HttpRequest['method'], head: ResponseHead) => void;
  /** Called with the status of each response, and with the failure of a request that got none. */
  readonly onOutcome?: (outcome: number | UpstreamFailure) => void;
}

/** What an exchange needs of its client. */
export interface ExchangeClient {
  readonly clock: Clock;
  readonly options: ExchangeOptions;
  /** The connections that broke before a response was complete. */
  broken: number;
  /** Sends the request of an exchange once more, on a new connection. */
  sendAgain(request: HttpRequest, exchange: HttpExchange): void;
}

/** A body that is being read. */
export interface Body {
  /** @throws UpstreamFailure if the body is refused */
  write(chunk: Buffer): void;
  /** @throws UpstreamFailure if the body is refused */
  end(): void;
}

/** Limits for bodies that say little more than their status. */
const SMALL_BODY_BYTES = 64 * 1024;
const SMALL_BODY_TIMEOUT_MS = 5_000;
const ABORTED = new Error('the exchange was aborted');

export class HttpExchange implements Dispatcher.DispatchHandler {
  readonly #client: ExchangeClient;
  readonly #method: HttpRequest['method'];
  readonly #inSession: boolean;
  readonly #heldAfterMs: number;
  /** What becomes of the request later says nothing of the server. */
  #judgedUntilMs = Infinity;
  /** The request, while it may be sent once more. */
  #repeatable: HttpRequest | null;
  /** `null` when nobody reads any more. */
  #reader: ResponseReader | null;
  #controller: Dispatcher.DispatchController | null = null;
  #body: Body | null = null;
  readonly #held: HeldBytes;
  #timer: Timer | null = null;
  /** When the timer ends, in ms of the monotonic clock. */
  #timeoutEndsMs = 0;
  #group: ConnectionGroup | null = null;
  /** A part of the request was written, so that the server may have acted on it. */
  #written = false;
  #hasHead = false;
  /** The head of a response with an error status. */
  #errorHead: ResponseHead | null = null;
  #paused = false;
  /** Events that came while the reader was paused. */
  #waiting: ServerSentEvent[] = [];
  /** How the response ended while the reader was paused. */
  #ending: UpstreamFailure | 'complete' | null = null;

  constructor(client: ExchangeClient, request: HttpRequest, reader: ResponseReader) {
    this.#client = client;
    this.#held = client.options.holdBytes?.() ?? UNBOUNDED;
    this.#method = request.method;
    this.#inSession = request.inSession === true;
    this.#repeatable = request.repeatable === true ? request : null;
    this.#reader = reader;
    const { timeoutMs, heldAfterMs = Infinity } = request;
    this.#heldAfterMs = heldAfterMs;
    if (timeoutMs === undefined) return;
    this.#setTimeout(timeoutMs, () => {
      const problem = `no complete response within ${timeoutMs} ms`;
      const failure = new UpstreamFailure('upstream_timeout', problem, { mayHaveActed: true });
      if (!this.#hasHead) this.#judge(failure);
      this.fail(failure);
    });
  }

  /** Where the request is sent. The exchange releases it when the response is over. */
  useConnections(group: ConnectionGroup): Dispatcher {
    this.#group = group;
    return group.dispatcher;
  }

  /** Tells the reader no more events until `resume`, and stops reading from the connection. */
  pause(): void {
    this.#paused = true;
    this.#controller?.pause();
  }

  resume(): void {
    this.#paused = false;
    try {
      while (!this.#paused && this.#waiting.length > 0)
        this.#reader?.event?.(this.#waiting.shift()!);
    } catch (error) {
      return this.#break(error);
    }
    if (this.#paused) return;
    if (this.#ending !== null) this.#finish(this.#ending);
    else this.#controller?.resume();
  }

  /** Closes the connection. The reader is told nothing more. */
  abort(): void {
    this.#stopReading();
    this.#controller?.abort(ABORTED);
  }

  /** Closes the connection, and tells the reader that the response has ended. */
  end(): void {
    this.#body = null;
    this.#finish('complete');
    this.#controller?.abort(ABORTED);
  }

  /** The same, if the response does not end within `afterMs`. */
  endWithin(afterMs: number): void {
    const endsMs = this.#client.clock.elapsed() + afterMs;
    if (this.#reader === null || (this.#timer !== null && this.#timeoutEndsMs <= endsMs)) return;
    this.#setTimeout(afterMs, () => this.end());
  }

  /** Closes the connection, and tells the reader why. */
  fail(failure: UpstreamFailure): void {
    const reader = this.#reader;
    this.abort();
    reader?.failed(failure);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    if (this.#reader === null) return controller.abort(ABORTED);
    this.#written = true;
    this.#judgedUntilMs = this.#client.clock.elapsed() + this.#heldAfterMs;
    this.#reader.sent?.();
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: IncomingHttpHeaders,
  ): void {
    // An interim response (RFC 9110, section 15.2).
    if (status < 200) return;
    // undici would keep them for as long as the stream is open.
    controller.rawHeaders = null;
    this.#hasHead = true;
    this.#repeatable = null;
    this.#judge(status);
    const reader = this.#reader;
    if (reader === null) return;
    try {
      this.#body = this.#bodyOf({ status, headers, mediaType: mediaTypeOf(headers) }, reader);
    } catch (error) {
      this.#break(error);
    }
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    try {
      this.#body?.write(chunk);
    } catch (error) {
      this.#break(error);
    }
  }

  onResponseEnd(): void {
    this.#group?.release();
    try {
      this.#body?.end();
      this.#finish('complete');
    } catch (error) {
      this.#break(error);
    }
  }

  onResponseError(_controller: Dispatcher.DispatchController | null, error: Error): void {
    this.#group?.release();
    const mayHaveActed = this.#hasHead || (this.#written && this.#method === 'POST');
    const failure = asUpstreamFailure(error, mayHaveActed);
    if (this.#reader !== null && isBrokenConnection(failure)) this.#client.broken += 1;
    const request = this.#repeatable;
    if (request !== null && this.#reader !== null && isBrokenConnection(failure)) {
      this.#repeatable = null;
      this.#written = false;
      this.#controller = null;
      this.#client.sendAgain(request, this);
      return;
    }
    // Without a reader, this side has closed the connection.
    if (!this.#hasHead && this.#reader !== null) this.#judge(failure);
    if (this.#written) {
      this.#finish(failure);
    } else {
      // The client may not have returned the exchange yet.
      queueMicrotask(() => this.#finish(failure));
    }
  }

  #judge(outcome: number | UpstreamFailure): void {
    if (this.#client.clock.elapsed() < this.#judgedUntilMs)
      this.#client.options.onOutcome?.(outcome);
  }

  #bodyOf(head: ResponseHead, reader: ResponseReader): Body {
    const { maxBodyBytes, maxEventBytes, onHead } = this.#client.options;
    onHead?.(this.#method, head);
    if (head.status >= 400) return this.#errorBody(head);
    refuseForeignForms(head);
    switch (reader.head(head)) {
      case 'events':
        return new EventStreamBody(maxEventBytes, this.#held, {
          discardsLarge: reader.discardsLarge === true,
          event: (event) => this.#onEvent(event),
          retryAfter: (waitMs) => this.#reader?.retryAfter?.(waitMs),
        });
      case 'json':
        return new TextBody(
          maxBodyBytes,
          (text) => this.#reader?.json?.(upstreamJson(text)),
          'upstream.maxEvent',
          this.#held,
        );
      case 'none':
        this.#stopReading();
        this.#setTimeout(SMALL_BODY_TIMEOUT_MS, () => this.abort());
        return new TextBody(SMALL_BODY_BYTES, () => {});
    }
  }

  /** The status says enough if there is no JSON-RPC error in the body, or the body is late or broken. */
  #errorBody(head: ResponseHead): Body {
    this.#errorHead = head;
    this.#setTimeout(SMALL_BODY_TIMEOUT_MS, () => this.#break(ABORTED));
    return new TextBody(SMALL_BODY_BYTES, (text) => {
      this.#errorHead = null;
      this.#finish(this.#failureOf(head, text));
    });
  }

  #failureOf(head: ResponseHead, text: string): UpstreamFailure {
    return failureOfStatus(head, text, this.#inSession, this.#client.clock.now());
  }

  #onEvent(event: ServerSentEvent): void {
    if (this.#paused) this.#waiting.push(event);
    else this.#reader?.event?.(event);
  }

  /** Closes the connection because of what the server sent. */
  #break(error: unknown): void {
    this.#body = null;
    this.#finish(asUpstreamFailure(error, true));
    this.#controller?.abort(ABORTED);
  }

  #finish(ending: UpstreamFailure | 'complete'): void {
    this.#clearTimeout();
    if (this.#paused) {
      this.#ending ??= ending;
      return;
    }
    const reader = this.#reader;
    const errorHead = this.#errorHead;
    this.#stopReading();
    if (errorHead !== null) reader?.failed(this.#failureOf(errorHead, ''));
    else if (ending === 'complete') reader?.end?.();
    else reader?.failed(ending);
  }

  #stopReading(): void {
    this.#clearTimeout();
    this.#held.release();
    this.#body = null;
    this.#reader = null;
    this.#waiting = [];
  }

  #setTimeout(afterMs: number, callback: () => void): void {
    this.#clearTimeout();
    this.#timeoutEndsMs = this.#client.clock.elapsed() + afterMs;
    this.#timer = this.#client.clock.setTimer(afterMs, callback);
  }

  #clearTimeout(): void {
    this.#timer?.cancel();
    this.#timer = null;
  }
}

function mediaTypeOf(headers: IncomingHttpHeaders): string {
  const value = headers['content-type'];
  return typeof value === 'string' ? value.split(';', 1)[0]!.trim().toLowerCase() : '';
}
