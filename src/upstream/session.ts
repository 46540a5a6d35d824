/**
 * One session with a legacy server: the `initialize` handshake, request ids, and the question of whom
 * a message from the server concerns. Real servers ask on streams that name no call, so a session
 * carries one interactive call at a time; what arrives beside its stream is then its own.
 */
import type { Clock, Timer } from '../clock.ts';
import { sleep } from '../clock.ts';
import { legacyCapabilities, type ClientProfile } from '../protocol/client-profile.ts';
import {
  serverRequestId,
  upstreamRequestId,
  type ServerRequestId,
  type UpstreamRequestId,
} from '../protocol/ids.ts';
import { objectMember, type JsonObject } from '../protocol/json.ts';
import { ErrorCode, type JsonRpcMessage, type JsonRpcReply } from '../protocol/json-rpc.ts';
import { isLegacyRevision, LEGACY_REVISIONS, type LegacyRevision } from '../protocol/revisions.ts';
import { Patience } from './patience.ts';
import { isSessionError } from './session-gone.ts';
import type {
  CallerHeaders,
  MessageSource,
  StreamPoint,
  Transport,
  TransportListener,
} from './transport.ts';
import { asUpstreamFailure, UpstreamFailure } from './upstream-failure.ts';

/** What an interactive call hears of its exchange. Nothing comes after `replied` or `lost`. */
export interface ExchangeListener {
  asked(id: ServerRequestId, method: string, params: JsonObject): void;
  withdrawn(id: ServerRequestId): void;
  notified(method: string, params: JsonObject): void;
  replied(reply: JsonRpcReply): void;
  interrupted(): void;
  resumed(): void;
  lost(failure: UpstreamFailure): void;
}

/** The upstream's side of one call: a legacy request in flight. */
export interface Exchange {
  readonly id: UpstreamRequestId;
  /** Resolves when the server has taken the request; rejects with UpstreamFailure when it has not. */
  readonly accepted: Promise<void>;
  /** Tells the server that nobody waits any more. Never throws; resolves when it was told. */
  cancel(reason: string, headers: CallerHeaders): Promise<void>;
  /** Where somebody else could take the exchange up, or `null` when nobody could. */
  resumable(): StreamPoint | null;
  /** Closes the stream; nothing more is heard. */
  abandon(): void;
}

/** What somebody hears of a session who wants to know what changes at the server. */
export interface ChangeListener {
  /** A list changed, or a resource that was subscribed to. */
  changed(method: string, params: JsonObject): void;
  /** Changes may have gone unheard, since the server's stream was cut for a moment. */
  missed(): void;
  /** No change will be heard of any more. */
  lost(failure: UpstreamFailure): void;
}

export interface SessionOptions {
  /** Called with the method of each notification that a list or a resource changed. */
  readonly onChange?: (method: string) => void;
  readonly profile: ClientProfile;
  readonly clientInfo: JsonObject;
  readonly headers: CallerHeaders;
  /** The revision this upstream is known to speak, or `null` at the first contact. */
  readonly knownRevision: LegacyRevision | null;
  readonly requestTimeoutMs: number;
  readonly pingIntervalMs: number;
  /** Declares an upstream without session ids able to receive answers (a single process). */
  readonly statefulWithoutSessionId: boolean;
  /** Whether the stream for messages that belong to no request is wanted. */
  readonly standaloneStream: boolean;
}

export interface InitializeResult {
  readonly protocolVersion: LegacyRevision;
  readonly capabilities: JsonObject;
  /** The whole result as the server sent it. */
  readonly raw: JsonObject;
}

const LIST_CHANGED = /^notifications\/(tools|prompts|resources)\/list_changed$/;
const MAX_FAILED_PINGS = 2;
const ADOPTED_FIRST_ID = 1_000_000;
const LOG_LEVELS = [
  'debug',
  'info',
  'notice',
  'warning',
  'error',
  'critical',
  'alert',
  'emergency',
];

export class Session implements TransportListener {
  readonly openedAtMs: number;
  readonly #transport: Transport;
  readonly #options: SessionOptions;
  readonly #clock: Clock;
  readonly #waiting = new Map<UpstreamRequestId, (reply: JsonRpcReply | UpstreamFailure) => void>();
  readonly #askedOf = new Map<ServerRequestId, ExchangeListener>();
  readonly #visited = new Set<string>();
  readonly #visitWaiters = new Set<() => void>();
  readonly #closing = new AbortController();
  readonly #patience: Patience;
  #initialized: InitializeResult | null = null;
  #exchange: { id: UpstreamRequestId; listener: ExchangeListener } | null = null;
  #nextId = 1;
  #logLevel: string | null = null;
  #pingTimer: Timer | null = null;
  #failedPings = 0;
  #failure: UpstreamFailure | null = null;
  #standaloneOpen = false;
  #changes: ChangeListener | null = null;
  #headers: CallerHeaders;

  private constructor(
    connect: (listener: TransportListener) => Transport,
    options: SessionOptions,
    clock: Clock,
  ) {
    this.#transport = connect(this);
    this.#options = options;
    this.#clock = clock;
    this.#headers = options.headers;
    this.#patience = new Patience(clock, (params) => {
      if (this.dead) return this.#patience.stop();
      this.#transport.notify('notifications/progress', params, this.#headers).catch(() => {});
    });
    this.openedAtMs = clock.now();
  }

  /**
   * Opens a session: transport, `initialize`, `notifications/initialized`, and the standalone stream,
   * which must be open before the first call, since servers drop questions for which there is none.
   * @throws UpstreamFailure when the server cannot be reached or does not speak a known revision
   */
  static async open(
    connect: (listener: TransportListener) => Transport,
    options: SessionOptions,
    clock: Clock,
  ): Promise<Session> {
    const session = new Session(connect, options, clock);
    try {
      await session.#transport.open(options.headers);
      await session.#initialize(session.#declared());
      if (!session.interactive && Object.keys(session.#declared()).length > 0) {
        // No session id: an answer would reach an instance that never asked. So the server is greeted
        // anew by a client that can do nothing, and does not ask at all.
        await session.#initialize({});
      }
      await session.#ready();
      return session;
    } catch (error) {
      await session.close();
      throw asUpstreamFailure(error, false);
    }
  }

  /**
   * A session that another connection opened and somebody else used until now, to take up one of its
   * calls. Nothing is sent before that.
   * @param initialized what the server said of itself when it was asked last
   */
  static adopt(
    connect: (listener: TransportListener) => Transport,
    options: SessionOptions,
    clock: Clock,
    initialized: InitializeResult,
  ): Session {
    const session = new Session(connect, options, clock);
    session.#initialized = initialized;
    // Ids are never used twice in a session, and how far the others had come is not known.
    session.#nextId = ADOPTED_FIRST_ID;
    return session;
  }

  get initializeResult(): InitializeResult {
    if (this.#initialized === null) throw new Error('the session is not initialized');
    return this.#initialized;
  }

  get transportKind(): Transport['kind'] {
    return this.#transport.kind;
  }

  /** True when an answer to a question of the server can reach the process that asked. */
  get interactive(): boolean {
    return this.#transport.hasSession || this.#options.statefulWithoutSessionId;
  }

  /** True when the text contains the session's id, which must not reach a client. */
  reveals(text: string): boolean {
    return this.#transport.reveals(text);
  }

  get standaloneStreamOpen(): boolean {
    return this.#standaloneOpen;
  }

  get busy(): boolean {
    return this.#exchange !== null;
  }

  get dead(): boolean {
    return this.#failure !== null;
  }

  /**
   * Sends a request that may not ask anything, and waits for its reply.
   * @throws UpstreamFailure when no reply comes, at the latest after the configured time
   */
  async request(
    method: string,
    params: JsonObject,
    headers: CallerHeaders,
    signal?: AbortSignal,
  ): Promise<JsonRpcReply> {
    this.#assertAlive();
    const id = this.#takeId();
    const reply = new Promise<JsonRpcReply | UpstreamFailure>((resolve) => {
      this.#waiting.set(id, resolve);
    });
    const abort = () => {
      this.#settle(id, timedOut(method, this.#options.requestTimeoutMs));
    };
    const timer = this.#clock.setTimer(this.#options.requestTimeoutMs, abort);
    signal?.addEventListener('abort', abort, { once: true });
    try {
      this.#transport.request({ id, method, params }, headers).catch((error: unknown) => {
        this.#settle(id, asUpstreamFailure(error, true));
      });
      const settled = await reply;
      if (settled instanceof UpstreamFailure) throw this.#noteDeath(settled);
      if ('error' in settled && isSessionError(settled.error)) throw this.#noteDeath(forgotten());
      return settled;
    } finally {
      timer.cancel();
      signal?.removeEventListener('abort', abort);
      this.#transport.abandon(id);
    }
  }

  /**
   * Starts an interactive call; the session belongs to it until it ends. The caller bounds its time
   * and ends it with `abandon`.
   * @param params builds the params around the progress token, which is the request's own id
   */
  call(
    method: string,
    params: (progressToken: UpstreamRequestId) => JsonObject,
    listener: ExchangeListener,
    headers: CallerHeaders,
  ): Exchange {
    if (this.#exchange !== null) throw new Error('the session carries a call already');
    const id = this.#takeId();
    this.#exchange = { id, listener };
    this.#headers = headers;
    return this.#exchangeOf(id, this.#send(id, method, params(id), headers));
  }

  /** Takes up a call that was started elsewhere. What becomes of it is told to the listener. */
  resumeCall(
    id: UpstreamRequestId,
    point: StreamPoint,
    listener: ExchangeListener,
    headers: CallerHeaders,
  ): Exchange {
    this.#exchange = { id, listener };
    this.#headers = headers;
    this.#transport.resume(id, point, headers);
    return this.#exchangeOf(id, Promise.resolve());
  }

  /** Opens the stream for messages that belong to no request, when that was not done at the start. */
  async openStandaloneStream(headers: CallerHeaders): Promise<void> {
    if (this.#standaloneOpen || !this.interactive) return;
    // Who held it before may be frozen, and the server unaware of it: that must not hold up the call.
    this.#standaloneOpen = await this.#transport.openStandaloneStream(headers, 'once');
  }

  /** Tells the listener from here on what changes at the server; a session that is dead already, too. */
  observe(listener: ChangeListener): void {
    this.#changes = listener;
    if (this.#failure !== null) this.#loseChanges(this.#failure);
  }

  #exchangeOf(id: UpstreamRequestId, accepted: Promise<void>): Exchange {
    return {
      id,
      accepted,
      resumable: () => this.#transport.resumable(id),
      cancel: async (reason, callerHeaders) => {
        const cancelled = { requestId: id, reason };
        await this.#transport
          .notify('notifications/cancelled', cancelled, callerHeaders)
          .catch(() => {});
      },
      abandon: () => {
        this.#endExchange(id);
        this.#transport.abandon(id);
      },
    };
  }

  /** Answers a question of the server. Throws UpstreamFailure when the server did not take it. */
  async respond(id: ServerRequestId, reply: JsonRpcReply, headers: CallerHeaders): Promise<void> {
    try {
      await this.#transport.respond(id, reply, headers);
      this.#askedOf.delete(id);
      this.#patience.settled(id);
    } catch (error) {
      throw this.#noteDeath(asUpstreamFailure(error, true));
    }
  }

  /**
   * Makes the server log at least from this level on (legacy `logging/setLevel` is per session).
   * Best effort: a server that refuses is left alone.
   */
  async ensureLogLevel(level: string, headers: CallerHeaders): Promise<void> {
    const { capabilities } = this.initializeResult;
    if (objectMember(capabilities, 'logging') === undefined) return;
    const wanted = LOG_LEVELS.indexOf(level);
    if (this.#logLevel !== null && LOG_LEVELS.indexOf(this.#logLevel) <= wanted) return;
    await this.request('logging/setLevel', { level }, headers).catch(() => {});
    this.#logLevel = level;
  }

  /** While a call waits for its client, a ping now and then keeps the server from expiring the session. */
  keepAlive(on: boolean): void {
    this.#pingTimer?.cancel();
    this.#pingTimer = null;
    if (!on || this.dead) return;
    this.#pingTimer = this.#clock.setTimer(this.#options.pingIntervalMs, () => void this.#ping());
  }

  /** Resolves when the server has said that all these URL elicitations are complete, or after `waitMs`. */
  async urlsVisited(elicitationIds: readonly string[], waitMs: number): Promise<void> {
    const deadline = sleep(this.#clock, waitMs, this.#closing.signal).then(() => 'late' as const);
    while (!elicitationIds.every((id) => this.#visited.has(id))) {
      const { promise, resolve } = Promise.withResolvers<'visited'>();
      const waiter = () => resolve('visited');
      this.#visitWaiters.add(waiter);
      const outcome = await Promise.race([promise, deadline]);
      this.#visitWaiters.delete(waiter);
      if (outcome === 'late') return;
    }
  }

  /** Frees everything here and leaves the session with the server, where somebody else may take it up. */
  leave(): void {
    this.#changes = null;
    this.keepAlive(false);
    this.#patience.stop();
    this.#closing.abort();
    this.#failure ??= new UpstreamFailure('session_gone', 'the session was left', {
      mayHaveActed: false,
    });
    this.#transport.leave();
  }

  /** Ends the session and frees everything. Never throws. */
  async close(): Promise<void> {
    this.#changes = null;
    this.keepAlive(false);
    this.#patience.stop();
    this.#closing.abort();
    this.#failure ??= new UpstreamFailure('session_gone', 'the session was closed', {
      mayHaveActed: false,
    });
    await this.#transport.close(this.#headers).catch(() => {});
  }

  // The transport's side.

  message(message: JsonRpcMessage, source: MessageSource): void {
    switch (message.type) {
      case 'response':
        if (typeof message.id === 'number') {
          this.#onReply(upstreamRequestId(message.id), message.reply);
        }
        return;
      case 'request':
        this.#onRequest(serverRequestId(message.id), message.method, message.params, source);
        return;
      case 'notification':
        this.#onNotification(message.method, message.params, source);
        return;
      case 'malformed':
        return;
    }
  }

  interrupted(id: UpstreamRequestId): void {
    if (this.#exchange?.id === id) this.#exchange.listener.interrupted();
  }

  resumed(id: UpstreamRequestId): void {
    if (this.#exchange?.id === id) this.#exchange.listener.resumed();
  }

  lost(id: UpstreamRequestId, failure: UpstreamFailure): void {
    if (this.#exchange?.id === id) {
      const { listener } = this.#exchange;
      this.#endExchange(id);
      this.#noteDeath(failure);
      listener.lost(failure);
      return;
    }
    this.#settle(id, failure);
  }

  closed(failure: UpstreamFailure): void {
    this.#failure ??= failure;
    this.keepAlive(false);
    for (const id of [...this.#waiting.keys()]) this.#settle(id, failure);
    if (this.#exchange !== null) this.lost(this.#exchange.id, failure);
    this.#loseChanges(failure);
  }

  standaloneResumed(gapless: boolean): void {
    if (!gapless) this.#changes?.missed();
  }

  standaloneLost(failure: UpstreamFailure): void {
    this.#standaloneOpen = false;
    this.#loseChanges(failure);
  }

  #loseChanges(failure: UpstreamFailure): void {
    const listener = this.#changes;
    this.#changes = null;
    listener?.lost(failure);
  }

  #onReply(id: UpstreamRequestId, reply: JsonRpcReply): void {
    if (this.#exchange?.id !== id) {
      this.#settle(id, reply);
      return;
    }
    const { listener } = this.#exchange;
    this.#endExchange(id);
    if ('error' in reply && isSessionError(reply.error)) {
      listener.lost(this.#noteDeath(forgotten()));
    } else {
      listener.replied(reply);
    }
  }

  #onRequest(id: ServerRequestId, method: string, params: JsonObject, source: MessageSource): void {
    if (method === 'ping') return this.#answer(id, { result: {} });
    const ours = this.#exchange;
    const isOurs = ours !== null && (source.stream === 'standalone' || source.id === ours.id);
    if (isOurs && isQuestion(method)) {
      this.#askedOf.set(id, ours.listener);
      this.#patience.asked(id, params);
      ours.listener.asked(id, method, params);
      return;
    }
    this.#answer(id, unsolicited(method, this.busy));
  }

  #onNotification(method: string, params: JsonObject, source: MessageSource): void {
    if (method === 'notifications/cancelled') {
      const id = params['requestId'];
      if (typeof id !== 'string' && typeof id !== 'number') return;
      const asked = this.#askedOf.get(serverRequestId(id));
      this.#askedOf.delete(serverRequestId(id));
      this.#patience.settled(serverRequestId(id));
      asked?.withdrawn(serverRequestId(id));
      return;
    }
    if (method === 'notifications/elicitation/complete') {
      if (typeof params['elicitationId'] !== 'string') return;
      this.#visited.add(params['elicitationId']);
      for (const waiter of this.#visitWaiters) waiter();
      return;
    }
    if (LIST_CHANGED.test(method) || method === 'notifications/resources/updated') {
      this.#options.onChange?.(method);
      this.#changes?.changed(method, params);
      return;
    }
    if (this.#exchange !== null && this.#concernsExchange(method, params, source)) {
      this.#exchange.listener.notified(method, params);
    }
  }

  /**
   * Progress names its request. A log message relates to a request only when it comes on that
   * request's stream; over HTTP+SSE there is one stream for all, and one call at a time on it.
   */
  #concernsExchange(method: string, params: JsonObject, source: MessageSource): boolean {
    if (method === 'notifications/progress') {
      return params['progressToken'] === this.#exchange?.id;
    }
    return source.stream === 'request'
      ? source.id === this.#exchange?.id
      : this.#transport.kind === 'http-sse';
  }

  #answer(id: ServerRequestId, reply: JsonRpcReply): void {
    this.#transport.respond(id, reply, this.#headers).catch(() => {});
  }

  #settle(id: UpstreamRequestId, reply: JsonRpcReply | UpstreamFailure): void {
    const resolve = this.#waiting.get(id);
    this.#waiting.delete(id);
    resolve?.(reply);
  }

  #endExchange(id: UpstreamRequestId): void {
    if (this.#exchange?.id !== id) return;
    this.#exchange = null;
    this.#askedOf.clear();
    this.#patience.stop();
  }

  #takeId(): UpstreamRequestId {
    const id = upstreamRequestId(this.#nextId);
    this.#nextId += 1;
    return id;
  }

  async #send(
    id: UpstreamRequestId,
    method: string,
    params: JsonObject,
    headers: CallerHeaders,
  ): Promise<void> {
    try {
      this.#assertAlive();
      await this.#transport.request({ id, method, params }, headers);
    } catch (error) {
      this.#endExchange(id);
      throw this.#noteDeath(asUpstreamFailure(error, true));
    }
  }

  #assertAlive(): void {
    if (this.#failure !== null) throw this.#failure;
  }

  #noteDeath(failure: UpstreamFailure): UpstreamFailure {
    if (failure.code === 'session_gone') {
      this.#failure ??= failure;
      this.#loseChanges(failure);
    }
    return failure;
  }

  async #ping(): Promise<void> {
    try {
      await this.request('ping', {}, this.#headers);
      this.#failedPings = 0;
    } catch (error) {
      this.#failedPings += 1;
      const failure = asUpstreamFailure(error, true);
      if (failure.code === 'session_gone' || this.#failedPings >= MAX_FAILED_PINGS) {
        this.closed(failure);
      }
    }
    this.keepAlive(this.#pingTimer !== null && !this.dead);
  }

  #declared(): JsonObject {
    return legacyCapabilities(this.#options.profile, this.#options.knownRevision);
  }

  async #initialize(capabilities: JsonObject): Promise<void> {
    const { headers, clientInfo } = this.#options;
    let offer: LegacyRevision = LEGACY_REVISIONS[0];
    for (let attempt = 0; ; attempt += 1) {
      const params = { protocolVersion: offer, capabilities, clientInfo };
      const reply = await this.request('initialize', params, headers);
      if ('result' in reply) {
        this.#initialized = readInitializeResult(reply.result);
        break;
      }
      const other = attempt === 0 ? bestSupported(reply.error.data) : null;
      if (other === null) throw refusedInitialize(reply.error.code);
      offer = other;
    }
    this.#transport.useRevision(this.#initialized.protocolVersion);
  }

  async #ready(): Promise<void> {
    const { headers, standaloneStream } = this.#options;
    await this.#transport.notify('notifications/initialized', {}, headers);
    if (standaloneStream && this.interactive) {
      this.#standaloneOpen = await this.#transport.openStandaloneStream(headers);
    }
  }
}

const QUESTIONS = new Set(['elicitation/create', 'sampling/createMessage', 'roots/list']);

function isQuestion(method: string): boolean {
  return QUESTIONS.has(method);
}

/** The answer to a question that belongs to no call: it must never reach a random caller. */
function unsolicited(method: string, callRunning: boolean): JsonRpcReply {
  if (method === 'roots/list') return { result: { roots: [] } };
  if (method === 'elicitation/create' && callRunning) return { result: { action: 'cancel' } };
  if (method === 'sampling/createMessage' && callRunning) {
    return { error: { code: -1, message: 'No user is available to review the request' } };
  }
  if (isQuestion(method)) {
    return {
      error: {
        code: ErrorCode.invalidParams,
        message: 'The request does not belong to a client request',
      },
    };
  }
  return { error: { code: ErrorCode.methodNotFound, message: 'Method not found' } };
}

function readInitializeResult(result: JsonObject): InitializeResult {
  const { protocolVersion } = result;
  if (!isLegacyRevision(protocolVersion)) {
    throw new UpstreamFailure(
      'upstream_protocol_error',
      `it answered initialize with the protocol version ${JSON.stringify(protocolVersion ?? null).slice(0, 40)}, which this gateway does not know`,
      { mayHaveActed: false },
    );
  }
  return { protocolVersion, capabilities: objectMember(result, 'capabilities') ?? {}, raw: result };
}

/** The newest revision we know among those that an `initialize` error lists in `data.supported`. */
function bestSupported(data: unknown): LegacyRevision | null {
  const supported =
    typeof data === 'object' && data !== null && 'supported' in data ? data.supported : null;
  if (!Array.isArray(supported)) return null;
  return LEGACY_REVISIONS.find((revision) => supported.includes(revision)) ?? null;
}

function refusedInitialize(code: number): UpstreamFailure {
  return new UpstreamFailure(
    'upstream_protocol_error',
    `it refused initialize with the JSON-RPC error ${code}`,
    { mayHaveActed: false },
  );
}

function timedOut(method: string, afterMs: number): UpstreamFailure {
  return new UpstreamFailure('upstream_timeout', `no reply to ${method} within ${afterMs} ms`, {
    mayHaveActed: true,
  });
}

function forgotten(): UpstreamFailure {
  return new UpstreamFailure('session_gone', 'the upstream forgot the session', {
    mayHaveActed: false,
  });
}
