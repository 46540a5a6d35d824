/**
 * The Streamable HTTP transport of 2025-03-26 to 2025-11-25, seen from the client: a POST for each
 * message, answers as JSON or as an event stream, a standalone GET stream, resumption by
 * `Last-Event-ID`. It moves messages; what they mean is the session's business.
 */
import type { Clock } from '../clock.ts';
import { sleep } from '../clock.ts';
import {
  sessionId,
  type ServerRequestId,
  type SessionId,
  type UpstreamRequestId,
} from '../protocol/ids.ts';
import { isJsonObject, type JsonObject, type JsonValue } from '../protocol/json.ts';
import { readMessage, type JsonRpcErrorObject, type JsonRpcReply } from '../protocol/json-rpc.ts';
import type { LegacyRevision } from '../protocol/revisions.ts';
import { readEventStream } from './event-stream.ts';
import { parseJson, type HttpAnswer, type HttpClient } from './http-client.ts';
import { Silence } from './silence.ts';
import type {
  CallerHeaders,
  MessageSource,
  OutgoingRequest,
  StreamPoint,
  Transport,
  TransportListener,
} from './transport.ts';
import { asUpstreamFailure, UpstreamFailure } from './upstream-failure.ts';

const ACCEPT_BOTH = 'application/json, text/event-stream';
const MAX_RESUME_ATTEMPTS = 5;
const FIRST_BACKOFF_MS = 500;
const MAX_BACKOFF_MS = 30_000;
const STANDALONE_WAIT_MS = 2_000;
const LINGER_MS = 1_000;
const CLOSE_WAIT_MS = 2_000;
const HEADER_TEXT = /^[\x20-\x7e\x80-\xff]*$/;

/** One event stream that is being read: a request's, or the standalone one. */
interface OpenStream {
  readonly source: MessageSource;
  readonly abort: AbortController;
  headers: CallerHeaders;
  lastEventId: string | undefined;
  retryMs: number | undefined;
  /** Of a request's stream that was taken up, on which the server may be mute from there on. */
  silence: Silence | null;
  /** The response has come; whatever the stream still does is of no interest. */
  finished: boolean;
}

/** What ended a connection: a failure, or its ordinary end, or we did, as nothing was said on it. */
interface StreamEnd {
  readonly failure: UpstreamFailure | null;
  readonly silent: boolean;
}

export class StreamableHttpTransport implements Transport {
  readonly kind = 'streamable-http';
  readonly #http: HttpClient;
  readonly #listener: TransportListener;
  readonly #clock: Clock;
  readonly #streams = new Map<UpstreamRequestId, OpenStream>();
  readonly #closing = new AbortController();
  #standalone: OpenStream | null = null;
  #sessionId: SessionId | null = null;
  #revision: LegacyRevision | null = null;

  constructor(http: HttpClient, listener: TransportListener, clock: Clock) {
    this.#http = http;
    this.#listener = listener;
    this.#clock = clock;
  }

  get hasSession(): boolean {
    return this.#sessionId !== null;
  }

  reveals(text: string): boolean {
    return this.#sessionId !== null && text.includes(this.#sessionId);
  }

  async open(): Promise<void> {}

  useRevision(revision: LegacyRevision): void {
    this.#revision = revision;
  }

  async request(request: OutgoingRequest, headers: CallerHeaders): Promise<void> {
    const stream = newStream({ stream: 'request', id: request.id }, headers);
    this.#streams.set(request.id, stream);
    try {
      const { id, method, params } = request;
      const answer = await this.#post(
        { jsonrpc: '2.0', id, method, params },
        headers,
        stream.abort,
      );
      if (request.method === 'initialize') this.#takeSessionId(answer);
      this.#receive(request.id, stream, answer);
    } catch (error) {
      this.#streams.delete(request.id);
      const reply = replyIn(error, request.method);
      if (reply === null) throw error;
      // Heard like any other reply, after the request has been sent.
      queueMicrotask(() => {
        this.#listener.message({ type: 'response', id: request.id, reply }, stream.source);
      });
    }
  }

  async notify(method: string, params: JsonObject, headers: CallerHeaders): Promise<void> {
    await this.#postAndDiscard({ jsonrpc: '2.0', method, params }, headers);
  }

  async respond(id: ServerRequestId, reply: JsonRpcReply, headers: CallerHeaders): Promise<void> {
    await this.#postAndDiscard({ jsonrpc: '2.0', id, ...reply } as JsonObject, headers);
    for (const stream of this.#streams.values()) {
      // A stream that breaks after hours is not to be taken up with the credentials of the first leg.
      stream.headers = headers;
      // The server goes on from here, so there will soon be something to hear.
      stream.silence?.broken();
    }
  }

  async openStandaloneStream(headers: CallerHeaders, wait?: 'once'): Promise<boolean> {
    const stream = newStream({ stream: 'standalone' }, headers);
    this.#standalone = stream;
    const refused = Promise.withResolvers<boolean>();
    const onRefusal = wait === 'once' ? () => refused.resolve(false) : undefined;
    const opened = this.#resume(stream, 0, onRefusal).then(
      (body) => {
        void this.#pumpStandalone(stream, body);
        return true;
      },
      () => false,
    );
    const late = sleep(this.#clock, STANDALONE_WAIT_MS, this.#closing.signal).then(() => false);
    return Promise.race([opened, late, refused.promise]);
  }

  resume(id: UpstreamRequestId, point: StreamPoint, headers: CallerHeaders): void {
    this.#sessionId = point.sessionId;
    this.#revision = point.revision;
    const stream = newStream({ stream: 'request', id }, headers);
    stream.lastEventId = point.lastEventId;
    stream.silence = new Silence(this.#clock);
    this.#streams.set(id, stream);
    this.#resume(stream, 0).then(
      (answer) => {
        this.#listener.resumed(id);
        void this.#pump(id, stream, answer);
      },
      (error: unknown) => {
        this.#streams.delete(id);
        if (!stream.finished) this.#listener.lost(id, asUpstreamFailure(error, true));
      },
    );
  }

  resumable(id: UpstreamRequestId): StreamPoint | null {
    const lastEventId = this.#streams.get(id)?.lastEventId;
    if (lastEventId === undefined || this.#sessionId === null || this.#revision === null) {
      return null;
    }
    return { sessionId: this.#sessionId, revision: this.#revision, lastEventId };
  }

  leave(): void {
    for (const id of [...this.#streams.keys()]) this.abandon(id);
    if (this.#standalone !== null) {
      this.#standalone.finished = true;
      this.#standalone.abort.abort();
    }
    this.#closing.abort();
  }

  abandon(id: UpstreamRequestId): void {
    const stream = this.#streams.get(id);
    if (stream === undefined) return;
    const hasAnswered = stream.finished;
    stream.finished = true;
    this.#streams.delete(id);
    // After its answer a stream ends by itself or is cut soon; its connection then serves the next call.
    if (!hasAnswered) stream.abort.abort();
  }

  async close(headers: CallerHeaders): Promise<void> {
    const left = this.#closing.signal.aborted;
    this.leave();
    if (this.#sessionId !== null && !left) {
      const signal = AbortSignal.timeout(CLOSE_WAIT_MS);
      try {
        const sent = { method: 'DELETE', headers: this.#headers(headers), signal } as const;
        const answer = await this.#http.send(sent);
        this.#http.discard(answer);
      } catch {
        // The server need not offer DELETE, nor be there any more (transports, Session Management 5).
      }
    }
  }

  /** Takes in the answer to a POSTed request; from here on everything goes through the listener. */
  #receive(id: UpstreamRequestId, stream: OpenStream, answer: HttpAnswer): void {
    if (answer.mediaType === 'text/event-stream') {
      void this.#pump(id, stream, answer);
    } else if (answer.mediaType === 'application/json') {
      void this.#readWhole(id, stream, answer);
    } else if (answer.status === 202) {
      // Not conforming, but seen: the response will come on the standalone stream.
      this.#http.discard(answer);
      this.#streams.delete(id);
    } else {
      answer.body.on('error', () => {}).destroy();
      throw new UpstreamFailure(
        'upstream_protocol_error',
        `it answered with the media type "${answer.mediaType.slice(0, 60)}"`,
        { mayHaveActed: true, httpStatus: answer.status },
      );
    }
  }

  async #readWhole(id: UpstreamRequestId, stream: OpenStream, answer: HttpAnswer): Promise<void> {
    try {
      this.#dispatch(stream, await this.#http.readJson(answer));
      if (!stream.finished) throw noResponse('the JSON body');
    } catch (error) {
      if (!stream.finished) this.#listener.lost(id, asUpstreamFailure(error, true));
    } finally {
      this.#streams.delete(id);
    }
  }

  /** Reads a request's event stream to its end, over as many connections as the server makes of it. */
  async #pump(id: UpstreamRequestId, stream: OpenStream, first: HttpAnswer): Promise<void> {
    let answer = first;
    for (;;) {
      const { failure, silent } = await this.#read(stream, answer);
      if (stream.finished) break;
      if (stream.lastEventId === undefined || failure?.code === 'upstream_protocol_error') {
        this.#listener.lost(id, failure ?? noResponse('the event stream'));
        break;
      }
      // A stream that we leave ourselves, to look whether there is more, is not a broken one.
      if (!silent) this.#listener.interrupted(id);
      stream.silence ??= new Silence(this.#clock);
      try {
        answer = await this.#resume(stream, silent ? 0 : undefined);
      } catch (error) {
        if (!stream.finished && silent) this.#listener.interrupted(id);
        if (!stream.finished) this.#listener.lost(id, asUpstreamFailure(error, true));
        break;
      }
      if (!silent) this.#listener.resumed(id);
    }
    this.#streams.delete(id);
  }

  /** Reads one connection of a stream to its end, or until the silence on it has lasted too long. */
  async #read(stream: OpenStream, answer: HttpAnswer): Promise<StreamEnd> {
    let silent = false;
    stream.silence?.listen(() => {
      silent = true;
      answer.body.destroy();
    });
    const linger = { timer: null as ReturnType<Clock['setTimer']> | null };
    try {
      await readEventStream(answer.body, this.#http.maxEventBytes, {
        retry: (afterMs) => {
          stream.retryMs = afterMs;
        },
        event: (event) => {
          // An id that no header can carry is as good as none: the stream cannot be taken up there.
          if (event.id !== undefined) {
            stream.lastEventId = HEADER_TEXT.test(event.id) ? event.id : undefined;
          }
          if (event.event !== 'message' || event.data === '') return;
          stream.silence?.broken();
          this.#dispatch(stream, parseJson(event.data));
          if (stream.finished) {
            // A server that has answered ends the stream; one that does not is not waited for.
            linger.timer ??= this.#clock.setTimer(LINGER_MS, () => answer.body.destroy());
          }
        },
      });
      return { failure: null, silent };
    } catch (error) {
      answer.body.on('error', () => {}).destroy();
      return { failure: silent ? null : asUpstreamFailure(error, true), silent };
    } finally {
      linger.timer?.cancel();
      stream.silence?.stop();
    }
  }

  /** Gets a broken stream back (transports, "Resumability and Redelivery"). Throws UpstreamFailure. */
  async #resume(
    stream: OpenStream,
    firstWaitMs = stream.retryMs ?? FIRST_BACKOFF_MS,
    onRefusal = () => {},
  ): Promise<HttpAnswer> {
    let waitMs = firstWaitMs;
    for (let attempt = 1; ; attempt += 1) {
      if (waitMs > 0) await sleep(this.#clock, waitMs, stream.abort.signal);
      try {
        return await this.#get(stream);
      } catch (error) {
        const failure = asUpstreamFailure(error, true);
        const passing =
          failure.code === 'upstream_unavailable' ||
          failure.code === 'upstream_busy' ||
          failure.code === 'upstream_timeout' ||
          // The server has not noticed yet that whoever read the stream before is gone.
          failure.details.httpStatus === 409;
        if (stream.abort.signal.aborted || !passing || attempt >= MAX_RESUME_ATTEMPTS)
          throw failure;
        onRefusal();
        waitMs = Math.min(FIRST_BACKOFF_MS * 2 ** attempt, MAX_BACKOFF_MS);
      }
    }
  }

  async #pumpStandalone(stream: OpenStream, first: HttpAnswer): Promise<void> {
    let answer = first;
    while (!stream.finished) {
      await this.#read(stream, answer);
      if (stream.finished) return;
      try {
        answer = await this.#resume(stream);
      } catch (error) {
        // Calls go on without it: the next POST will tell whether the session itself is gone.
        if (!stream.finished) this.#listener.standaloneLost(asUpstreamFailure(error, false));
        return;
      }
      this.#listener.standaloneResumed(stream.lastEventId !== undefined);
    }
  }

  async #get(stream: OpenStream): Promise<HttpAnswer> {
    const answer = await this.#http.send({
      method: 'GET',
      headers: {
        ...this.#headers(stream.headers),
        accept: 'text/event-stream',
        ...(stream.lastEventId === undefined ? {} : { 'last-event-id': stream.lastEventId }),
      },
      signal: stream.abort.signal,
    });
    if (answer.status === 200 && answer.mediaType === 'text/event-stream') return answer;
    if (answer.status >= 400) throw await this.#http.failureOf(answer, this.hasSession);
    answer.body.on('error', () => {}).destroy();
    throw new UpstreamFailure('upstream_protocol_error', 'a GET did not open an event stream', {
      mayHaveActed: false,
      httpStatus: answer.status,
    });
  }

  async #post(
    message: JsonObject,
    headers: CallerHeaders,
    abort?: AbortController,
  ): Promise<HttpAnswer> {
    const answer = await this.#http.send({
      method: 'POST',
      headers: {
        ...this.#headers(headers),
        'content-type': 'application/json',
        accept: ACCEPT_BOTH,
      },
      body: JSON.stringify(message),
      // The head of an answer to a request may come as late as its result: who sent it bounds it.
      ...(abort === undefined ? {} : { signal: abort.signal, headersTimeoutMs: 0 }),
    });
    if (answer.status >= 400) throw await this.#http.failureOf(answer, this.hasSession);
    return answer;
  }

  async #postAndDiscard(message: JsonObject, headers: CallerHeaders): Promise<void> {
    const answer = await this.#post(message, headers);
    this.#http.discard(answer);
  }

  #headers(headers: CallerHeaders): Record<string, string> {
    return {
      ...headers,
      ...(this.#sessionId === null ? {} : { 'mcp-session-id': this.#sessionId }),
      ...(this.#revision === null ? {} : { 'mcp-protocol-version': this.#revision }),
    };
  }

  #takeSessionId(answer: HttpAnswer): void {
    const value = answer.headers['mcp-session-id'];
    if (typeof value === 'string' && value !== '') this.#sessionId = sessionId(value);
  }

  /** Hands on the messages of one body or event; 2025-03-26 allows several in an array. */
  #dispatch(stream: OpenStream, value: JsonValue): void {
    for (const element of Array.isArray(value) ? value : [value]) {
      const message = readMessage(element);
      const { source } = stream;
      if (message.type === 'response' && source.stream === 'request') {
        if (message.id === source.id || message.id === null) stream.finished = true;
        if (message.id === null) {
          this.#listener.message({ ...message, id: source.id }, source);
          continue;
        }
      }
      this.#listener.message(message, source);
    }
  }
}

/**
 * The error with which a server answered a request together with a status of refusal, or `null`. A
 * refused `initialize` may mean that the server speaks the older transport (transports, "Backwards
 * Compatibility"), unless it says which revisions it would take.
 */
function replyIn(error: unknown, method: string): { readonly error: JsonRpcErrorObject } | null {
  const { rpcError } = error instanceof UpstreamFailure ? error.details : {};
  if (rpcError === undefined) return null;
  const { data } = rpcError;
  const negotiates = isJsonObject(data) && Array.isArray(data['supported']);
  return method === 'initialize' && !negotiates ? null : { error: rpcError };
}

function newStream(source: MessageSource, headers: CallerHeaders): OpenStream {
  return {
    source,
    headers,
    abort: new AbortController(),
    lastEventId: undefined,
    retryMs: undefined,
    silence: null,
    finished: false,
  };
}

function noResponse(what: string): UpstreamFailure {
  return new UpstreamFailure('upstream_unavailable', `${what} ended without a response`, {
    mayHaveActed: true,
  });
}
