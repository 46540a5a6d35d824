/**
 * One session with a legacy server: its handshake, its requests, and its calls. `incoming.ts` receives what
 * the server sends.
 */
import { TRAITS } from '../transport/traits.ts';
import type { Clock } from '../../lib/clock.ts';
import { Semaphore } from '../../lib/semaphore.ts';
import { legacyCapabilities } from '../../protocol/translate/client-profile.ts';
import type { ServerRequestId, SessionId, UpstreamRequestId } from '../../protocol/ids.ts';
import { objectMember, type JsonObject } from '../../protocol/json.ts';
import type { LegacyRevision } from '../../protocol/meta.ts';
import { asUpstreamFailure, UpstreamFailure } from '../../model/upstream-failure.ts';
import type { CallerHeaders } from '../transport/transport.ts';
import type {
  CallTask,
  CreatedCallTask,
  ExchangeListener,
  RequestExchange,
  SharedSessionPoint,
} from './call-exchange.ts';
import { initialize, type InitializeResult } from './handshake.ts';
import { IncomingMessages, type IncomingOptions } from './incoming.ts';
import { KeepAlive, MAX_PINGS } from './keep-alive.ts';
import { ServerDescription, type ResumedSession, type Describe } from './server-description.ts';
import { ServerLogLevel } from './server-log-level.ts';
import type { SessionCall } from './session-call.ts';
import { SessionState, type Connect, type SessionStateOptions } from './session-state.ts';

export interface SessionOptions extends SessionStateOptions, IncomingOptions {
  readonly clientInfo: JsonObject;
  /** The revision that this server is known to speak, or `null` at the first contact. */
  readonly knownRevision: LegacyRevision | null;
  /** Declares that a server without session ids can receive answers (it is a single process). */
  readonly statefulWithoutSessionId: boolean;
  /** Whether to open the stream for messages that belong to no request. */
  readonly standaloneStream: boolean;
  readonly pingIntervalMs: number;
  /** Of all sessions with the server. */
  readonly pings?: Semaphore;
  readonly describe?: Describe;
  /** Called if the server refuses `initialize`, before the session is closed. @returns why it was not opened */
  readonly onRefused?: (failure: UpstreamFailure, session: Session) => Promise<UpstreamFailure>;
}

export class Session extends SessionState {
  readonly #options: SessionOptions;
  readonly #closing = new AbortController();
  readonly #description: ServerDescription;
  readonly #logLevel = new ServerLogLevel((level, headers) =>
    this.request('logging/setLevel', { level }, headers),
  );
  /**
   * Whether the standalone stream of a session that was taken over came within the time that calls wait for it; `null` until somebody
   * needs it.
   */
  #takingStream: boolean | Promise<boolean> | null = false;

  private constructor(connect: Connect, options: SessionOptions, clock: Clock) {
    super(connect, (state) => new IncomingMessages(state, options), options, clock);
    this.#options = options;
    this.#description = new ServerDescription(clock, options.describe);
  }

  /**
   * Opens a session: transport, `initialize`, `notifications/initialized`, and the standalone stream.
   * Servers drop questions while that stream is not open, so it is opened before the first call.
   * @throws UpstreamFailure if the server cannot be reached or does not speak a known revision
   */
  static async open(connect: Connect, options: SessionOptions, clock: Clock): Promise<Session> {
    const session = new Session(connect, options, clock);
    const tellsRoots = session.roots !== null;
    const declared = legacyCapabilities(options.profile, options.knownRevision, tellsRoots);
    try {
      await session.transport.open(options.headers);
      await session.#initialize(declared);
      if (!session.interactive && Object.keys(declared).length > 0) {
        // Without a session id an answer may reach a process that did not ask. A client that declares
        // nothing is not asked.
        await session.#initialize({});
      }
      await session.#complete();
      return session;
    } catch (error) {
      const failure = asUpstreamFailure(error, false);
      const isRefused = failure.details.rpcError !== undefined && !session.dead;
      const reason = isRefused ? await options.onRefused?.(failure, session) : undefined;
      await session.close();
      throw reason ?? failure;
    }
  }

  /**
   * Takes over a session that another process opened, or that was left. Sends nothing.
   * @param id `null` for a server that gives no session ids
   */
  static adopt(
    id: SessionId | null,
    connect: Connect,
    options: SessionOptions,
    clock: Clock,
    adopted: ResumedSession,
  ): Session {
    const session = new Session(connect, options, clock);
    session.#takingStream = null;
    session.#description.adopt(adopted);
    session.transport.adopt?.(id, adopted.revision);
    return session;
  }

  get initializeResult(): InitializeResult {
    return this.#description.result;
  }

  /** False while it is not known here what the server says of itself. */
  get isDescribed(): boolean {
    return this.#description.isKnown;
  }

  /** True if an answer to a question of the server reaches the process that asked. */
  get interactive(): boolean {
    return this.transport.hasSession || this.#options.statefulWithoutSessionId;
  }

  /** True once an event on the stream of a request had an id, so that the stream of a call can probably be resumed. */
  get numbersEvents(): boolean {
    return this.transport.numbersEvents === true;
  }

  get dead(): boolean {
    return this.failure !== null;
  }

  /** The id by which another process can take the session over; `null` if none can. */
  get id(): SessionId | null {
    return this.transport.sessionId;
  }

  /** True if the text contains the id of the session, which must not reach a client. */
  reveals(text: string): boolean {
    return this.transport.reveals(text);
  }

  /**
   * Starts an interactive call; others may run. The caller limits its duration and ends it with `abandon`.
   * @param params returns the params for a progress token, which is the id of the request
   * @param isSilent whether such calls have ended in this session, and none has asked
   */
  call(
    method: string,
    params: (progressToken: UpstreamRequestId) => JsonObject,
    listener: ExchangeListener,
    headers: CallerHeaders,
    isSilent = false,
  ): RequestExchange {
    const id = this.issueId();
    const call = this.addCall({ id, listener, isSilent }, headers);
    return this.#send(call, method, params(id));
  }

  /** Starts a tool call for which the server creates a task. The reply is a `CreateTaskResult`. */
  createTask(
    params: (progressToken: UpstreamRequestId) => JsonObject,
    listener: ExchangeListener,
    headers: CallerHeaders,
  ): RequestExchange {
    const id = this.issueId();
    const call = this.addCall({ id, listener, task: { taskId: null, progressToken: id } }, headers);
    return this.#send(call, 'tools/call', params(id));
  }

  /**
   * Asks for the result of a task. The reply is that of the tool call, and its stream is that of the call.
   * @param former the request of the same call before this one, and its questions without an answer
   */
  followTask(
    task: CreatedCallTask,
    former: Pick<RequestExchange, 'id' | 'openQuestions'>,
    listener: ExchangeListener,
  ): RequestExchange {
    const id = this.issueId();
    const call = this.addCall(
      { id, listener, openQuestions: former.openQuestions, task },
      this.headers,
    );
    // The call goes on under this id, so that the former one can ask no more.
    this.questions.callBegan(former.id);
    return this.#send(call, 'tasks/result', { taskId: task.taskId });
  }

  /** Tells the server that the reply to a request is no longer wanted. Never throws. */
  forget(id: UpstreamRequestId): Promise<unknown> {
    return this.requests.cancel(id, 'the request is sent again', this.headers);
  }

  /**
   * Resumes the stream of a call that another session started. The listener is told what becomes of it.
   * @param point where its stream is resumed, and which other calls may run in the session
   * @param open questions of the call without an answer
   * @param task the task that the request creates or follows
   */
  resumeCall(
    id: UpstreamRequestId,
    point: SharedSessionPoint & { readonly lastEventId: string },
    listener: ExchangeListener,
    headers: CallerHeaders,
    open: readonly ServerRequestId[] = [],
    task: CallTask | null = null,
  ): RequestExchange {
    this.detector.moveId(id, this.identity);
    const call = this.addCall({ id, listener, openQuestions: open, task }, headers);
    call.resumeStream();
    this.questions.mayRun(point.beside ?? []);
    this.transport.resume?.(id, point.lastEventId, headers);
    return call;
  }

  /** Opens the standalone stream of a session that was taken over. */
  async openStandaloneStream(headers: CallerHeaders): Promise<void> {
    if (!this.interactive) return;
    // The stream may still be held by a process that hangs. That must not delay the call, but those that begin here can ask on it.
    this.#takingStream = this.transport.openStandaloneStream(headers);
    await this.transport.openStandaloneStream(headers, 'once');
  }

  /** Leaves the standalone stream to another process. */
  closeStandaloneStream(): void {
    this.transport.closeStandaloneStream?.();
  }

  /**
   * Prepares the session for its next use: asks what the server says of itself, if that is not known, and waits a moment for the
   * standalone stream, if that broke or was taken over. The session is used without either if need be.
   * @returns false if the session can no longer be used
   */
  ready(headers: CallerHeaders): boolean | Promise<boolean> {
    const learning = this.#description.learn(headers);
    return learning === null
      ? this.#streamReady(headers)
      : learning.then(() => this.#streamReady(headers));
  }

  #streamReady(headers: CallerHeaders): boolean | Promise<boolean> {
    if (this.dead) return false;
    this.#takingStream ??= this.interactive && this.transport.openStandaloneStream(headers);
    const opening =
      this.standalone === 'never'
        ? this.#takingStream
        : this.transport.openStandaloneStream(headers);
    return opening instanceof Promise ? opening.then(() => !this.dead) : true;
  }

  /**
   * Sets the log level of the server to this one or a more detailed one (`logging/setLevel`, which is per
   * session). Ignores a refusal.
   */
  async ensureLogLevel(level: string, headers: CallerHeaders): Promise<void> {
    const { capabilities } = this.initializeResult;
    if (objectMember(capabilities, 'logging') === undefined) return;
    await this.#logLevel.ensure(level, headers);
  }

  /**
   * Starts or stops pings, which keep the server from expiring the session while a call waits.
   * @param wanter who wants the pings. They stop when nobody wants them any more
   */
  keepAlive(on: boolean, wanter: object = this): void {
    if (on) this.pings ??= this.#newKeepAlive();
    this.pings?.want(on, wanter);
  }

  /** Resolves when the server has said that all these URL elicitations are complete, or after `waitMs`. */
  urlsVisited(elicitationIds: readonly string[], waitMs: number): Promise<void> {
    const { visits, clock } = this;
    return visits.all(elicitationIds, clock, waitMs, this.#closing.signal);
  }

  /** Frees everything here. The server keeps the session, so that another replica can take it over. */
  leave(): void {
    this.#end('the session was left');
    this.transport.leave();
  }

  /** Ends the session and frees everything. Never throws. */
  async close(): Promise<void> {
    this.#end('the session was closed');
    await this.transport.close(this.headers).catch(() => {});
  }

  /** Sends the request of a call that was just added, with the credentials that came with it. */
  #send(call: SessionCall, method: string, params: JsonObject): SessionCall {
    try {
      this.assertAlive();
      this.transport.request({ id: call.id, method, params }, this.headers);
    } catch (error) {
      // The caller does not have the call yet.
      queueMicrotask(() => this.refuseCall(call.id, asUpstreamFailure(error, false)));
    }
    return call;
  }

  async #initialize(capabilities: JsonObject): Promise<void> {
    const { headers, clientInfo } = this.#options;
    const ask = (params: JsonObject) => this.request('initialize', params, headers);
    this.#description.told(await initialize(ask, capabilities, clientInfo));
  }

  /** Completes the handshake. */
  async #complete(): Promise<void> {
    const { headers, standaloneStream } = this.#options;
    const { transport } = this;
    // After the last `initialize`, which names no revision in a header.
    transport.useRevision(this.initializeResult.protocolVersion);
    await transport.notify('notifications/initialized', {}, headers);
    if (standaloneStream && this.interactive) await transport.openStandaloneStream(headers);
  }

  #newKeepAlive(): KeepAlive {
    const { pings = new Semaphore(MAX_PINGS) } = this.#options;
    return new KeepAlive({
      clock: this.clock,
      intervalMs: this.#options.pingIntervalMs,
      ping: () => pings.take(() => this.request('ping', {}, this.headers)),
      isDead: () => this.dead,
      isWorking: () =>
        // A process may do one thing at a time.
        !TRAITS[this.transport.kind].hasHttp &&
        [...this.calls.values()].some(({ hasOpenQuestions }) => !hasOpenQuestions),
      gone: (failure) => this.fail(failure),
    });
  }

  #end(reason: string): void {
    this.#closing.abort();
    this.end(new UpstreamFailure('session_gone', reason, { mayHaveActed: false }));
  }
}
