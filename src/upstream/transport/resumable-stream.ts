/**
 * One event stream of Streamable HTTP, over as many connections as it takes: it is resumed with
 * `Last-Event-ID` when it breaks (transports, "Resumability and Redelivery").
 */
import { sleep, type Clock } from '../../lib/clock.ts';
import type { UpstreamRequestId } from '../../protocol/ids.ts';
import type { JsonValue } from '../../protocol/json.ts';
import { asUpstreamFailure, UpstreamFailure } from '../failure.ts';
import type { HttpClient } from '../http/client.ts';
import type {
  BodyForm,
  HttpExchange,
  ResponseHead,
  ResponseReader,
} from '../http/http-exchange.ts';
import { type ServerSentEvent, upstreamJson } from '../http/bodies.ts';
import type { ResumptionOutcome } from '../discovery/resumptions.ts';
import { FruitlessResumptions } from './fruitless-resumptions.ts';
import { IdleTimeout } from './idle-timeout.ts';
import { aborted, mayPass, type ResumeOptions, type StreamEnd } from './resumption.ts';
import type { CallerHeaders, MessageSource } from './transport.ts';

const MAX_RESUME_ATTEMPTS = 5;
const FIRST_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 30_000;
/** How long a server may take to end a stream after the reply, in ms. */
const LINGER_MS = 1_000;
/** How long a server that accepts a GET can hold the head of the response back, in ms. */
export const HELD_HEAD_MS = 1_000;
/** A replay follows the head of the response at once. What comes later than this is new, in ms. */
const REPLAY_MS = 1_000;
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

/** Who is told what becomes of a stream. */
export interface StreamOwner {
  /** The server has responded to the POST. @throws UpstreamFailure to refuse the response */
  posted(stream: ResumableStream, head: ResponseHead): BodyForm;
  /** The server has not taken the POST. */
  notTaken(stream: ResumableStream, failure: UpstreamFailure): void;
  /** The connection has ended. */
  disconnected(stream: ResumableStream, end: StreamEnd): void;
}

interface PendingGet {
  opened(): void;
  failed(failure: UpstreamFailure): void;
}

export class ResumableStream implements ResponseReader {
  readonly source: MessageSource;
  /** The credentials of the last caller. */
  headers: CallerHeaders;
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
  /** A GET without a response yet. */
  #opening: PendingGet | null = null;
  #closing: AbortController | null = null;
  /** When this connection resumed the stream, in ms of `Clock.elapsed`; `null` for that of the POST. */
  #resumedAtMs: number | null = null;
  /** Whether an answer was sent since the stream was resumed: when this connection was open, or earlier. */
  #answered: 'no' | 'here' | 'early' = 'no';
  /** When the GET of this connection was sent, in ms of `Clock.elapsed`; `null` for the POST. */
  #sentAtMs: number | null = null;
  /** What became of the resumptions of late. */
  readonly #fruitless: FruitlessResumptions;
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
    this.#fruitless = new FruitlessResumptions(context.clock);
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
    this.#opening = null;
  }

  /** Closes connections that are idle for too long from now on, to resume the stream. */
  watchIdle(): void {
    this.#idleTimeout ??= new IdleTimeout(this.#context.clock, () => {
      this.#exchange?.abort();
      this.#disconnected({ failure: null, wasIdle: true });
    });
  }

  /** The server is being sent an answer. */
  answering(): void {
    if (this.#resumedAtMs !== null) this.#answered = this.#opening === null ? 'here' : 'early';
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
      try {
        this.#fruitless.check();
        return await this.connect(options);
      } catch (error) {
        const failure = asUpstreamFailure(error, true);
        if (this.finished || !mayPass(failure)) throw failure;
        if (failure.code === 'upstream_timeout') {
          // The server had nothing to send, and holds the head of its response back until it has: nothing has failed.
          attempt = 0;
          waitMs = this.retryMs ?? FIRST_BACKOFF_MS;
          continue;
        }
        if (attempt >= MAX_RESUME_ATTEMPTS) throw failure;
        waitMs = Math.min(FIRST_BACKOFF_MS * 2 ** attempt, MAX_BACKOFF_MS);
      }
    }
  }

  head(head: ResponseHead): BodyForm {
    const opening = this.#opening;
    if (opening === null) {
      const form = this.#owner.posted(this, head);
      this.#connected = true;
      return form;
    }
    if (head.status !== 200 || head.mediaType !== 'text/event-stream') {
      throw new UpstreamFailure('upstream_protocol_error', 'a GET did not open an event stream', {
        mayHaveActed: false,
        httpStatus: head.status,
      });
    }
    this.#opening = null;
    this.#connected = true;
    this.#idleTimeout?.start();
    opening.opened();
    return 'events';
  }

  event({ event, data, id }: ServerSentEvent): void {
    // A stream cannot be resumed after an id that no header can carry, or that is empty (HTML, section 9.2.6).
    if (id !== undefined) this.lastEventId = HEADER_TEXT.test(id) ? id : undefined;
    if (this.source.stream === 'request') this.#context.numbersEvents ||= id !== undefined;
    this.#fruitless.heard();
    this.hasHeard = true;
    if (event !== 'message' || data === '') return;
    this.#idleTimeout?.reset();
    this.wrongReply = null;
    this.json(upstreamJson(data));
  }

  retryAfter(waitMs: number): void {
    this.#fruitless.heard();
    this.retryMs = waitMs;
  }

  /** Takes the messages of one event or body: 2025-03-26 allows several in an array. */
  json(value: JsonValue): void {
    const messages = Array.isArray(value) ? value : [value];
    if (messages.length === 0) this.wrongReply = 'it sent an empty batch';
    this.#receive(messages);
  }

  end(): void {
    this.#disconnected({ failure: null, wasIdle: false });
  }

  failed(failure: UpstreamFailure): void {
    const opening = this.#opening;
    this.#opening = null;
    if (opening !== null) opening.failed(failure);
    else if (this.#connected) this.#disconnected({ failure, wasIdle: false });
    else this.#owner.notTaken(this, failure);
  }

  /**
   * Takes messages as long as the client of the call takes them, and pauses the connection otherwise.
   * @returns false if messages wait
   */
  #receive(messages: readonly JsonValue[]): boolean {
    let taken = 0;
    for (const message of messages) {
      const backlog = this.#backlog();
      if (backlog !== null) {
        void backlog.then(() => this.#continue(messages.slice(taken)));
        // The server is not idle: the gateway does not read.
        this.#idleTimeout?.stop();
        this.#exchange?.pause();
        return false;
      }
      this.#context.received(this, message);
      taken += 1;
    }
    // A server that has replied ends the stream.
    if (this.finished) {
      this.#judgeResumption();
      this.#exchange?.endWithin(LINGER_MS);
    }
    return true;
  }

  #continue(messages: readonly JsonValue[]): void {
    const exchange = this.#exchange;
    if (this.#aborted || exchange === null) return;
    try {
      if (!this.#receive(messages)) return;
      this.#idleTimeout?.start();
      exchange.resume();
    } catch (error) {
      exchange.fail(asUpstreamFailure(error, true));
    }
  }

  /** Judges the resumption by when the reply came. */
  #judgeResumption(): void {
    const { clock } = this.#context;
    const resumedAtMs = this.#resumedAtMs;
    this.#resumedAtMs = null;
    if (resumedAtMs === null || this.#aborted) return;
    const isReplay = clock.elapsed() - resumedAtMs <= REPLAY_MS;
    if (this.#answered === 'here' || !isReplay) this.#context.noteResumption('delivered');
    else if (this.#answered === 'early') this.#context.noteResumption('late');
  }

  /** Others wait for what comes on the standalone stream, so it is never paused. */
  #backlog(): Promise<void> | null {
    const { source } = this;
    if (this.finished || source.stream !== 'request') return null;
    return this.#context.backlog(source.id);
  }

  /** Opens the stream after the last event that was received. @throws UpstreamFailure */
  async connect({ onOpen, onHeld, heldAfterMs = HELD_HEAD_MS }: ResumeOptions): Promise<void> {
    if (this.finished) throw aborted();
    const { http, clock, hasSession } = this.#context;
    return new Promise((resolve, reject) => {
      const heldBack = () => {
        this.#resumedAtMs = clock.elapsed();
        onHeld?.();
      };
      const held = onHeld === undefined ? null : clock.setTimer(heldAfterMs, heldBack);
      this.#opening = {
        opened: () => {
          held?.cancel();
          this.#resumedAtMs = clock.elapsed();
          onOpen();
          resolve();
        },
        failed: (failure) => {
          held?.cancel();
          reject(failure);
        },
      };
      const headers = {
        ...this.#context.headersFor(this.headers),
        accept: 'text/event-stream',
        ...(this.lastEventId === undefined ? {} : { 'last-event-id': this.lastEventId }),
      };
      // Some servers respond with the first message of the standalone stream, which can be hours later.
      const limits =
        this.source.stream === 'standalone'
          ? { headersTimeoutMs: 0, heldAfterMs: HELD_HEAD_MS }
          : {};
      this.#sentAtMs = clock.elapsed();
      this.hasHeard = false;
      this.#exchange = http.send(
        { method: 'GET', headers, inSession: hasSession, ...limits },
        this,
      );
    });
  }

  #disconnected(end: StreamEnd): void {
    this.#idleTimeout?.stop();
    this.#exchange = null;
    this.#connected = false;
    this.#resumedAtMs = null;
    if (this.#sentAtMs !== null) this.#fruitless.ended(end, this.#sentAtMs);
    this.#sentAtMs = null;
    if (this.#answered === 'here') this.#answered = end.wasIdle ? 'early' : 'no';
    if (!this.#aborted) this.#owner.disconnected(this, end);
  }
}
