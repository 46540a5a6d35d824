/**
 * The Streamable HTTP transport of 2025-03-26 to 2025-11-25, as a client: a POST for each message, replies
 * as JSON or events, a standalone GET stream, resumption. The session knows what the messages mean.
 */
import { inBackground } from '../../lib/background.ts';
import { ReleasingMap } from '../../lib/containers.ts';
import { type Clock, Closing, sleep } from '../../lib/clock.ts';
import { once } from '../../lib/once.ts';
import {
  sessionId,
  type ServerRequestId,
  type SessionId,
  type UpstreamRequestId,
} from '../../protocol/ids.ts';
import { type ExactNumber, type JsonObject, type JsonValue } from '../../protocol/json.ts';
import { readMessage, type JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { LegacyRevision } from '../../protocol/meta.ts';
import type { DeferredHeaders } from '../quirks/deferred-headers.ts';
import type { ResumptionOutcome } from '../discovery/resumptions.ts';
import { asUpstreamFailure, type UpstreamFailure } from '../../model/upstream-failure.ts';
import type { HttpClient } from '../http/client.ts';
import {
  postOf,
  type BodyForm,
  type HttpRequest,
  type ResponseHead,
} from '../http/http-request.ts';
import { LateReplies } from './late-replies.ts';
import { formOf, replyIn, takenWithoutStream } from './post-response.ts';
import { ResumableStream, type StreamOwner } from './resumable-stream.ts';
import { withoutReply, type StreamEnd } from './resumption.ts';
import { StandaloneStream, type StandaloneContext } from './standalone-stream.ts';
import type {
  CallerHeaders,
  OutgoingRequest,
  StreamPoint,
  Transport,
  TransportListener,
} from './transport.ts';

const DELETE_TIMEOUT_MS = 2_000;
/** How long the messages that are on their way at the end of a session keep it, in ms. */
const LAST_MESSAGES_MS = 1_000;
/** How long after the end of its stream the reply to a request can come on another one, in ms. */
const LATE_REPLY_MS = 1_000;
/** How long the reply to a request that the server took with 202 can take, in ms. */
const REPLY_ELSEWHERE_MS = 300_000;

export interface StreamableHttpOptions {
  readonly deferredHeaders: DeferredHeaders;
  /** Returns a number from 0 up to 1. */
  readonly random: () => number;
  readonly noteResumption?: (outcome: ResumptionOutcome) => void;
}

export class StreamableHttpTransport implements Transport, StandaloneContext, StreamOwner {
  readonly kind = 'streamable-http';
  readonly http: HttpClient;
  readonly clock: Clock;
  numbersEvents = false;
  readonly noteResumption: (outcome: ResumptionOutcome) => void;
  readonly #listener: TransportListener;
  readonly #streams = new ReleasingMap<UpstreamRequestId, ResumableStream>();
  readonly #standalone: StandaloneStream;
  readonly #lateReplies: LateReplies;
  /** The replies and notifications that the server has not taken yet. */
  readonly #onTheirWay = new Set<Promise<void>>();
  /** The id of an `initialize` without a reply. */
  #initializeId: UpstreamRequestId | null = null;
  #left = false;
  #sessionId: SessionId | null = null;
  /** Whether the handshake was another one, so that the server may miss it. */
  #isAdopted = false;
  #revision: LegacyRevision | null = null;

  constructor(
    http: HttpClient,
    listener: TransportListener,
    clock: Clock,
    { deferredHeaders, random, noteResumption = () => {} }: StreamableHttpOptions,
  ) {
    this.http = http;
    this.clock = clock;
    this.noteResumption = noteResumption;
    this.#listener = listener;
    this.#standalone = new StandaloneStream(this, listener, deferredHeaders, random);
    this.#lateReplies = new LateReplies(clock, (id, failure) => listener.lost(id, failure));
  }

  get hasSession(): boolean {
    return this.#sessionId !== null;
  }

  get sessionId(): SessionId | null {
    return this.#sessionId;
  }

  get standaloneHeld(): boolean {
    return this.#standalone.held;
  }

  get standaloneDue(): boolean {
    return this.#standalone.isDue;
  }

  adopt(id: SessionId | null, revision: LegacyRevision): void {
    this.#sessionId = id;
    this.#revision = revision;
    this.#isAdopted = true;
  }

  reveals(text: string): boolean {
    return this.#sessionId !== null && text.includes(this.#sessionId);
  }

  async open(): Promise<void> {}

  useRevision(revision: LegacyRevision): void {
    this.#revision = revision;
  }

  request({ id, method, params }: OutgoingRequest, headers: CallerHeaders): void {
    const stream = this.#openStream(id, headers);
    // Without a session id nobody can have used what an `initialize` has opened: it may be repeated.
    const repeatable = method === 'initialize';
    if (repeatable) this.#initializeId = id;
    // The head of the response may come with the result: the sender of the request limits the time.
    const request = this.#post({ id, method, params }, headers, {
      headersTimeoutMs: 0,
      repeatable,
    });
    stream.useExchange(this.http.send(request, stream));
  }

  notify(method: string, params: JsonObject, headers: CallerHeaders): Promise<void> {
    return this.#onItsWay(this.http.sendForStatus(this.#post({ method, params }, headers)));
  }

  async respond(
    id: ServerRequestId | ExactNumber,
    reply: JsonRpcReply,
    headers: CallerHeaders,
    call: UpstreamRequestId | null,
  ): Promise<void> {
    const message = { id, ...reply } as JsonObject;
    // The reply to the call can come before the response to this POST.
    if (call !== null) this.#streams.get(call)?.answering();
    await this.#onItsWay(this.http.sendForStatus(this.#post(message, headers)));
    for (const stream of this.#streams.values()) stream.expectMessage();
  }

  useHeaders(headers: CallerHeaders): void {
    for (const stream of this.#streams.values()) stream.headers = headers;
  }

  closeStandaloneStream(): void {
    this.#standalone.close();
  }

  openStandaloneStream(headers: CallerHeaders, wait?: 'once'): boolean | Promise<boolean> {
    return this.#standalone.open(headers, wait);
  }

  resume(id: UpstreamRequestId, lastEventId: string, headers: CallerHeaders): void {
    const stream = this.#openStream(id, headers);
    stream.lastEventId = lastEventId;
    stream.watchIdle();
    const resumed = once(() => this.#listener.resumed(id));
    stream
      .resume({ firstWaitMs: 0, onOpen: resumed, onHeld: resumed })
      .catch((error: unknown) => this.#notResumed(stream, error));
  }

  resumable(id: UpstreamRequestId): StreamPoint | null {
    if (this.#sessionId === null || this.#revision === null) return null;
    const lastEventId = this.#streams.get(id)?.lastEventId ?? null;
    return { sessionId: this.#sessionId, revision: this.#revision, lastEventId };
  }

  leave(): void {
    for (const id of [...this.#streams.keys()]) this.abandon(id);
    this.#standalone.close();
    this.#left = true;
  }

  abandon(id: UpstreamRequestId): void {
    this.#lateReplies.forget(id);
    const stream = this.#streams.get(id);
    if (stream === undefined) return;
    this.#remove(stream);
    // A stream ends by itself soon after its reply. Then its connection can be used again.
    if (!stream.finished) stream.abort();
  }

  async close(headers: CallerHeaders): Promise<void> {
    const left = this.#left;
    this.leave();
    if (this.#sessionId === null || left) return;
    if (this.#onTheirWay.size > 0) await this.#allTaken();
    const request = { method: 'DELETE', headers: this.headersFor(headers) } as const;
    // The server need not offer DELETE, and may be gone (transports, "Session Management" 5).
    await this.http.sendForStatus({ ...request, timeoutMs: DELETE_TIMEOUT_MS }).catch(() => {});
  }

  // What the streams need:

  headersFor(caller: CallerHeaders): Record<string, string> {
    const headers: Record<string, string> = { ...caller };
    if (this.#sessionId !== null) headers['mcp-session-id'] = this.#sessionId;
    if (this.#revision !== null) headers['mcp-protocol-version'] = this.#revision;
    return headers;
  }

  backlog(id: UpstreamRequestId): Promise<void> | null {
    return this.#listener.backlog(id);
  }

  standaloneEnded(): void {
    this.#lateReplies.streamEnded();
  }

  sent(stream: ResumableStream): void {
    this.#listener.sent(idOf(stream));
  }

  posted(stream: ResumableStream, head: ResponseHead): BodyForm {
    const id = idOf(stream);
    if (id === this.#initializeId) this.#takeSessionId(head);
    const form = formOf(head);
    this.#listener.accepted(id);
    if (form === 'none') {
      // Not conforming, but seen: the reply comes on the standalone stream.
      this.#remove(stream);
      const canCome = () => this.#canReplyElsewhere(this.#standalone.isOffered);
      const failure = takenWithoutStream();
      this.#lateReplies.wait({ id, failure, withinMs: REPLY_ELSEWHERE_MS, canCome });
    }
    if (form === 'json') stream.wrongReply = 'it responded with JSON without a reply';
    return form;
  }

  notTaken(stream: ResumableStream, failure: UpstreamFailure): void {
    const id = idOf(stream);
    this.#remove(stream);
    const reply = replyIn(failure, id === this.#initializeId);
    if (reply === null) return this.#listener.notTaken(id, failure);
    this.#listener.accepted(id);
    this.#listener.message({ type: 'response', id, reply }, stream.source);
  }

  received(stream: ResumableStream, value: JsonValue): void {
    const message = readMessage(value);
    const { source } = stream;
    if (message.type === 'malformed')
      stream.wrongReply = `it sent JSON that is not a JSON-RPC message: ${message.problem}`;
    if (message.type === 'response' && source.stream === 'request') {
      if (message.id === source.id || message.id === null) stream.finished = true;
      else stream.wrongReply = 'it replied to another request';
      if (message.id === null) {
        return this.#listener.message({ ...message, id: source.id }, source);
      }
    }
    this.#listener.message(message, source);
  }

  disconnected(stream: ResumableStream, { failure, wasIdle }: StreamEnd): void {
    const id = idOf(stream);
    if (stream.finished) return this.#remove(stream);
    if (failure?.code === 'upstream_protocol_error') {
      return this.#lose(stream, withoutReply(stream, failure));
    }
    if (stream.lastEventId === undefined) {
      this.#remove(stream);
      const canCome = () => this.#canReplyElsewhere(this.#standalone.isOpen);
      const lost = withoutReply(stream, failure);
      return this.#lateReplies.wait({ id, failure: lost, withinMs: LATE_REPLY_MS, canCome });
    }
    // A stream that the gateway closes to look for more is not broken.
    if (!wasIdle) this.#listener.interrupted(id);
    stream.watchIdle();
    const resumed = once(() => this.#listener.resumed(id));
    const options = wasIdle
      ? { firstWaitMs: 0, onOpen: () => {} }
      : { onOpen: resumed, onHeld: resumed };
    stream.resume(options).catch((error: unknown) => {
      if (!stream.finished && wasIdle) this.#listener.interrupted(id);
      this.#notResumed(stream, error);
    });
  }

  #openStream(id: UpstreamRequestId, headers: CallerHeaders): ResumableStream {
    const stream = new ResumableStream({ stream: 'request', id }, headers, this, this);
    this.#streams.set(id, stream);
    return stream;
  }

  #notResumed(stream: ResumableStream, error: unknown): void {
    const failure = asUpstreamFailure(error, true);
    // Credentials that have expired say nothing of the server.
    const isServers = !stream.finished && failure.code !== 'unauthorized';
    if (isServers) this.noteResumption('refused');
    this.#lose(stream, failure);
  }

  /** Removes a stream. Without a reply the request is lost. */
  #lose(stream: ResumableStream, failure: UpstreamFailure): void {
    if (!stream.finished) this.#listener.lost(idOf(stream), failure);
    this.#remove(stream);
  }

  #remove(stream: ResumableStream): void {
    const id = idOf(stream);
    if (this.#streams.get(id) === stream) this.#streams.delete(id);
    this.#lateReplies.streamEnded();
  }

  /**
   * Whether another stream of the session than its own can bring the reply to a request: within a session its id decides.
   * @param onStandalone whether the one that names no call can
   */
  #canReplyElsewhere(onStandalone: boolean): boolean {
    if (!this.hasSession) return false;
    return onStandalone || [...this.#streams.values()].some(({ finished }) => !finished);
  }

  /** @returns `taken`, which resolves when the server has taken a message that is no request */
  #onItsWay(taken: Promise<void>): Promise<void> {
    this.#onTheirWay.add(taken);
    const forget = () => void this.#onTheirWay.delete(taken);
    taken.then(forget, forget);
    return taken;
  }

  /** A DELETE goes over another connection, and can overtake them. */
  async #allTaken(): Promise<void> {
    const taken = new Closing();
    inBackground(Promise.allSettled(this.#onTheirWay).then(() => taken.abort()));
    await sleep(this.clock, LAST_MESSAGES_MS, taken);
  }

  #post(
    message: JsonObject,
    caller: CallerHeaders,
    limits?: Pick<HttpRequest, 'headersTimeoutMs' | 'repeatable'>,
  ): HttpRequest {
    const post = postOf(message, this.headersFor(caller));
    return { ...post, inSession: this.hasSession || this.#isAdopted, ...limits };
  }

  #takeSessionId({ headers }: ResponseHead): void {
    const value = headers['mcp-session-id'];
    if (typeof value === 'string' && value !== '') this.#sessionId = sessionId(value);
  }
}

/** The request of a stream that was opened for one. */
function idOf({ source }: ResumableStream): UpstreamRequestId {
  if (source.stream !== 'request') throw new Error('the stream belongs to no request');
  return source.id;
}
