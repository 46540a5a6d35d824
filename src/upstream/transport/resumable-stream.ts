/**
 * One event stream of Streamable HTTP, over as many connections as it takes: it is resumed with
 * `Last-Event-ID` when it breaks (transports, "Resumability and Redelivery").
 */
import { inBackground } from '../../lib/background.ts';
import { sleep, type Clock } from '../../lib/clock.ts';
import type { UpstreamRequestId } from '../../protocol/ids.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { asUpstreamFailure, UpstreamFailure } from '../../model/upstream-failure.ts';
import type { HttpClient } from '../http/client.ts';
import { LINGER_MS, type HttpExchange, type ResponseReader } from '../http/http-exchange.ts';
import type { BodyForm, ResponseHead } from '../http/http-request.ts';
import { type ServerSentEvent, upstreamJson } from '../http/bodies.ts';
import type { ResumptionOutcome } from '../discovery/resumptions.ts';
import { ResumeRetryLimiter } from '../quirks/resume-retry-limiter.ts';
import { ResumptionVerdict } from './resumption-verdict.ts';
import { HELD_HEAD_MS, StreamGet } from './stream-get.ts';
import { IdleTimeout } from '../quirks/idle-timeout.ts';
import { aborted, mayPass, type ResumeOptions, type StreamEnd } from './resumption.ts';
import type { CallerHeaders, MessageSource } from './transport.ts';

const MAX_RESUME_ATTEMPTS = 5;
const FIRST_BACKOFF_MS = 500;
const HEADER_TEXT = /^[\x20-\x7e\x80-\xff]+$/;

/** What a stream needs of its transport. */
export interface StreamContext {
  readonly http: HttpClient;
  readonly clock: Clock;
  /** True if messages carry a session id. */
  readonly hasSession: boolean;
  /** Set once an event on the stream of a request had an id. */
  numbersEvents: boolean;
  /** Returns the headers of a message that serves this caller. */
  headersFor(caller: CallerHeaders): Record<string, string>;
  /** Takes a message. Sets `finished` if it is the reply. */
  received(stream: ResumableStream, message: JsonValue): void;
  /** Resolves when more of the stream of this request may be read; `null` if it may. */
  backlog(id: UpstreamRequestId): Promise<void> | null;
  /** Tells what became of a resumed stream of a request. */
  noteResumption(outcome: ResumptionOutcome): void;
}

/** Who is told what becomes of a stream. Of one that begins with a GET no POST is told. */
export interface StreamOwner {
  /** The POST was written on a connection. */
  sent?(stream: ResumableStream): void;
  /** The server has responded to the POST. @throws UpstreamFailure to refuse the response */
  posted?(stream: ResumableStream, head: ResponseHead): BodyForm;
  /** The server has not taken the POST. */
  notTaken?(stream: ResumableStream, failure: UpstreamFailure): void;
  /** The connection has ended. */
  disconnected(stream: ResumableStream, end: StreamEnd): void;
}

export class ResumableStream implements ResponseReader {
  readonly source: MessageSource;
  /** The credentials of the last caller. */
  headers: CallerHeaders;
  /** The last event of which the call has taken all messages: a resumption goes on after it. */
  lastEventId: string | undefined;
  /** The reply was received. The rest of the stream does not matter. */
  finished = false;
  /** An event came since the last GET was sent. */
  hasHeard = false;
  /** How long the server asks to wait before a reconnection, in ms. */
  retryMs: number | undefined;
  /** What the server sent last that is not a reply, in the words of the log; `null` if that was nothing wrong. */
  wrongReply: string | null = null;
  readonly #context: StreamContext;
  readonly #owner: StreamOwner;
  #exchange: HttpExchange | null = null;
  /** The request had a response, so that a failure is one of its body. */
  #connected = false;
  /** The GET of this connection; `null` for that of the POST. */
  #get: StreamGet | null = null;
  #closing: AbortController | null = null;
  readonly #verdict: ResumptionVerdict;
  /** What became of the resumptions of late. */
  readonly #fruitless: ResumeRetryLimiter;
  #idleTimeout: IdleTimeout | null = null;
  #aborted = false;

  constructor(
    source: MessageSource,
    headers: CallerHeaders,
    context: StreamContext,
    owner: StreamOwner,
  ) {
    this.source = source;
    this.headers = headers;
    this.#context = context;
    this.#owner = owner;
    this.#fruitless = new ResumeRetryLimiter(context.clock);
    this.#verdict = new ResumptionVerdict(context.clock);
  }

  /** Keeps the exchange of the POST of which this stream is the response. */
  useExchange(exchange: HttpExchange): void {
    this.#exchange = exchange;
  }

  /** Closes the stream for good. */
  abort(): void {
    this.#aborted = true;
    this.finished = true;
    this.#idleTimeout?.stop();
    this.#exchange?.abort();
    this.#closing?.abort();
    this.#opening?.failed(aborted());
  }

  /** Closes connections that are idle for too long from now on, to resume the stream. */
  watchIdle(): void {
    this.#idleTimeout ??= new IdleTimeout(this.#context.clock, () => {
      this.#exchange?.abort();
      this.#disconnected({ failure: null, wasIdle: true });
    });
  }

  /** The server is being sent an answer to a question of this stream. */
  answering(): void {
    this.#verdict.answering(this.#opening === null);
  }

  /** The server was sent an answer, so that a message is expected soon. */
  expectMessage(): void {
    this.#idleTimeout?.reset();
  }

  /**
   * Resumes the stream of a request after the last event that was received, with several attempts where these may
   * help.
   * @throws UpstreamFailure if the stream cannot be opened
   */
  async resume(options: ResumeOptions): Promise<void> {
    const { signal } = (this.#closing ??= new AbortController());
    const { clock } = this.#context;
    let waitMs = options.firstWaitMs ?? this.retryMs ?? FIRST_BACKOFF_MS;
    for (let attempt = 1; ; attempt += 1) {
      if (waitMs > 0) await sleep(clock, waitMs, signal);
      const { headers } = this;
      try {
        this.#fruitless.check();
        return await this.connect(options);
      } catch (error) {
        const failure = asUpstreamFailure(error, true);
        if (failure.code === 'unauthorized' && headers !== this.headers && !this.finished) {
          waitMs = 0;
          continue;
        }
        if (this.finished || !mayPass(failure)) throw failure;
        if (failure.code === 'upstream_timeout') {
          // The server had nothing to send, and holds the head of its response back until it has: nothing has failed.
          attempt = 0;
          waitMs = this.retryMs ?? FIRST_BACKOFF_MS;
          continue;
        }
        if (attempt >= MAX_RESUME_ATTEMPTS) throw failure;
        waitMs = Math.max(FIRST_BACKOFF_MS * 2 ** attempt, this.retryMs ?? 0);
      }
    }
  }

  sent(): void {
    if (this.#opening === null) this.#owner.sent?.(this);
    else this.#opening.sent();
  }

  head(head: ResponseHead): BodyForm {
    const opening = this.#opening;
    if (opening === null) {
      const form = this.#owner.posted?.(this, head) ?? 'none';
      this.#connected = true;
      return form;
    }
    if (head.status !== 200 || head.mediaType !== 'text/event-stream') {
      throw new UpstreamFailure('upstream_protocol_error', 'a GET did not open an event stream', {
        mayHaveActed: false,
        httpStatus: head.status,
      });
    }
    this.#connected = true;
    this.#idleTimeout?.start();
    this.#verdict.resumed();
    opening.opened();
    return 'events';
  }

  event({ event, data, id }: ServerSentEvent): void {
    if (this.source.stream === 'request') this.#context.numbersEvents ||= id !== undefined;
    this.#fruitless.heard();
    this.hasHeard = true;
    if (event !== 'message' || data === '') return this.#acknowledge(id);
    this.#idleTimeout?.reset();
    this.wrongReply = null;
    this.json(upstreamJson(data), id);
  }

  retryAfter(waitMs: number): void {
    this.#fruitless.heard();
    this.retryMs = waitMs;
  }

  /**
   * Takes the messages of one event or body: 2025-03-26 allows several in an array.
   * @param id of the event, if it has one
   */
  json(value: JsonValue, id?: string): void {
    const messages = Array.isArray(value) ? value : [value];
    if (messages.length === 0) {
      this.wrongReply = 'it sent an empty batch';
      this.#acknowledge(id);
    }
    this.#receive(messages, id);
  }

  end(): void {
    this.#disconnected({ failure: null, wasIdle: false });
  }

  failed(failure: UpstreamFailure): void {
    const opening = this.#opening;
    if (opening !== null) opening.failed(failure);
    else if (this.#connected) this.#disconnected({ failure, wasIdle: false });
    else this.#owner.notTaken?.(this, failure);
  }

  /** Resumes after this event from here on: nothing of it is still to be delivered. */
  #acknowledge(id: string | undefined): void {
    // A stream cannot be resumed after an id that no header can carry, or that is empty (HTML, section 9.2.6).
    if (id !== undefined) this.lastEventId = HEADER_TEXT.test(id) ? id : undefined;
  }

  /**
   * Takes messages as long as the client of the call takes them, and pauses the connection otherwise.
   * @param id of their event, which is acknowledged with the last of them
   * @returns false if messages wait
   */
  #receive(messages: readonly JsonValue[], id: string | undefined): boolean {
    for (const [taken, message] of messages.entries()) {
      const backlog = this.#backlog();
      if (backlog !== null) {
        const exchange = this.#exchange;
        inBackground(backlog.then(() => this.#continue(exchange, messages.slice(taken), id)));
        // The server is not idle: the gateway does not read.
        this.#idleTimeout?.stop();
        exchange?.pause();
        return false;
      }
      if (taken === messages.length - 1) this.#acknowledge(id);
      this.#context.received(this, message);
    }
    // A server that has replied ends the stream.
    if (this.finished) {
      this.#judgeResumption();
      this.#exchange?.endWithin(LINGER_MS);
    }
    return true;
  }

  /** Takes the messages that waited, unless their connection has ended: then the next one brings them again. */
  #continue(
    exchange: HttpExchange | null,
    messages: readonly JsonValue[],
    id: string | undefined,
  ): void {
    if (this.#aborted || exchange === null || exchange !== this.#exchange) return;
    try {
      if (!this.#receive(messages, id)) return;
      this.#idleTimeout?.start();
      exchange.resume();
    } catch (error) {
      exchange.fail(asUpstreamFailure(error, true));
    }
  }

  #judgeResumption(): void {
    const outcome = this.#verdict.replied();
    if (outcome !== null && !this.#aborted) this.#context.noteResumption(outcome);
  }

  /** Others wait for what comes on the standalone stream, so it is never paused. */
  #backlog(): Promise<void> | null {
    const { source } = this;
    if (this.finished || source.stream !== 'request') return null;
    return this.#context.backlog(source.id);
  }

  /** How long ago the GET of this connection was written, in ms; `null` if it was not. */
  get ageMs(): number | null {
    return this.#get?.ageMs ?? null;
  }

  /** Opens the stream after the last event that was received. @throws UpstreamFailure */
  async connect(options: ResumeOptions): Promise<void> {
    if (this.finished) throw aborted();
    const { http, clock, hasSession } = this.#context;
    const { onHeld } = options;
    const heldBack = onHeld && (() => (this.#verdict.resumed(), onHeld()));
    const get = new StreamGet(clock, { ...options, ...(heldBack && { onHeld: heldBack }) });
    this.#get = get;
    const headers = {
      ...this.#context.headersFor(this.headers),
      accept: 'text/event-stream',
      ...(this.lastEventId === undefined ? {} : { 'last-event-id': this.lastEventId }),
    };
    // Some servers respond with the first message of the standalone stream, which can be hours later.
    const limits =
      this.source.stream === 'standalone' ? { headersTimeoutMs: 0, heldAfterMs: HELD_HEAD_MS } : {};
    this.hasHeard = false;
    this.#exchange = http.send({ method: 'GET', headers, inSession: hasSession, ...limits }, this);
    return get.done;
  }

  /** The GET without a response yet. */
  get #opening(): StreamGet | null {
    return this.#get?.isPending === true ? this.#get : null;
  }

  #disconnected(end: StreamEnd): void {
    this.#idleTimeout?.stop();
    this.#exchange = null;
    this.#connected = false;
    this.#verdict.disconnected(end.wasIdle);
    const { ageMs } = this;
    if (ageMs !== null) this.#fruitless.ended(end, ageMs);
    this.#get = null;
    if (!this.#aborted) this.#owner.disconnected(this, end);
  }
}
