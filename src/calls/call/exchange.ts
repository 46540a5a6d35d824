/**
 * The exchange of a call with its server: the leased session, the request in flight, what the server asks, and how far it is known
 * to have come. What is still being opened when the call is over is freed once it is there.
 */
import { inBackground } from '../../lib/background.ts';
import type { Timer } from '../../lib/clock.ts';
import { homeBornWith, type InputKey, type ServerRequestId } from '../../protocol/ids.ts';
import { objectMember, type JsonObject } from '../../protocol/json.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { ServerTask } from '../../protocol/task.ts';
import type { ResumePoint } from '../../seal/pointer.ts';
import { asUpstreamFailure, beforeRequest } from '../../model/upstream-failure.ts';
import { mcpOperation, type Span } from '../../ops/tracing.ts';
import { sessionOwnerOf } from '../../sessions/session-owner.ts';
import type { Lease, LeaseRequest } from '../../sessions/lease.ts';
import type {
  CallExchange,
  ExchangeListener,
  UnanswerableCause,
} from '../../upstream/session/call-exchange.ts';
import type { CallerHeaders } from '../../upstream/transport/transport.ts';
import type { Session } from '../../upstream/session/session.ts';
import { isOver } from '../machine/selectors.ts';
import type { OpenRequest } from '../machine/states.ts';
import { Questions } from './questions.ts';
import { resumeRequest, sendRequest, type ExchangingCall } from './upstream-request.ts';

/** Hears what the server says until the exchange ends, or the request is sent once more. */
export interface CallListener extends ExchangeListener {
  /** The session of earlier calls is gone, with what the server kept in it. */
  sessionReplaced(): void;
  /** The session has to be told the roots of the client before it gets the request. */
  rootsWanted(): void;
}

/** Questions that wait until the response to their call has begun. */
interface EarlyQuestions {
  /** What shows each of them. */
  readonly shows: (() => void)[];
  readonly timer: Timer;
}

/** How long a question waits until the response to its call begins, in ms. */
const BEGIN_WAIT_MS = 50;

export class Exchange {
  readonly #call: ExchangingCall;
  #lease: Lease | null = null;
  #request: CallExchange | null = null;
  /** Where the stream is to be resumed; `null` once it is, and for a call that began here. */
  #resumeFrom: ResumePoint | null = null;
  #listener: CallListener | null = null;
  /** Whether the server took the last messages about the call. `null` if there were none. */
  #closing: Promise<boolean> | null = null;
  #hasAnswered = false;
  #hasNewSession = false;
  #early: EarlyQuestions | null = null;
  /** What the server does for the waiters that wait now, as a span; `null` without traces. */
  #work: Span | null = null;
  /** Whether the server is known to have begun the call. */
  hasBegun: boolean;
  serverInfo: JsonObject | null = null;
  /** What the server says of the legacy task as which it runs the call; `null` if it runs it as none. */
  task: ServerTask | null = null;
  /** What the client answered when it was asked for its roots before the request was sent; `null` if it was not asked. */
  roots: JsonRpcReply | null = null;
  /** Why a question was refused that may have been one of this call. */
  unanswerable: UnanswerableCause | null = null;
  /** `null` until the server asks. */
  questions: Questions | null = null;

  constructor(call: ExchangingCall) {
    this.#call = call;
    // The process that had it before heard from the server.
    this.hasBegun = call.origin.isContinued;
  }

  get lease(): Lease | null {
    return this.#lease;
  }

  get session(): Session | null {
    return this.#lease?.session ?? null;
  }

  /** The request in flight; `null` before the session has it, and when it is over. */
  get request(): CallExchange | null {
    return this.#request;
  }

  /** Who hears what the server says now: another one for each time that the request is sent; `null` if the exchange is over. */
  get listener(): CallListener | null {
    return this.#listener;
  }

  /** Whether the request may be sent once more if the server has forgotten the session: it has no answer, and was not sent twice. */
  get mayResend(): boolean {
    return !this.#hasNewSession && !this.#hasAnswered;
  }

  /** Returns where another replica could resume the stream now, or `null` if none could. */
  resumePoint(): ResumePoint | null {
    if (this.#request === null) return this.#resumeFrom;
    const point = this.#request.resumable();
    const home = this.#lease?.home === undefined ? {} : { home: this.#lease.home };
    return point === null ? null : { ...point, ...home, upstreamId: this.#request.id };
  }

  // The request.

  /**
   * Sends the request in the session of the call, or in one from the pool. Never throws.
   * @param freshSession whether a session that was used before must not be taken
   */
  async send(freshSession: boolean, listener: CallListener): Promise<void> {
    const call = this.#call;
    const { request, services } = call;
    const { logLevel, caller } = request;
    this.#listener = listener;
    try {
      if (this.#lease === null) {
        const wanted = this.#leaseRequest(listener, freshSession);
        const lent = services.pool.lease(sessionOwnerOf(request), wanted);
        this.#lease = lent instanceof Promise ? await lent : lent;
      }
      if (!this.#isWanted(listener)) return this.free(true);
      const { session, isReplacement } = this.#lease;
      if (isReplacement) listener.sessionReplaced();
      this.serverInfo = serverInfoOf(session);
      if (logLevel !== null) {
        await session.ensureLogLevel(logLevel, caller.headers);
        if (!this.#isWanted(listener)) return this.free(true);
      }
      if (session.roots !== null) {
        if (this.roots === null && session.roots.areWanted) return listener.rootsWanted();
        await session.roots.tell(this.roots);
        if (!this.#isWanted(listener)) return this.free(true);
      }
      // A tool of a server that runs tool calls as tasks may have to be called as one.
      const runsTasks = call.method === 'tools/call' && session.initializeResult.runsToolTasks;
      const demandsTask = runsTasks ? await services.demandsTask(request) : null;
      if (runsTasks && !this.#isWanted(listener)) return this.free(true);
      const work = this.beginWork();
      this.#request = sendRequest(call, request, this.#lease, demandsTask, work, listener);
    } catch (error) {
      // What fails in a handshake is not a call.
      if (this.#listener === listener)
        listener.notTaken(beforeRequest(asUpstreamFailure(error, true)));
    }
  }

  /** Sends the request once more, in another session: the server has forgotten this one. */
  sendInNewSession(listener: CallListener): Promise<void> {
    this.#hasNewSession = true;
    this.free(false);
    return this.send(true, listener);
  }

  /**
   * Resumes the exchange of another replica. Never throws.
   * @param open the questions that the server still waits for
   */
  async resume(
    from: ResumePoint,
    open: readonly OpenRequest[],
    listener: CallListener,
  ): Promise<void> {
    const { services, request } = this.#call;
    this.#listener = listener;
    this.#resumeFrom = from;
    const ids = open.flatMap(({ id }) => (id === null ? [] : [id]));
    try {
      const wanted = this.#leaseRequest(listener, false);
      this.#lease = await services.pool.adopt(sessionOwnerOf(request), from, wanted);
      if (!this.#isWanted(listener)) return this.leave();
      const { session } = this.#lease;
      this.serverInfo = serverInfoOf(session);
      this.#request = resumeRequest(this.#call, from, session, ids, this.beginWork(), listener);
    } catch (error) {
      if (this.#listener === listener) listener.lost(asUpstreamFailure(error, true));
    }
  }

  /** Forgets the request, which the server has ended. The session is kept for the next one, if it lives. */
  endRequest(): void {
    this.#request?.abandon();
    this.#request = null;
    if (this.session?.dead !== false) this.free(false);
  }

  // Questions and answers.

  /** Returns the questions of the call, which begin with the first that the server asks. */
  asking(): Questions {
    this.questions ??= new Questions({
      names: this.#call.keyNames,
      revealsSession: (text) => this.session?.reveals(text) ?? false,
    });
    return this.questions;
  }

  /** Notes that a question was refused that may have been one of this call. */
  refused(cause: UnanswerableCause): void {
    this.hasBegun = true;
    this.unanswerable = cause;
    this.#lease?.mayHaveAsked();
  }

  /** How many questions wait until the response to the call has begun. */
  get early(): number {
    return this.#early?.shows.length ?? 0;
  }

  /** Shows a question as soon as the response to the call has begun, or anything else happens. */
  showWhenBegun(show: () => void): void {
    if (this.#request === null) return show();
    if (this.#early !== null) return void this.#early.shows.push(show);
    const begin = () => {
      if (this.#early === early) this.showEarly();
    };
    const timer = this.#call.services.clock.setTimer(BEGIN_WAIT_MS, begin);
    const early = { shows: [show], timer };
    this.#early = early;
    this.#request.accepted.then(begin, begin);
  }

  /** Shows the questions that wait for the response to the call, in the order in which they came. */
  showEarly(): void {
    const early = this.#early;
    if (early === null) return;
    this.#early = null;
    early.timer.cancel();
    for (const show of early.shows) show();
  }

  /** Notes that the server took an answer. */
  answered(key: InputKey, reply: JsonRpcReply): void {
    this.#hasAnswered = true;
    // The server can take a question back while the answer is on its way: then there is none to be asked again.
    if (this.#call.origin.mayReplay) this.questions?.remember(key, reply);
  }

  /** Answers a question of the server if it can be reached. */
  answerQuietly(id: ServerRequestId, reply: JsonRpcReply): void {
    this.#request?.respond(id, reply, this.#call.request.caller.headers).catch(() => {});
  }

  // The end.

  /** Answers what the server left open in a call that it has ended. The session is given back after that. */
  cancelOpenQuestions(open: readonly OpenRequest[]): void {
    // The call forgets its questions when it is over.
    const request = this.#request;
    const { questions } = this;
    const { headers } = this.#call.request.caller;
    const closing = this.#closing ?? Promise.resolve(true);
    this.#closing = closing.then(
      (isTaken) => isTaken && answerAll(request, questions?.closeOut(open) ?? [], headers),
    );
  }

  /** Cancels the request for a reason of the gateway. What the server still does is not waited for. */
  stop(reason: string): void {
    if (this.#request !== null) this.#closing = this.#tellCancelled(this.#request, reason);
  }

  /**
   * Cancels the request for the client or the operator, unless another replica has continued the call. Answers the open
   * questions once the server took the cancellation: a tool that goes on without an answer must find that it
   * was cancelled.
   */
  cancel(open: readonly OpenRequest[]): void {
    // Before the request is sent, nothing has to be cancelled, and no end will be reported.
    if (this.#request === null) this.#call.dispatch({ type: 'ended' });
    else this.#closing = this.#cancelIfOurs(this.#request, open);
  }

  /** Frees what is here. The server keeps the session and the call. */
  leave(): void {
    this.#detach()?.leave();
  }

  /**
   * Frees the exchange and gives the session back.
   * @param isClean whether the server had finished with the exchange
   */
  free(isClean: boolean): void {
    const closing = this.#closing;
    const lease = this.#detach();
    if (closing === null) lease?.giveBack(isClean);
    else inBackground(closing.then((isTaken) => lease?.giveBack(isClean && isTaken)));
  }

  // Traces.

  /**
   * Starts the span of what the server does for the waiters that wait, unless it has begun: from the request, or from the answers
   * of a retry, until the reply to the waiters. The time that users take is in no span.
   * @returns `null` without traces
   */
  beginWork(): Span | null {
    const { id, method, loggedTarget, services, request } = this.#call;
    if (this.#work === null && request.span !== undefined) {
      const revision = this.session?.initializeResult.protocolVersion;
      this.#work = request.span.child(
        mcpOperation('client', method, loggedTarget, {
          ...services.peer,
          ...(revision !== undefined && { 'mcp.protocol.version': revision }),
          'mrtr_gateway.call.id': id,
        }),
      );
    }
    return this.#work;
  }

  /** Whether a span of the server's work goes on. */
  get works(): boolean {
    return this.#work !== null;
  }

  /** Ends that span. @param errorType how the call failed; `null` if it did not */
  endWork(round: number, errorType: string | null): void {
    this.#work?.set({ 'mrtr_gateway.round': round });
    this.#work?.end(errorType);
    this.#work = null;
  }

  /**
   * Finds out whether this process still decides about the call: one that hung does not know that another process has taken
   * over the home, and resumed the call in it.
   */
  async isOurs(): Promise<boolean> {
    const { id, isResumable, services } = this.#call;
    if (isResumable && (await this.#lease?.stillHere()) === false) return false;
    return (await services.ownership?.stillHere(homeBornWith(id))) !== false;
  }

  #isWanted(listener: CallListener): boolean {
    return this.#listener === listener && !isOver(this.#call.state);
  }

  #leaseRequest(listener: CallListener, fresh: boolean): LeaseRequest {
    const { method, loggedTarget, request } = this.#call;
    return {
      target: `${method} ${loggedTarget}`,
      wantsLog: request.logLevel !== null,
      fresh,
      isWanted: () => this.#isWanted(listener),
    };
  }

  async #cancelIfOurs(request: CallExchange, open: readonly OpenRequest[]): Promise<boolean> {
    const call = this.#call;
    const { questions } = this;
    const { headers } = call.request.caller;
    if (await this.isOurs()) {
      const { state } = call;
      const isStopped = isOver(state) && state.end.type === 'stopped';
      const who = isStopped ? 'operator' : 'client';
      const isTaken = await this.#tellCancelled(request, `the ${who} cancelled the call`);
      return isTaken && answerAll(request, questions?.closeOut(open) ?? [], headers);
    }
    this.leave();
    call.dispatch({ type: 'ended' });
    return false;
  }

  /** @returns whether the server took the cancellation within the grace */
  #tellCancelled(request: CallExchange, reason: string): Promise<boolean> {
    const { services, request: newest } = this.#call;
    const { promise: expiry, resolve } = Promise.withResolvers<boolean>();
    const timer = services.clock.setTimer(services.limits.cancelGraceMs, () => resolve(false));
    const isTaken = request.cancel(reason, newest.caller.headers);
    return Promise.race([isTaken, expiry]).finally(() => timer.cancel());
  }

  #detach(): Lease | null {
    const lease = this.#lease;
    const request = this.#request;
    this.#listener = null;
    this.#request = null;
    this.#resumeFrom = null;
    this.#lease = null;
    request?.abandon();
    return lease;
  }
}

/** @returns whether the server took every one of these answers */
async function answerAll(
  request: CallExchange | null,
  replies: readonly (readonly [ServerRequestId, JsonRpcReply])[],
  headers: CallerHeaders,
): Promise<boolean> {
  const sent = replies.map(async ([id, reply]) => request?.respond(id, reply, headers));
  const settled = await Promise.allSettled(sent);
  return settled.every(({ status }) => status === 'fulfilled');
}

function serverInfoOf(session: Session): JsonObject | null {
  return objectMember(session.initializeResult.raw, 'serverInfo') ?? null;
}
