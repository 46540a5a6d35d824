/**
 * One session with a legacy server: its handshake, and what can be asked of it. It carries one
 * interactive call at a time, since real servers ask on streams that name no call.
 */
import type { Clock } from '../../lib/clock.ts';
import { legacyCapabilities, type ClientProfile } from '../../protocol/translate/client-profile.ts';
import type { ServerRequestId, UpstreamRequestId } from '../../protocol/ids.ts';
import { objectMember, type JsonObject } from '../../protocol/json/json.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import { LOG_LEVELS } from '../../protocol/meta.ts';
import type { LegacyRevision } from '../../protocol/revisions.ts';
import type { ChangeListener } from './changes.ts';
import { exchangeOver, type Exchange, type ExchangeListener } from './exchange.ts';
import { initialize, type InitializeResult } from './handshake.ts';
import { SessionWire, type SessionWireOptions } from './session-wire.ts';
import type {
  CallerHeaders,
  StreamPoint,
  Transport,
  TransportListener,
} from '../transport/transport.ts';
import { asUpstreamFailure } from '../failure.ts';

export interface SessionOptions extends SessionWireOptions {
  readonly profile: ClientProfile;
  readonly clientInfo: JsonObject;
  /** The revision this upstream is known to speak, or `null` at the first contact. */
  readonly knownRevision: LegacyRevision | null;
  /** Declares an upstream without session ids able to receive answers (a single process). */
  readonly statefulWithoutSessionId: boolean;
  /** Whether the stream for messages that belong to no request is wanted. */
  readonly standaloneStream: boolean;
}

type Connect = (listener: TransportListener) => Transport;

export class Session {
  readonly #wire: SessionWire;
  readonly #options: SessionOptions;
  readonly #clock: Clock;
  #initialized: InitializeResult | null = null;
  #logLevel: string | null = null;

  private constructor(connect: Connect, options: SessionOptions, clock: Clock) {
    this.#wire = new SessionWire(connect, options, clock);
    this.#options = options;
    this.#clock = clock;
  }

  /**
   * Opens a session: transport, `initialize`, `notifications/initialized`, and the standalone stream,
   * which must be open before the first call, since servers drop questions for which there is none.
   * @throws UpstreamFailure when the server cannot be reached or does not speak a known revision
   */
  static async open(connect: Connect, options: SessionOptions, clock: Clock): Promise<Session> {
    const session = new Session(connect, options, clock);
    const declared = legacyCapabilities(options.profile, options.knownRevision);
    try {
      await session.#wire.transport.open(options.headers);
      await session.#initialize(declared);
      if (!session.interactive && Object.keys(declared).length > 0) {
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
    connect: Connect,
    options: SessionOptions,
    clock: Clock,
    initialized: InitializeResult,
  ): Session {
    const session = new Session(connect, options, clock);
    session.#initialized = initialized;
    return session;
  }

  get initializeResult(): InitializeResult {
    if (this.#initialized === null) throw new Error('the session is not initialized');
    return this.#initialized;
  }

  /** True when an answer to a question of the server can reach the process that asked. */
  get interactive(): boolean {
    return this.#wire.transport.hasSession || this.#options.statefulWithoutSessionId;
  }

  /** True when the text contains the session's id, which must not reach a client. */
  reveals(text: string): boolean {
    return this.#wire.transport.reveals(text);
  }

  get standaloneStreamOpen(): boolean {
    return this.#wire.standalone === 'open';
  }

  /** What this session is to `CrossTalk`. */
  get party(): object {
    return this.#wire;
  }

  /** The credentials of the caller who came last. */
  get headers(): CallerHeaders {
    return this.#wire.headers;
  }

  get dead(): boolean {
    return this.#wire.failure !== null;
  }

  /**
   * Sends a request that may not ask anything, and waits for its reply.
   * @param signal aborts when nobody waits any more
   * @throws UpstreamFailure when no reply comes, at the latest after the configured time
   * @throws ClientLeft when the signal aborts first
   */
  request(
    method: string,
    params: JsonObject,
    headers: CallerHeaders,
    signal?: AbortSignal,
  ): Promise<JsonRpcReply> {
    return this.#wire.request(method, params, headers, signal);
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
    if (this.#wire.call.id !== null) throw new Error('the session carries a call already');
    const id = this.#wire.takeId();
    this.#wire.call.begin(id, listener);
    this.#wire.headers = headers;
    return this.#exchangeOf(id, this.#wire.begin(id, method, params(id), headers));
  }

  /**
   * Takes up a call that was started elsewhere. What becomes of it is told to the listener.
   * @param open questions that the server asked in it, and waits for
   */
  resumeCall(
    id: UpstreamRequestId,
    point: StreamPoint,
    listener: ExchangeListener,
    headers: CallerHeaders,
    open: readonly ServerRequestId[] = [],
  ): Exchange {
    this.#wire.takeUp(id);
    this.#wire.call.begin(id, listener, open);
    this.#wire.call.streamTakenUp();
    this.#wire.headers = headers;
    this.#wire.transport.resume(id, point, headers);
    return this.#exchangeOf(id, Promise.resolve());
  }

  /** Answers a question of the server. Throws UpstreamFailure when the server did not take it. */
  respond(id: ServerRequestId, reply: JsonRpcReply, headers: CallerHeaders): Promise<void> {
    return this.#wire.respond(id, reply, headers);
  }

  /** Opens the stream for messages that belong to no request, when that was not done at the start. */
  async openStandaloneStream(headers: CallerHeaders): Promise<void> {
    if (!this.interactive) return;
    // Who held it before may be frozen, and the server unaware of it: that must not hold up the call.
    await this.#wire.transport.openStandaloneStream(headers, 'once');
  }

  /**
   * Makes sure that the session can be used again: a stream for messages that belong to no request is
   * open if there was one, since a server drops the questions that it has no stream for.
   * @returns false when the session is of no use any more
   */
  async ready(headers: CallerHeaders): Promise<boolean> {
    if (this.dead) return false;
    if (this.#wire.standalone === 'never') return true;
    return (await this.#wire.transport.openStandaloneStream(headers)) && !this.dead;
  }

  /** Tells the listener from here on what changes at the server; a session that is dead already, too. */
  observe(listener: ChangeListener): void {
    this.#wire.changes.observe(listener);
    const { failure } = this.#wire;
    if (failure !== null) this.#wire.changes.lose(failure);
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
    this.#wire.keepAlive.set(on);
  }

  /** Resolves when the server has said that all these URL elicitations are complete, or after `waitMs`. */
  urlsVisited(elicitationIds: readonly string[], waitMs: number): Promise<void> {
    return this.#wire.visits.all(elicitationIds, this.#clock, waitMs, this.#wire.closing);
  }

  /** Frees everything here and leaves the session with the server, where somebody else may take it up. */
  leave(): void {
    this.#wire.end('the session was left');
    this.#wire.transport.leave();
  }

  /** Ends the session and frees everything. Never throws. */
  async close(): Promise<void> {
    this.#wire.end('the session was closed');
    await this.#wire.transport.close(this.#wire.headers).catch(() => {});
  }

  #exchangeOf(id: UpstreamRequestId, accepted: Promise<void>): Exchange {
    return exchangeOver(this.#wire.transport, id, accepted, () => this.#wire.call.end(id));
  }

  async #initialize(capabilities: JsonObject): Promise<void> {
    const { headers, clientInfo } = this.#options;
    const ask = (params: JsonObject) => this.request('initialize', params, headers);
    this.#initialized = await initialize(ask, capabilities, clientInfo);
  }

  async #ready(): Promise<void> {
    const { headers, standaloneStream } = this.#options;
    // Only now: no `initialize` names a revision in a header, the second of two neither.
    this.#wire.transport.useRevision(this.initializeResult.protocolVersion);
    await this.#wire.transport.notify('notifications/initialized', {}, headers);
    if (standaloneStream && this.interactive) {
      await this.#wire.transport.openStandaloneStream(headers);
    }
  }
}
