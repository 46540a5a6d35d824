/** What the two halves of a session share: `session.ts` extends it to send, `incoming.ts` receives. */
import { TRAITS } from '../transport/traits.ts';
import type { Clock, Closed, Timer } from '../../lib/clock.ts';
import { ReleasingMap } from '../../lib/containers.ts';
import { Semaphore } from '../../lib/semaphore.ts';
import type { ServerRequestId, UpstreamRequestId } from '../../protocol/ids.ts';
import type { ClientProfile } from '../../protocol/translate/client-profile.ts';
import type { ExactNumber, JsonObject } from '../../protocol/json.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import {
  type AskingStyleDetector,
  type BroadcastDetector,
  SessionIds,
} from '../discovery/broadcast-detector.ts';
import { asUpstreamFailure, beforeRequest, UpstreamFailure } from '../../model/upstream-failure.ts';
import {
  type CallerHeaders,
  type Transport,
  type TransportListener,
} from '../transport/transport.ts';
import type { SessionCallOptions } from './call-exchange.ts';
import { isSessionError } from '../http/error-response.ts';
import { CallerRoots, type RootsHabit } from './caller-roots.ts';
import type { KeepAlive } from './keep-alive.ts';
import { OwnReplies } from './own-replies.ts';
import { SessionRequests } from './requests.ts';
import { SessionCall, type CallHost } from './session-call.ts';
import { SessionQuestions } from './questions/session-questions.ts';
import { UrlVisits } from './questions/url-visits.ts';

/** What a subscriber is told of a session. */
export interface ChangeListener {
  /** A list changed, or a resource that was subscribed to. */
  changed(method: string, params: JsonObject): void;
  /** The stream of the server was interrupted, so that changes may have been missed. */
  missed(): void;
  /** No more changes will be told. */
  lost(failure: UpstreamFailure): void;
}

/** Connects a session with its server. The transport tells the listener what it receives. */
export type Connect = (listener: TransportListener) => Transport;

export interface SessionStateOptions {
  readonly profile: ClientProfile;
  readonly headers: CallerHeaders;
  readonly requestTimeoutMs: number;
  readonly detector: BroadcastDetector;
  readonly askingStyle: AskingStyleDetector;
  /** How the server takes the roots of its callers; absent if it does not learn them. */
  readonly rootsHabit?: RootsHabit | undefined;
  /** Called when the server no longer knows the session. */
  readonly onGone?: () => void;
}

/** The most answers to questions of calls that are under way. The others wait. */
const MAX_ANSWERS = 64;
/** How long calls can go on whose server no longer knows their session, and keeps their streams open, in ms. */
const LAST_CALLS_MS = 300_000;

export class SessionState implements CallHost {
  readonly clock: Clock;
  readonly transport: Transport;
  readonly identity = new SessionIds();
  readonly detector: BroadcastDetector;
  readonly askingStyle: AskingStyleDetector;
  readonly requests: SessionRequests;
  readonly calls = new ReleasingMap<UpstreamRequestId, SessionCall>();
  readonly questions: SessionQuestions;
  /** `null` if the server does not learn those of the caller. */
  readonly roots: CallerRoots | null;
  standalone: 'never' | 'open' | 'lost' = 'never';
  /** The id of an `initialize` without a reply. */
  initializeId: UpstreamRequestId | null = null;
  /** The server has replied to a request after `initialize`, so it knew the session once. */
  wasKnown = false;
  hasResumed = false;
  pings: KeepAlive | null = null;
  /** Called once, when the session can no longer be used. */
  onOver: () => void = () => {};
  readonly #onGone: (() => void) | undefined;
  readonly #answers = new Semaphore(MAX_ANSWERS);
  readonly #ownReplies: OwnReplies;
  #headers: CallerHeaders;
  #failure: UpstreamFailure | null = null;
  #hasCarriedCall = false;
  #changeListener: ChangeListener | null = null;
  #visits: UrlVisits | null = null;
  #lastCalls: Timer | null = null;

  /** @param listener returns the receiving half */
  protected constructor(
    connect: Connect,
    listener: (state: SessionState) => TransportListener,
    options: SessionStateOptions,
    clock: Clock,
  ) {
    this.clock = clock;
    this.detector = options.detector;
    this.askingStyle = options.askingStyle;
    this.#headers = options.headers;
    this.#onGone = options.onGone;
    this.transport = connect(listener(this));
    this.#ownReplies = new OwnReplies(
      (id, reply) => this.transport.respond(id, reply, this.#headers, null),
      () => this.#failure !== null,
      clock,
    );
    this.requests = new SessionRequests(this.transport, options.requestTimeoutMs, clock);
    this.questions = new SessionQuestions(this);
    const { rootsHabit, profile } = options;
    // A bridge that broadcasts asks one caller for the roots of another.
    const { mayBroadcast } = TRAITS[this.transport.kind];
    const learnsRoots = rootsHabit !== undefined && profile.roots && !mayBroadcast;
    this.roots = learnsRoots ? new CallerRoots(this, rootsHabit) : null;
  }

  /** The credentials for messages that serve no request: those of the last caller. */
  get headers(): CallerHeaders {
    return this.#headers;
  }

  /** The last caller has these. */
  useHeaders(headers: CallerHeaders): void {
    this.#headers = headers;
    this.transport.useHeaders?.(headers);
    this.pings?.renewed();
  }

  /** Issues the id of a request of this session. */
  issueId(): UpstreamRequestId {
    return this.detector.issueId(this.identity);
  }

  /** Why the session can no longer be used; `null` while it can. */
  get failure(): UpstreamFailure | null {
    return this.#failure;
  }

  /** @throws UpstreamFailure if the session can no longer be used */
  assertAlive(): void {
    if (this.#failure !== null) throw beforeRequest(this.#failure);
  }

  /** True if an error reply to a request may mean that the server no longer knows the session. */
  get mayBeGone(): boolean {
    return this.wasKnown || this.#hasCarriedCall;
  }

  get standaloneStreamOpen(): boolean {
    return this.standalone === 'open';
  }

  /** Whether what belongs to no request can come: the standalone stream is open, or it opens with the first message. */
  get canPush(): boolean {
    return this.standaloneStreamOpen || this.transport.standaloneHeld;
  }

  /** Whether what belongs to no request cannot come for now, and can once the standalone stream is open. */
  get canPushLater(): boolean {
    return !this.canPush && this.transport.standaloneDue;
  }

  get visits(): UrlVisits {
    return (this.#visits ??= new UrlVisits());
  }

  get changeListener(): ChangeListener | null {
    return this.#changeListener;
  }

  /** Tells the listener of changes at the server from now on. */
  observe(listener: ChangeListener): void {
    this.#changeListener = listener;
    if (this.#failure !== null) this.loseChanges(this.#failure);
  }

  /** Tells the listener, once, that no more changes will be told. */
  loseChanges(failure: UpstreamFailure): void {
    const listener = this.#changeListener;
    this.#changeListener = null;
    listener?.lost(failure);
  }

  addCall(options: SessionCallOptions, headers: CallerHeaders): SessionCall {
    const call = new SessionCall(this, options, this.#hasCarriedCall);
    const { id, task } = call;
    this.calls.set(id, call);
    this.questions.callBegan(id);
    this.#hasCarriedCall = true;
    this.detector.callBegan(id, this.identity);
    if (task !== null) this.detector.tokenHeld(task.progressToken, this.identity);
    this.useHeaders(headers);
    return call;
  }

  /**
   * Removes a call.
   * @param isOver whether the server no longer runs the call, as after its reply
   * @returns the call, or `null` if it had ended before
   */
  endCall(id: UpstreamRequestId, isOver = false): SessionCall | null {
    const call = this.calls.get(id);
    if (call === undefined) {
      if (isOver) this.questions.lateReply(id);
      return null;
    }
    this.calls.delete(id);
    this.detector.callEnded(id, isOver);
    if (call.task !== null) this.detector.tokenDropped(call.task.progressToken);
    call.end();
    this.questions.callLeft(call, isOver);
    return call;
  }

  async respond(
    call: SessionCall,
    id: ServerRequestId,
    reply: JsonRpcReply,
    headers: CallerHeaders,
  ): Promise<void> {
    let sharing = this.questions.sharing(call, id);
    while (sharing instanceof Promise) {
      // The answer of another call is the reply to this question as well.
      if (await sharing) return call.answered(id);
      this.assertAlive();
      sharing = this.questions.sharing(call, id);
    }
    const [first = id] = sharing ?? [];
    const turn = this.#answers.enter();
    try {
      if (turn !== null) {
        await turn;
        this.assertAlive();
      }
      if (turn === null || !call.isOver) {
        await this.transport.respond(first, reply, headers, call.id);
      }
    } catch (error) {
      this.questions.notTaken(call);
      throw this.noted(asUpstreamFailure(error, true));
    } finally {
      this.#answers.leave();
    }
    call.answered(id);
    this.useHeaders(headers);
    if (sharing !== null) this.questions.shared(call, sharing, reply);
  }

  /** Replies to a request of the server. @param onRefused called if the server does not take the reply */
  reply(id: ServerRequestId | ExactNumber, reply: JsonRpcReply, onRefused?: () => void): void {
    this.#ownReplies.send(id, reply, onRefused);
  }

  /** Ends a call, or fails a request, that the server has not taken. */
  refuseCall(id: UpstreamRequestId, failure: UpstreamFailure): void {
    const call = this.calls.get(id);
    if (call === undefined) return this.requests.settle(id, failure);
    call.refuse(failure);
    this.endCall(id, !failure.details.mayHaveActed);
    this.noted(failure);
    call.listener.notTaken(failure);
  }

  /** Ends a call without a reply, or fails a request. */
  loseCall(id: UpstreamRequestId, failure: UpstreamFailure): void {
    const call = this.endCall(id);
    if (call === null) return this.requests.settle(id, failure);
    this.noted(failure);
    // The server had taken the call, and may have worked on it.
    call.listener.lost(failure.with({ mayHaveActed: true }));
  }

  sendProgress(params: JsonObject): void {
    if (this.#failure !== null) return;
    this.transport.notify('notifications/progress', params, this.#headers).catch(() => {});
  }

  /**
   * Marks the session as unusable if the failure means that. Its calls are not judged by it: each is lost when its
   * stream ends. Returns the failure.
   */
  noted(failure: UpstreamFailure): UpstreamFailure {
    if (failure.code !== 'session_gone') return failure;
    // The one stream may stay open, and nothing else would end the calls on it.
    if (!TRAITS[this.transport.kind].namesTheCall && this.#failure === null) this.fail(failure);
    const isNew = this.#failure === null;
    // Who hears of it can end the session, and with it this timer.
    if (isNew) this.#lastCalls = this.clock.setTimer(LAST_CALLS_MS, () => this.fail(failure));
    this.#over(failure);
    this.loseChanges(failure);
    if (isNew) this.#onGone?.();
    return failure;
  }

  /**
   * Sends a request that cannot lead to questions, and waits for its reply.
   * @param signal aborts when the reply is no longer wanted
   * @throws UpstreamFailure if there is no reply within `requestTimeoutMs`
   * @throws ClientLeft if the signal aborts first
   */
  async request(
    method: string,
    params: JsonObject,
    headers: CallerHeaders,
    signal?: Closed,
  ): Promise<JsonRpcReply> {
    this.assertAlive();
    // No tool replies to a ping, so its error is about the session.
    const mayBeGone = this.mayBeGone || method === 'ping';
    const id = this.issueId();
    if (method === 'initialize') this.initializeId = id;
    const outcome = await this.requests.send({ id, method, params }, headers, signal);
    if (outcome instanceof UpstreamFailure) throw this.noted(outcome);
    if ('error' in outcome && mayBeGone && isSessionError(outcome.error)) {
      throw this.noted(sessionUnknown());
    }
    this.wasKnown ||= method !== 'initialize';
    return outcome;
  }

  /** Asks the server whether it still knows the session. @returns false if the session is over */
  async confirm(): Promise<boolean> {
    await this.request('ping', {}, this.#headers).catch(() => {});
    return this.#failure === null;
  }

  /** Ends everything that runs in the session. */
  fail(failure: UpstreamFailure): void {
    this.#lastCalls?.cancel();
    this.#over(failure);
    this.pings?.set(false);
    this.questions.clear();
    this.requests.settleAll(failure);
    const { namesTheCall } = TRAITS[this.transport.kind];
    for (const [id, { isAccepted }] of [...this.calls]) {
      // A request on its way is refused by itself, and then it can be sent again in a new session.
      const isRefused = failure.code === 'session_gone' && !isAccepted;
      if (!isRefused || !namesTheCall) this.loseCall(id, failure);
    }
    this.loseChanges(failure);
  }

  /** Stops what the session does by itself, because it is closed here. Its calls are not told. */
  end(failure: UpstreamFailure): void {
    this.#changeListener = null;
    this.#lastCalls?.cancel();
    this.pings?.set(false);
    this.questions.clear();
    for (const call of this.calls.values()) call.end();
    this.requests.settleAll(this.#over(failure));
  }

  /** The session cannot be used from here on. @returns why: the first reason counts */
  #over(failure: UpstreamFailure): UpstreamFailure {
    if (this.#failure === null) {
      this.#failure = failure;
      this.onOver();
    }
    return this.#failure;
  }
}

/** The failure of a request whose error reply means that the server does not know the session. */
export function sessionUnknown(): UpstreamFailure {
  return new UpstreamFailure('session_gone', 'the server no longer knows the session', {
    mayHaveActed: false,
  });
}
