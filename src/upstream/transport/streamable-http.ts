/**
 * The Streamable HTTP transport of 2025-03-26 to 2025-11-25, seen from the client: a POST for each
 * message, answers as JSON or as an event stream, a standalone GET stream, resumption by
 * `Last-Event-ID`. It moves messages; what they mean is the session's business.
 */
import type { Clock } from '../../lib/clock.ts';
import { once } from '../../lib/once.ts';
import {
  sessionId,
  type ServerRequestId,
  type SessionId,
  type UpstreamRequestId,
} from '../../protocol/ids.ts';
import { isJsonObject, type ExactNumber, type JsonObject } from '../../protocol/json/json.ts';
import {
  readMessage,
  type JsonRpcErrorObject,
  type JsonRpcMessage,
  type JsonRpcReply,
} from '../../protocol/json-rpc.ts';
import type { LegacyRevision } from '../../protocol/revisions.ts';
import type { HttpResponse, HttpClient } from '../http/client.ts';
import { ResumableStream, type StreamParts } from './resumable-stream.ts';
import { StandaloneStream } from './standalone-stream.ts';
import type {
  CallerHeaders,
  OutgoingRequest,
  StreamPoint,
  Transport,
  TransportListener,
} from './transport.ts';
import { asUpstreamFailure, UpstreamFailure } from '../failure.ts';

const ACCEPT_BOTH = 'application/json, text/event-stream';
const CLOSE_WAIT_MS = 2_000;

export class StreamableHttpTransport implements Transport {
  readonly kind = 'streamable-http';
  readonly #http: HttpClient;
  readonly #listener: TransportListener;
  readonly #parts: StreamParts;
  readonly #streams = new Map<UpstreamRequestId, ResumableStream>();
  readonly #standalone: StandaloneStream;
  #left = false;
  #sessionId: SessionId | null = null;
  #revision: LegacyRevision | null = null;

  constructor(http: HttpClient, listener: TransportListener, clock: Clock) {
    this.#http = http;
    this.#listener = listener;
    this.#parts = {
      http,
      clock,
      hasSession: () => this.hasSession,
      headersFor: (caller) => this.#headers(caller),
      heard: (stream, message) => this.#dispatch(stream, readMessage(message)),
      backlog: (id) => listener.backlog(id),
    };
    this.#standalone = new StandaloneStream(this.#parts, listener);
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
    const stream = this.#openFor(request.id, headers);
    try {
      const { id, method, params } = request;
      // Without a session id nobody can have used what an `initialize` has opened: it may be repeated.
      const opens = method === 'initialize';
      const answer = await this.#post({ jsonrpc: '2.0', id, method, params }, headers, {
        signal: stream.signal,
        repeatable: opens,
      });
      if (opens) this.#takeSessionId(answer);
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

  async respond(
    id: ServerRequestId | ExactNumber,
    reply: JsonRpcReply,
    headers: CallerHeaders,
  ): Promise<void> {
    await this.#postAndDiscard({ jsonrpc: '2.0', id, ...reply } as JsonObject, headers);
    for (const stream of this.#streams.values()) {
      // A stream that breaks after hours is not to be taken up with the credentials of the first leg.
      stream.headers = headers;
      // The server goes on from here, so there will soon be something to hear.
      stream.expect();
    }
  }

  openStandaloneStream(headers: CallerHeaders, wait?: 'once'): Promise<boolean> {
    return this.#standalone.open(headers, wait);
  }

  resume(id: UpstreamRequestId, point: StreamPoint, headers: CallerHeaders): void {
    this.#sessionId = point.sessionId;
    this.#revision = point.revision;
    const stream = this.#openFor(id, headers);
    stream.lastEventId = point.lastEventId;
    stream.mayBeMute();
    const resumed = once(() => this.#listener.resumed(id));
    stream.resume(0, undefined, resumed).then(
      (answer) => {
        resumed();
        void this.#pump(id, stream, answer);
      },
      (error: unknown) => {
        if (!stream.finished) this.#listener.lost(id, asUpstreamFailure(error, true));
        this.#streams.delete(id);
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
    this.#standalone.leave();
    this.#left = true;
  }

  abandon(id: UpstreamRequestId): void {
    const stream = this.#streams.get(id);
    if (stream === undefined) return;
    this.#streams.delete(id);
    // After its answer a stream ends by itself or is cut soon; its connection then serves the next call.
    if (!stream.finished) stream.abort();
  }

  async close(headers: CallerHeaders): Promise<void> {
    const left = this.#left;
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

  #openFor(id: UpstreamRequestId, headers: CallerHeaders): ResumableStream {
    const stream = new ResumableStream({ stream: 'request', id }, headers, this.#parts);
    this.#streams.set(id, stream);
    return stream;
  }

  /** Takes in the answer to a POSTed request; from here on everything goes through the listener. */
  #receive(id: UpstreamRequestId, stream: ResumableStream, answer: HttpResponse): void {
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

  async #readWhole(
    id: UpstreamRequestId,
    stream: ResumableStream,
    answer: HttpResponse,
  ): Promise<void> {
    try {
      await stream.hear(await this.#http.readJson(answer));
      if (!stream.finished) throw noResponse('the JSON body');
    } catch (error) {
      if (!stream.finished) this.#listener.lost(id, asUpstreamFailure(error, true));
    } finally {
      this.#streams.delete(id);
    }
  }

  /** Reads a request's event stream to its end, over as many connections as the server makes of it. */
  async #pump(id: UpstreamRequestId, stream: ResumableStream, first: HttpResponse): Promise<void> {
    let answer = first;
    for (;;) {
      const { failure, silent } = await stream.read(answer);
      if (stream.finished) break;
      if (stream.lastEventId === undefined || failure?.code === 'upstream_protocol_error') {
        this.#listener.lost(id, failure ?? noResponse('the event stream'));
        break;
      }
      // A stream that we leave ourselves, to look whether there is more, is not a broken one.
      if (!silent) this.#listener.interrupted(id);
      stream.mayBeMute();
      const resumed = once(() => this.#listener.resumed(id));
      try {
        answer = silent
          ? await stream.resume(0)
          : await stream.resume(undefined, undefined, resumed);
      } catch (error) {
        if (!stream.finished && silent) this.#listener.interrupted(id);
        if (!stream.finished) this.#listener.lost(id, asUpstreamFailure(error, true));
        break;
      }
      if (!silent) resumed();
    }
    this.#streams.delete(id);
  }

  async #post(
    message: JsonObject,
    headers: CallerHeaders,
    request?: { readonly signal: AbortSignal; readonly repeatable: boolean },
  ): Promise<HttpResponse> {
    const answer = await this.#http.send({
      method: 'POST',
      headers: {
        ...this.#headers(headers),
        'content-type': 'application/json',
        accept: ACCEPT_BOTH,
      },
      body: JSON.stringify(message),
      // The head of an answer to a request may come as late as its result: who sent it bounds it.
      ...(request === undefined ? {} : { ...request, headersTimeoutMs: 0 }),
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

  #takeSessionId(answer: HttpResponse): void {
    const value = answer.headers['mcp-session-id'];
    if (typeof value === 'string' && value !== '') this.#sessionId = sessionId(value);
  }

  #dispatch(stream: ResumableStream, message: JsonRpcMessage): void {
    const { source } = stream;
    if (message.type === 'response' && source.stream === 'request') {
      if (message.id === source.id || message.id === null) stream.finished = true;
      if (message.id === null) {
        this.#listener.message({ ...message, id: source.id }, source);
        return;
      }
    }
    this.#listener.message(message, source);
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

function noResponse(what: string): UpstreamFailure {
  return new UpstreamFailure('upstream_unavailable', `${what} ended without a response`, {
    mayHaveActed: true,
  });
}
