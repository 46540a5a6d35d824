/** What the two halves of a session share: `session.ts` sends, `incoming.ts` receives. */
import type { Clock } from '../../lib/clock.ts';
import type { ServerRequestId, UpstreamRequestId } from '../../protocol/ids.ts';
import type { ExactNumber, JsonObject } from '../../protocol/json/json.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { AskingStyleDetector } from '../asking-style.ts';
import type { BroadcastDetector } from '../broadcast-detector.ts';
import { asUpstreamFailure, beforeRequest, UpstreamFailure } from '../failure.ts';
import type { CallerHeaders, Transport, TransportListener } from '../transport/transport.ts';
import type { ExchangeListener } from './exchange.ts';
import type { KeepAlive } from './keep-alive.ts';
import { HeldQuestions } from './held-questions.ts';
import { SessionRequests } from './requests.ts';
import { BROADCAST_REFUSAL, unasked } from './routing.ts';
import { SessionCall, type CallHost } from './session-call.ts';
import { SharedRoots } from './shared-roots.ts';
import { UnfinishedCalls } from './unfinished-calls.ts';
import { UrlVisits } from './url-visits.ts';

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
  readonly headers: CallerHeaders;
  readonly requestTimeoutMs: number;
  readonly detector: BroadcastDetector;
  readonly askingStyle: AskingStyleDetector;
}

export class SessionState implements CallHost {
  readonly clock: Clock;
  readonly transport: Transport;
  readonly detector: BroadcastDetector;
  readonly askingStyle: AskingStyleDetector;
  readonly requests: SessionRequests;
  readonly calls = new Map<UpstreamRequestId, SessionCall>();
  readonly unfinished: UnfinishedCalls;
  readonly held: HeldQuestions<SessionCall>;
  readonly roots = new SharedRoots<SessionCall>(this.calls);
  standalone: 'never' | 'open' | 'lost' = 'never';
  /** The id of an `initialize` without a reply. */
  initializeId: UpstreamRequestId | null = null;
  /** The server has replied to a request after `initialize`, so it knew the session once. */
  wasKnown = false;
  keepAlive: KeepAlive | null = null;
  #headers: CallerHeaders;
  #failure: UpstreamFailure | null = null;
  #hasCarriedCall = false;
  #changeListener: ChangeListener | null = null;
  #visits: UrlVisits | null = null;

  /** @param listener returns the receiving half */
  constructor(
    connect: Connect,
    listener: (state: SessionState) => TransportListener,
    options: SessionStateOptions,
    clock: Clock,
  ) {
    this.clock = clock;
    this.detector = options.detector;
    this.askingStyle = options.askingStyle;
    this.unfinished = new UnfinishedCalls(clock);
    this.held = new HeldQuestions({
      clock,
      running: this.calls,
      unfinished: this.unfinished,
      ask: (call, { id, method, params }) => {
        if (this.detector.isOnlyCall(call.id)) return call.ask(id, method, params);
        // While the question was held, the server was seen to broadcast.
        this.refuse(id, BROADCAST_REFUSAL);
        call.listener.unanswerable(method, 'broadcast');
      },
      decline: ({ id, method }, mayHaveAsked) => {
        this.refuse(id, unasked(method));
        for (const call of mayHaveAsked) call.listener.unanswerable(method, 'ambiguous');
      },
    });
    this.#headers = options.headers;
    this.transport = connect(listener(this));
    this.requests = new SessionRequests(this.transport, options.requestTimeoutMs, clock);
  }

  /** The credentials for messages that serve no request: those of the last caller. */
  get headers(): CallerHeaders {
    return this.#headers;
  }

  useHeaders(headers: CallerHeaders): void {
    this.#headers = headers;
    this.keepAlive?.renewed();
  }

  /** Why the session cannot be used any more; `null` while it can. */
  get failure(): UpstreamFailure | null {
    return this.#failure;
  }

  /** @throws UpstreamFailure if the session cannot be used any more */
  assertAlive(): void {
    if (this.#failure !== null) throw beforeRequest(this.#failure);
  }

  /** True if an error reply to a request may mean that the server does not know the session any more. */
  get mayBeGone(): boolean {
    return this.wasKnown || this.#hasCarriedCall;
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

  addCall(
    id: UpstreamRequestId,
    listener: ExchangeListener,
    headers: CallerHeaders,
    openQuestions: readonly ServerRequestId[] = [],
  ): SessionCall {
    const options = { id, listener, sessionMayBeGone: this.#hasCarriedCall, openQuestions };
    const call = new SessionCall(this, options);
    this.calls.set(id, call);
    this.unfinished.delete(id);
    this.#hasCarriedCall = true;
    this.detector.callBegan(id, this);
    this.useHeaders(headers);
    return call;
  }

  /**
   * Removes a call.
   * @param isOver whether the server does not run the call any more, as after its reply
   * @returns the call, or `null` if it had ended before
   */
  endCall(id: UpstreamRequestId, isOver = false): SessionCall | null {
    const call = this.calls.get(id);
    if (call === undefined) {
      if (isOver) this.#hasEnded(id);
      return null;
    }
    this.calls.delete(id);
    this.detector.callEnded(id, isOver);
    call.end();
    for (const other of this.roots.ended(call)) this.refuse(other, unasked('roots/list'));
    if (isOver) this.#hasEnded(id);
    else this.#mayRunOn(call);
    return call;
  }

  callCancelled(call: SessionCall): void {
    this.roots.cancelled(call);
  }

  async respond(
    call: SessionCall,
    id: ServerRequestId,
    reply: JsonRpcReply,
    headers: CallerHeaders,
  ): Promise<void> {
    const roots = this.roots.answeredBy(call, id);
    const [first, ...others] = roots ?? [id];
    try {
      if (first !== undefined) await this.transport.respond(first, reply, headers);
    } catch (error) {
      throw this.noted(asUpstreamFailure(error, true));
    }
    call.answered(id);
    this.useHeaders(headers);
    if (roots !== null) {
      for (const other of [...others, ...this.roots.close(roots)]) this.refuse(other, reply);
    }
  }

  /** Replies to a request of the server. Whether the server takes it does not matter to anybody here. */
  refuse(id: ServerRequestId | ExactNumber, reply: JsonRpcReply): void {
    this.transport.respond(id, reply, this.#headers).catch(() => {});
  }

  /** The server takes a question back. */
  withdraw(id: ServerRequestId): void {
    this.held.withdraw(id);
    if (this.roots.withdraw(id)) for (const call of this.calls.values()) call.withdraw(id);
  }

  /** Ends a call, or fails a request, that the server has not taken. */
  refuseCall(id: UpstreamRequestId, failure: UpstreamFailure): void {
    const call = this.calls.get(id);
    if (call === undefined) return this.requests.settle(id, failure);
    call.refuse(failure);
    this.endCall(id, !failure.details.mayHaveActed);
    this.noted(failure);
  }

  /** Ends a call without a reply, or fails a request. */
  loseCall(id: UpstreamRequestId, failure: UpstreamFailure): void {
    const call = this.endCall(id);
    if (call === null) return this.requests.settle(id, failure);
    this.noted(failure);
    // The server had taken the call, and may have worked on it.
    const { code, message, details } = failure;
    call.listener.lost(new UpstreamFailure(code, message, { ...details, mayHaveActed: true }));
  }

  sendProgress(params: JsonObject): void {
    if (this.#failure !== null) return;
    this.transport.notify('notifications/progress', params, this.#headers).catch(() => {});
  }

  /** Marks the session as unusable if the failure means that. Returns the failure. */
  noted(failure: UpstreamFailure): UpstreamFailure {
    if (failure.code !== 'session_gone') return failure;
    // The one stream of HTTP+SSE may stay open, and nothing else would end the calls on it.
    if (this.transport.kind === 'http-sse' && this.#failure === null) this.fail(failure);
    this.#failure ??= failure;
    this.loseChanges(failure);
    return failure;
  }

  /** Ends everything that runs in the session. */
  fail(failure: UpstreamFailure): void {
    this.#failure ??= failure;
    this.keepAlive?.set(false);
    this.#forgetQuestions();
    this.requests.settleAll(failure);
    for (const id of [...this.calls.keys()]) this.loseCall(id, failure);
    this.loseChanges(failure);
  }

  /** Stops what the session does by itself, because it is closed here. Its calls are not told. */
  end(failure: UpstreamFailure): void {
    this.#changeListener = null;
    this.keepAlive?.set(false);
    this.#forgetQuestions();
    for (const call of this.calls.values()) call.end();
    this.#failure ??= failure;
    this.requests.settleAll(this.#failure);
  }

  #hasEnded(id: UpstreamRequestId): void {
    this.unfinished.delete(id);
    this.held.ended(id, true);
  }

  #mayRunOn(call: SessionCall): void {
    this.unfinished.add(call);
    this.held.ended(call.id, false);
  }

  #forgetQuestions(): void {
    this.held.clear();
    this.roots.clear();
  }
}
