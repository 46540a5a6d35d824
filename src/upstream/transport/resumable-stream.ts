/**
 * One event stream of Streamable HTTP, over as many connections as the server makes of it: reads it, and
 * gets it back by `Last-Event-ID` when it breaks (transports, "Resumability and Redelivery").
 */
import { sleep, type Clock } from '../../lib/clock.ts';
import type { UpstreamRequestId } from '../../protocol/ids.ts';
import type { JsonValue } from '../../protocol/json/json.ts';
import { readEventStream } from './event-stream.ts';
import type { HttpResponse, HttpClient } from '../http/client.ts';
import { Silence } from './idle-watch.ts';
import type { CallerHeaders, MessageSource } from './transport.ts';
import { asUpstreamFailure, UpstreamFailure } from '../failure.ts';
import { upstreamJson } from '../http/json.ts';

const MAX_RESUME_ATTEMPTS = 5;
const FIRST_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 30_000;
const LINGER_MS = 1_000;
/** How long a server that refuses nothing can hold the head of a stream back before it counts as open. */
const HELD_HEAD_MS = 1_000;
const HEADER_TEXT = /^[\x20-\x7e\x80-\xff]*$/;

/** What a stream needs of the transport that it belongs to. */
export interface StreamParts {
  readonly http: HttpClient;
  readonly clock: Clock;
  /** True when messages carry the id of a session. */
  readonly hasSession: () => boolean;
  /** The headers of a message that serves this caller. */
  readonly headersFor: (caller: CallerHeaders) => Record<string, string>;
  /** Called with each message. */
  readonly heard: (stream: ResumableStream, message: JsonValue) => void;
  /** Resolves when more of the stream of this request may be heard; `null` while it may. */
  readonly backlog: (id: UpstreamRequestId) => Promise<void> | null;
}

/** What ended a connection: a failure, or its ordinary end, or we did, as nothing was said on it. */
export interface StreamEnd {
  readonly failure: UpstreamFailure | null;
  readonly silent: boolean;
}

export class ResumableStream {
  readonly source: MessageSource;
  /** Those of the caller who came last. */
  headers: CallerHeaders;
  lastEventId: string | undefined;
  /** The response has come; whatever the stream still does is of no interest. */
  finished = false;
  readonly #parts: StreamParts;
  readonly #abort = new AbortController();
  #retryMs: number | undefined;
  #silence: Silence | null = null;

  constructor(source: MessageSource, headers: CallerHeaders, parts: StreamParts) {
    this.source = source;
    this.headers = headers;
    this.#parts = parts;
  }

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Cuts the connection; nothing is got back any more. */
  abort(): void {
    this.finished = true;
    this.#abort.abort();
  }

  /** From here on the server may be mute: it is asked again when it stays silent. */
  mayBeMute(): void {
    this.#silence ??= new Silence(this.#parts.clock);
  }

  /** The server was told something, so that there will soon be something to hear. */
  expect(): void {
    this.#silence?.broken();
  }

  /** Reads one connection to its end, or until the silence on it has lasted too long. */
  async read(answer: HttpResponse): Promise<StreamEnd> {
    const { http, clock } = this.#parts;
    let silent = false;
    this.#silence?.listen(() => {
      silent = true;
      answer.body.destroy();
    });
    const linger = { timer: null as ReturnType<Clock['setTimer']> | null };
    try {
      await readEventStream(answer.body, http.maxEventBytes, {
        retry: (afterMs) => {
          this.#retryMs = afterMs;
        },
        event: async (event) => {
          // An id that no header can carry is as good as none: the stream cannot be taken up there.
          if (event.id !== undefined) {
            this.lastEventId = HEADER_TEXT.test(event.id) ? event.id : undefined;
          }
          if (event.event !== 'message' || event.data === '') return;
          this.#silence?.broken();
          await this.hear(upstreamJson(event.data));
          if (this.finished) {
            // A server that has answered ends the stream; one that does not is not waited for.
            linger.timer ??= clock.setTimer(LINGER_MS, () => answer.body.destroy());
          }
        },
      });
      return { failure: null, silent };
    } catch (error) {
      answer.body.on('error', () => {}).destroy();
      return { failure: silent ? null : asUpstreamFailure(error, true), silent };
    } finally {
      linger.timer?.cancel();
      this.#silence?.stop();
    }
  }

  /**
   * Takes the messages of one event or body; 2025-03-26 allows several in an array. Each waits while what
   * was heard before is more than the client takes: then the server is held back by its own connection.
   */
  async hear(value: JsonValue): Promise<void> {
    for (const message of Array.isArray(value) ? value : [value]) {
      const backlog = this.#backlog();
      if (backlog !== null) await this.#untilTaken(backlog);
      this.#parts.heard(this, message);
    }
  }

  /** What belongs to no request is never waited with: others wait for what comes there. */
  #backlog(): Promise<void> | null {
    const { source } = this;
    return this.finished || source.stream !== 'request' ? null : this.#parts.backlog(source.id);
  }

  async #untilTaken(first: Promise<void>): Promise<void> {
    // It is not the server that is silent now.
    this.#silence?.stop();
    for (let backlog: Promise<void> | null = first; backlog !== null; backlog = this.#backlog()) {
      await backlog;
    }
    this.#silence?.goOn();
  }

  /**
   * Opens the stream, behind the last event that was heard, with several tries where that may help.
   * @param firstWaitMs how long to wait before the first try
   * @param onRefusal called after each try that failed, when there will be another one
   * @param onHeld called when the server has taken the request and holds the head of its response back:
   *   servers of the Go SDK send it with the first event, which may be the reply to an answer that is
   *   not sent before the stream is open
   * @throws UpstreamFailure when it cannot be had
   */
  async resume(
    firstWaitMs = this.#retryMs ?? FIRST_BACKOFF_MS,
    onRefusal = () => {},
    onHeld?: () => void,
  ): Promise<HttpResponse> {
    let waitMs = firstWaitMs;
    for (let attempt = 1; ; attempt += 1) {
      if (waitMs > 0) await sleep(this.#parts.clock, waitMs, this.signal);
      try {
        return await this.#get(onHeld);
      } catch (error) {
        const failure = asUpstreamFailure(error, true);
        if (this.signal.aborted || !isPassing(failure) || attempt >= MAX_RESUME_ATTEMPTS) {
          throw failure;
        }
        onRefusal();
        waitMs = Math.min(FIRST_BACKOFF_MS * 2 ** attempt, MAX_BACKOFF_MS);
      }
    }
  }

  async #get(onHeld: (() => void) | undefined): Promise<HttpResponse> {
    const { http, clock, headersFor, hasSession } = this.#parts;
    const sent = http.send({
      method: 'GET',
      headers: {
        ...headersFor(this.headers),
        accept: 'text/event-stream',
        ...(this.lastEventId === undefined ? {} : { 'last-event-id': this.lastEventId }),
      },
      signal: this.signal,
    });
    const held = onHeld === undefined ? null : clock.setTimer(HELD_HEAD_MS, onHeld);
    const answer = await sent.finally(() => held?.cancel());
    if (answer.status === 200 && answer.mediaType === 'text/event-stream') return answer;
    if (answer.status >= 400) throw await http.failureOf(answer, hasSession());
    answer.body.on('error', () => {}).destroy();
    throw new UpstreamFailure('upstream_protocol_error', 'a GET did not open an event stream', {
      mayHaveActed: false,
      httpStatus: answer.status,
    });
  }
}

function isPassing({ code, details }: UpstreamFailure): boolean {
  return (
    code === 'upstream_unavailable' ||
    code === 'upstream_busy' ||
    code === 'upstream_timeout' ||
    // The server has not noticed yet that whoever read the stream before is gone.
    details.httpStatus === 409
  );
}
