/**
 * What goes out over the transport of one session and comes in from it, until the session is dead:
 * request ids, replies, the messages of the server, and the news of the session's end.
 */
import type { Clock } from '../../lib/clock.ts';
import type { ServerRequestId, UpstreamRequestId } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json/json.ts';
import type { JsonRpcMessage, JsonRpcReply } from '../../protocol/json-rpc.ts';
import { Patience } from './progress-heartbeat.ts';
import { questionKey, type CrossTalk } from '../cross-talk.ts';
import { SessionCall } from './call-slot.ts';
import { LIST_CHANGES, SessionChanges } from './changes.ts';
import { isCutTo32Bits } from '../request-id.ts';
import { isSessionError } from './session-gone.ts';
import { SessionInbox } from './inbox.ts';
import { isQuestion } from './open-questions.ts';
import { KeepAlive } from './keep-alive.ts';
import { SessionRequests } from './requests.ts';
import { UrlVisits } from './url-visits.ts';
import type {
  CallerHeaders,
  MessageSource,
  Transport,
  TransportListener,
} from '../transport/transport.ts';
import { asUpstreamFailure, beforeRequest, UpstreamFailure } from '../failure.ts';

export interface SessionWireOptions {
  /** Called with the method of each change of a list or a resource that was told, or may have been missed. */
  readonly onChange?: (method: string) => void;
  /** What is known of messages that go to sessions which they are not for. */
  readonly crossTalk: CrossTalk;
  /**
   * Called with a question before it is looked at, where it may be one that is sent to every session;
   * what comes after it waits until this is found out. `null` where nothing is to be found out.
   */
  readonly judge?: (question: string) => Promise<void> | null;
  readonly headers: CallerHeaders;
  readonly requestTimeoutMs: number;
  readonly pingIntervalMs: number;
}

/** Notifications beyond so many are not kept while it is found out whose a question is. */
const MAX_HELD = 256;

export class SessionWire implements TransportListener {
  readonly transport: Transport;
  readonly call: SessionCall;
  readonly keepAlive: KeepAlive;
  readonly changes = new SessionChanges();
  readonly visits = new UrlVisits();
  #standalone: 'never' | 'open' | 'lost' = 'never';
  #headers: CallerHeaders;
  readonly #requests: SessionRequests;
  readonly #patience: Patience;
  readonly #inbox: SessionInbox;
  readonly #closing = new AbortController();
  readonly #onChange: (method: string) => void;
  readonly #crossTalk: CrossTalk;
  readonly #judge: (question: string) => Promise<void> | null;
  /** The id of an `initialize` that is not answered yet. */
  #greeting: UpstreamRequestId | null = null;
  /** What came behind a question of which it is not known yet whose it is. */
  #held: [JsonRpcMessage, MessageSource][] | null = null;
  #failure: UpstreamFailure | null = null;
  /** A request was answered after the handshake, so the server knew the session once. */
  #answered = false;

  constructor(
    connect: (listener: TransportListener) => Transport,
    options: SessionWireOptions,
    clock: Clock,
  ) {
    const transport = connect(this);
    this.transport = transport;
    this.#headers = options.headers;
    this.#onChange = options.onChange ?? (() => {});
    this.#crossTalk = options.crossTalk;
    this.#judge = options.judge ?? (() => null);
    this.#requests = new SessionRequests(transport, options.requestTimeoutMs, clock);
    this.#patience = new Patience(clock, (params) => {
      if (this.failure !== null) return this.#patience.stop();
      transport.notify('notifications/progress', params, this.headers).catch(() => {});
    });
    this.call = new SessionCall(this.#patience, options.crossTalk, this);
    this.#inbox = new SessionInbox({
      transport: transport.kind,
      call: this.call,
      crossTalk: options.crossTalk,
      party: this,
      mixed: (id, problem) => this.#mixed(id, problem),
      replied: (id, reply) => this.#onReply(id, reply),
      answer: (id, reply) => void transport.respond(id, reply, this.headers).catch(() => {}),
      changed: (method, params) => {
        this.#onChange(method);
        this.changes.changed(method, params);
      },
      visited: (elicitationId) => this.visits.completed(elicitationId),
    });
    this.keepAlive = new KeepAlive({
      clock,
      intervalMs: options.pingIntervalMs,
      ping: () => this.request('ping', {}, this.headers),
      isDead: () => this.failure !== null,
      gone: (failure) => this.closed(failure),
    });
  }

  /** The credentials for what goes out on nobody's behalf: those of the caller who came last. */
  get headers(): CallerHeaders {
    return this.#headers;
  }

  set headers(headers: CallerHeaders) {
    this.#headers = headers;
    this.keepAlive.renewed();
  }

  /** Whether the stream for messages that belong to no request is open, or was once. */
  get standalone(): 'never' | 'open' | 'lost' {
    return this.#standalone;
  }

  /** What the session died of; `null` while it lives. */
  get failure(): UpstreamFailure | null {
    return this.#failure;
  }

  /** Aborts when the session is ended here. */
  get closing(): AbortSignal {
    return this.#closing.signal;
  }

  /** An id for the next request; no other request of any session has it. */
  takeId(): UpstreamRequestId {
    return this.#crossTalk.issue(this);
  }

  /** A call that another session began is this one's from here on. */
  takeUp(id: UpstreamRequestId): void {
    this.#crossTalk.takeUp(id, this);
  }

  /**
   * Sends a request that may not ask anything, and waits for its reply.
   * @param signal aborts when nobody waits any more
   * @throws UpstreamFailure when no reply comes, at the latest after the configured time
   * @throws ClientLeft when the signal aborts first
   */
  async request(
    method: string,
    params: JsonObject,
    headers: CallerHeaders,
    signal?: AbortSignal,
  ): Promise<JsonRpcReply> {
    this.#assertAlive();
    // No tool answers a ping, so what it says is about the session.
    const mayBeUnknown = this.#answered || this.call.carriedOne || method === 'ping';
    const id = this.takeId();
    if (method === 'initialize') this.#greeting = id;
    const settled = await this.#requests.send({ id, method, params }, headers, signal);
    if (settled instanceof UpstreamFailure) throw this.#noteDeath(settled);
    if ('error' in settled && mayBeUnknown && isSessionError(settled.error)) {
      throw this.#noteDeath(forgotten());
    }
    this.#answered ||= method !== 'initialize';
    return settled;
  }

  /** Sends the request of the call. Throws UpstreamFailure when the server did not take it. */
  async begin(
    id: UpstreamRequestId,
    method: string,
    params: JsonObject,
    headers: CallerHeaders,
  ): Promise<void> {
    try {
      this.#assertAlive();
      await this.transport.request({ id, method, params }, headers);
    } catch (error) {
      this.call.end(id);
      throw this.#noteDeath(asUpstreamFailure(error, true));
    }
  }

  /** Answers a question of the server. Throws UpstreamFailure when the server did not take it. */
  async respond(id: ServerRequestId, reply: JsonRpcReply, headers: CallerHeaders): Promise<void> {
    try {
      await this.transport.respond(id, reply, headers);
      this.call.answered(id);
      this.headers = headers;
    } catch (error) {
      throw this.#noteDeath(asUpstreamFailure(error, true));
    }
  }

  /** Stops everything that the session does by itself. */
  end(reason: string): void {
    this.changes.stop();
    this.keepAlive.set(false);
    this.#patience.stop();
    this.#closing.abort();
    this.#failure ??= new UpstreamFailure('session_gone', reason, { mayHaveActed: false });
    this.#requests.settleAll(this.#failure);
  }

  message(received: JsonRpcMessage, source: MessageSource): void {
    const message = this.#withIdAsSent(received);
    const { kind } = this.transport;
    // A stream that was taken up may repeat what was for the session before; the inbox looks at it.
    const { onTrial, takenUp, id } = this.call;
    const isTakenUp = takenUp && source.stream === 'request' && source.id === id;
    if (!onTrial && !isTakenUp) this.#crossTalk.heard(message, this, kind);
    if (this.#held !== null) {
      // What waits for nothing may be left out, so that what is held has a limit.
      const counts = message.type !== 'notification' || this.#held.length < MAX_HELD;
      if (counts) this.#held.push([message, source]);
      return;
    }
    if (kind === 'http-sse' && message.type === 'request' && isQuestion(message.method)) {
      const question = questionKey(message.id, message.method, message.params);
      this.#crossTalk.asked(question, this);
      const judged = this.call.id === null ? null : this.#judge(question);
      if (judged !== null) {
        this.#held = [[message, source]];
        void judged.catch(() => {}).then(() => this.#takeHeld());
        return;
      }
    }
    this.#inbox.take(message, source);
  }

  interrupted(id: UpstreamRequestId): void {
    this.call.listenerOf(id)?.interrupted();
  }

  resumed(id: UpstreamRequestId): void {
    if (this.call.id === id) this.call.streamTakenUp();
    this.call.listenerOf(id)?.resumed();
  }

  lost(id: UpstreamRequestId, failure: UpstreamFailure): void {
    const { code, message, details } = failure;
    const listener = this.call.end(id);
    if (listener === null) {
      this.#requests.settle(id, failure);
      return;
    }
    this.#noteDeath(failure);
    // The server had taken the call, and may have been at work on it.
    listener.lost(new UpstreamFailure(code, message, { ...details, mayHaveActed: true }));
  }

  backlog(id: UpstreamRequestId): Promise<void> | null {
    return this.call.listenerOf(id)?.backlog() ?? null;
  }

  closed(failure: UpstreamFailure): void {
    // What was answered before the end counts; whose a question was is of no interest any more.
    this.#held = (this.#held ?? []).filter(([{ type }]) => type === 'response');
    this.#takeHeld();
    this.#failure ??= failure;
    this.keepAlive.set(false);
    this.#requests.settleAll(failure);
    if (this.call.id !== null) this.lost(this.call.id, failure);
    this.changes.lose(failure);
  }

  standaloneOpened(): void {
    if (this.#standalone === 'lost') this.#haveMissed();
    this.#standalone = 'open';
  }

  standaloneResumed(gapless: boolean): void {
    if (gapless) return;
    this.#haveMissed();
    this.changes.missed();
  }

  standaloneLost(failure: UpstreamFailure): void {
    this.#standalone = 'lost';
    this.#noteDeath(failure);
    this.changes.lose(failure);
  }

  /**
   * The reply to `initialize` under the id that was sent: a server that cut it to 32 bits gets texts from
   * here on. Nothing else can be meant there, since nothing else was asked yet.
   */
  #withIdAsSent(message: JsonRpcMessage): JsonRpcMessage {
    const greeting = this.#greeting;
    if (greeting === null || message.type !== 'response') return message;
    if (message.id === greeting) this.#greeting = null;
    if (!isCutTo32Bits(greeting, message.id)) return message;
    this.#greeting = null;
    this.#crossTalk.useTextIds();
    return { ...message, id: greeting };
  }

  #takeHeld(): void {
    const held = this.#held ?? [];
    this.#held = null;
    for (const [message, source] of held) this.#inbox.take(message, source);
  }

  /** The stream of the call brought what is another call's: nothing of it can be believed any more. */
  #mixed(id: UpstreamRequestId, problem: string): void {
    this.#crossTalk.mixingSeen();
    this.transport.abandon(id);
    this.lost(id, new UpstreamFailure('streams_mixed', problem, { mayHaveActed: true }));
  }

  #onReply(id: UpstreamRequestId, reply: JsonRpcReply): void {
    const { mayBeUnknown } = this.call;
    const listener = this.call.end(id, true);
    if (listener === null) {
      this.#requests.settle(id, reply);
    } else if ('error' in reply && mayBeUnknown && isSessionError(reply.error)) {
      listener.lost(this.#noteDeath(forgotten()));
    } else {
      listener.replied(reply);
    }
  }

  /** Lists may have changed while nobody heard of it. */
  #haveMissed(): void {
    for (const method of LIST_CHANGES) this.#onChange(method);
  }

  #assertAlive(): void {
    if (this.#failure !== null) throw beforeRequest(this.#failure);
  }

  #noteDeath(failure: UpstreamFailure): UpstreamFailure {
    if (failure.code === 'session_gone') {
      this.#failure ??= failure;
      this.changes.lose(failure);
    }
    return failure;
  }
}

function forgotten(): UpstreamFailure {
  return new UpstreamFailure('session_gone', 'the server no longer knows the session', {
    mayHaveActed: false,
  });
}
