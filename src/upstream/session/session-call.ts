/** One interactive call of a session: its listener, its open questions, and what its stream was seen to carry. */
import type { Clock } from '../../lib/clock.ts';
import {
  serverRequestId,
  upstreamRequestId,
  type ServerRequestId,
  type UpstreamRequestId,
} from '../../protocol/ids.ts';
import { objectMember, type JsonObject } from '../../protocol/json.ts';
import type { JsonRpcMessage, JsonRpcReply } from '../../protocol/json-rpc.ts';
import { type BroadcastDetector, isOfSameSession } from '../discovery/broadcast-detector.ts';
import { isProgressToken } from '../../protocol/meta.ts';
import type { UpstreamFailure } from '../failure.ts';
import { relatedTaskOf, withRelatedTask } from '../../protocol/task.ts';
import type { CallerHeaders, Transport } from '../transport/transport.ts';
import type {
  CallTask,
  ExchangeListener,
  ExchangePoint,
  RequestExchange,
  SessionCallOptions,
} from './call-exchange.ts';
import { ProgressHeartbeat } from './keep-alive.ts';
import { isQuestion, unasked } from './questions/routing.ts';

/** What a call needs of its session. */
export interface CallHost {
  readonly clock: Clock;
  readonly transport: Transport;
  readonly detector: BroadcastDetector;
  /** The credentials for messages that serve no request: those of the last caller. */
  readonly headers: CallerHeaders;
  /** Whether a stream was resumed, so that the server may repeat messages. */
  hasResumed: boolean;
  /** Sends `notifications/progress` to the server. */
  sendProgress(params: JsonObject): void;
  /** Replies to a question of a call. @throws UpstreamFailure if the server has not taken it */
  respond(
    call: SessionCall,
    id: ServerRequestId,
    reply: JsonRpcReply,
    headers: CallerHeaders,
  ): Promise<void>;
  /** Returns the other calls that can ask on streams that name no call. */
  callsBeside(id: UpstreamRequestId): readonly UpstreamRequestId[];
  /** The call is being cancelled, and its client is asked nothing more. */
  callCancelled(call: SessionCall): void;
  /** Removes the call from the session. */
  endCall(id: UpstreamRequestId): unknown;
}

/** What to do with a message on the stream of a call. */
export type StreamCheck =
  | { readonly type: 'accepted' | 'ignored' }
  /** The stream carries messages of another call. */
  | { readonly type: 'mixed'; readonly problem: string };

/**
 * What became of a question.
 * - `open`: it has no answer yet; another call can have asked for the roots in its place
 * - `waiting`: the same, and only this call can have asked it
 * - `passed on`: another call asks its client in place of this one
 */
type QuestionState = 'open' | 'waiting' | 'closed' | 'passed on';

const isOpen = (state: QuestionState | undefined) => state === 'open' || state === 'waiting';

/** Once a call is cancelled, a server that asks more than this gets no reply to the rest. */
const MAX_QUESTIONS = 10_000;
const MAX_ID_CHARACTERS = 1_024;

const ACCEPTED: StreamCheck = { type: 'accepted' };
const IGNORED: StreamCheck = { type: 'ignored' };

export class SessionCall implements RequestExchange {
  readonly id: UpstreamRequestId;
  readonly listener: ExchangeListener;
  readonly task: CallTask | null;
  sessionMayBeGone: boolean;
  readonly #host: CallHost;
  /** All questions of the call so far: a resumed stream can repeat them. `null` until the server asks. */
  #questions: Map<ServerRequestId, QuestionState> | null = null;
  #stream: 'original' | 'unverified' | 'verified' | 'shared' = 'original';
  #accepted: PromiseWithResolvers<void> | null = null;
  #isAccepted = false;
  isOver = false;
  #refusal: UpstreamFailure | null = null;
  #heartbeat: ProgressHeartbeat | null = null;
  #askedAtMs = 0;
  /** Whether the server took the cancellation; `null` for a call that is not cancelled. */
  #cancelled: Promise<boolean> | null = null;
  #cancellationTaken = false;

  constructor(host: CallHost, options: SessionCallOptions) {
    this.id = options.id;
    this.listener = options.listener;
    this.task = options.task;
    this.sessionMayBeGone = options.sessionMayBeGone;
    this.#host = host;
    for (const id of options.openQuestions) this.#become(id, 'open');
  }

  get accepted(): Promise<void> {
    if (this.#refusal !== null) return Promise.reject(this.#refusal);
    if (this.#isAccepted || this.isOver) return Promise.resolve();
    return (this.#accepted ??= Promise.withResolvers()).promise;
  }

  /** The server has taken the request. */
  accept(): void {
    this.#isAccepted = true;
    this.#accepted?.resolve();
  }

  /** False while the server can still refuse the request. */
  get isAccepted(): boolean {
    return this.#isAccepted || this.streamResumed;
  }

  /** The server has not taken the request. */
  refuse(failure: UpstreamFailure): void {
    this.#refusal ??= failure;
    this.#accepted?.reject(failure);
  }

  get isCancelled(): boolean {
    return this.#cancelled !== null;
  }

  /** True if the server took the cancellation, and every question of the call was answered or withdrawn. */
  get wasStopped(): boolean {
    return this.#cancellationTaken && !this.hasOpenQuestions;
  }

  get hasOpenQuestions(): boolean {
    return this.openQuestions.length > 0;
  }

  /**
   * When the call last asked its client, in ms of `Clock.elapsed`, if it waits for an answer; or `null`. Another call
   * can have asked for the roots in its place, so they do not count.
   */
  get askedAtMs(): number | null {
    if (this.#questions === null) return null;
    return [...this.#questions.values()].includes('waiting') ? this.#askedAtMs : null;
  }

  get openQuestions(): readonly ServerRequestId[] {
    if (this.#questions === null) return [];
    return [...this.#questions].flatMap(([id, state]) => (isOpen(state) ? [id] : []));
  }

  /** True if the server asked this question in the call. */
  wasAsked(id: ServerRequestId): boolean {
    return this.#questions?.has(id) === true;
  }

  async respond(id: ServerRequestId, reply: JsonRpcReply, headers: CallerHeaders): Promise<void> {
    if (this.#questions?.get(id) !== 'passed on')
      await this.#host.respond(this, id, this.#ofTask(reply), headers);
  }

  async cancel(reason: string, headers: CallerHeaders): Promise<boolean> {
    const params = { requestId: this.id, reason };
    const sent = this.#host.transport.notify('notifications/cancelled', params, headers).then(
      () => true,
      () => false,
    );
    return this.cancelBy(sent);
  }

  cancelBy(sent: Promise<boolean>): Promise<boolean> {
    const isTaken = sent.then((taken) => (this.#cancellationTaken = taken));
    this.#cancelled = isTaken;
    this.#host.callCancelled(this);
    return isTaken;
  }

  resumable(): ExchangePoint | null {
    const point = this.#host.transport.resumable(this.id);
    if (point === null) return null;
    const { lastEventId, ...own } = point;
    const beside = this.#host.callsBeside(this.id);
    const session = beside.length === 0 ? own : { ...own, beside };
    const { task } = this;
    if (task === null) return lastEventId === null ? null : { ...session, lastEventId, task };
    if (lastEventId !== null) return { ...session, lastEventId, task };
    const { taskId, progressToken } = task;
    return taskId === null ? null : { ...session, lastEventId, task: { taskId, progressToken } };
  }

  abandon(): void {
    this.#host.endCall(this.id);
    this.#host.transport.abandon(this.id);
  }

  /** Passes a question of the server on. */
  ask(id: ServerRequestId, method: string, params: JsonObject): void {
    this.sessionMayBeGone = false;
    // An id is used once in a session (basic, "Requests"), so this repeats a question.
    if (this.wasAsked(id)) return;
    const isTooMuch = this.#questions !== null && this.#questions.size >= MAX_QUESTIONS;
    if (this.isCancelled && (isTooMuch || String(id).length > MAX_ID_CHARACTERS)) return;
    this.#become(id, method === 'roots/list' ? 'open' : 'waiting');
    if (method !== 'roots/list') this.#askedAtMs = this.#host.clock.elapsed();
    if (this.#cancelled !== null) return void this.#closeOut(id, method, this.#cancelled);
    this.#startHeartbeat(id, params);
    this.listener.asked(id, method, params);
  }

  /** Another call asks its client this question. */
  passOn(id: ServerRequestId): void {
    const wasOpen = this.#isOpen(id);
    this.#become(id, 'passed on');
    if (!wasOpen) return;
    this.#heartbeat?.stop(id);
    this.listener.withdrawn(id);
  }

  /** Passes a notification on. */
  notify(method: string, params: JsonObject): void {
    this.sessionMayBeGone = false;
    this.listener.notified(method, params);
  }

  /** The server has taken the reply to its question. */
  answered(id: ServerRequestId): void {
    if (this.#isOpen(id)) this.#become(id, 'closed');
    this.#heartbeat?.stop(id);
  }

  /** The server withdraws its question. */
  withdraw(id: ServerRequestId): void {
    if (!this.#isOpen(id)) return;
    this.answered(id);
    this.listener.withdrawn(id);
  }

  /** Stops all timers, and lets go of whoever waits. */
  end(): void {
    this.isOver = true;
    this.#accepted?.resolve();
    this.#heartbeat?.stopAll();
  }

  /** True if the stream was resumed with `Last-Event-ID`. */
  get streamResumed(): boolean {
    return this.#stream !== 'original';
  }

  /** True if the stream was resumed, and no message on it has named the call yet. */
  get streamUnverified(): boolean {
    return this.#stream === 'unverified';
  }

  /** True if the stream was resumed, and carried messages of other requests of the session. */
  get streamShared(): boolean {
    return this.#stream === 'shared';
  }

  /** The stream was resumed with `Last-Event-ID`. */
  resumeStream(): void {
    this.#host.hasResumed = true;
    if (this.#stream !== 'shared') this.#stream = 'unverified';
  }

  /**
   * Checks a message on a resumed stream: an event store that mixes streams delivers messages of other
   * sessions there. A message that names a request has to name this one. A message that names none is
   * accepted from a server that was never seen to mix streams, or after the call was named.
   * @param isOwnId whether the session issued an id in this process
   */
  checkStream(message: JsonRpcMessage, isOwnId: (id: UpstreamRequestId) => boolean): StreamCheck {
    if (this.#stream === 'original') return ACCEPTED;
    const named = requestNamedIn(message);
    if (named !== undefined) {
      if (named === this.id || named === this.task?.progressToken) {
        if (this.#stream === 'unverified') this.#stream = 'verified';
        return ACCEPTED;
      }
      // A store may repeat what the session was sent on other streams, here or in the process that had it before.
      const isId = typeof named === 'number' || typeof named === 'string';
      if (isId && (isOwnId(upstreamRequestId(named)) || isOfSameSession(this.id, named))) {
        this.#stream = 'shared';
        return ACCEPTED;
      }
      const what = message.type === 'response' ? 'the reply to' : 'progress of';
      return { type: 'mixed', problem: `the resumed stream carried ${what} another request` };
    }
    return this.#stream === 'unverified' ? this.#checkUnverified(message) : ACCEPTED;
  }

  #isOpen(id: ServerRequestId): boolean {
    return isOpen(this.#questions?.get(id));
  }

  #become(id: ServerRequestId, state: QuestionState): void {
    this.#questions ??= new Map();
    this.#questions.set(id, state);
  }

  /** Answers a question for which there is no client any more, once the server has taken the cancellation. */
  async #closeOut(id: ServerRequestId, method: string, cancelled: Promise<boolean>): Promise<void> {
    if (!(await cancelled) || !this.#isOpen(id)) return;
    await this.respond(id, unasked(method), this.#host.headers).catch(() => {});
  }

  #startHeartbeat(id: ServerRequestId, params: JsonObject): void {
    const progressToken = objectMember(params, '_meta')?.['progressToken'];
    if (!isProgressToken(progressToken)) return;
    const { clock } = this.#host;
    const taskId = this.task?.taskId ?? null;
    this.#heartbeat ??= new ProgressHeartbeat(clock, (progress) =>
      this.#host.sendProgress(taskId === null ? progress : withRelatedTask(progress, taskId)),
    );
    this.#heartbeat.start(id, progressToken);
  }

  /** All messages about a task name it (tasks, "Associating Task-Related Messages"). An error has no `_meta`. */
  #ofTask(reply: JsonRpcReply): JsonRpcReply {
    const taskId = this.task?.taskId ?? null;
    if (taskId === null || !('result' in reply)) return reply;
    return { result: withRelatedTask(reply.result, taskId) };
  }

  #checkUnverified(message: JsonRpcMessage): StreamCheck {
    if (message.type === 'notification' && message.method === 'notifications/cancelled') {
      const { requestId } = message.params;
      const isId = typeof requestId === 'string' || typeof requestId === 'number';
      // A tool of the TypeScript SDK that is cancelled also takes back what was answered before the stream was resumed.
      return isId && this.wasAsked(serverRequestId(requestId)) ? ACCEPTED : IGNORED;
    }
    if (!this.#host.detector.mixesStreams) return ACCEPTED;
    if (message.type !== 'request') return IGNORED;
    const taskId = this.task?.taskId ?? null;
    if (taskId !== null && relatedTaskOf(message.params) === taskId) return ACCEPTED;
    if (!isQuestion(message.method)) return message.method === 'ping' ? ACCEPTED : IGNORED;
    const problem = 'the server is known to mix streams, and asked before it named the call';
    return { type: 'mixed', problem };
  }
}

/** The request of ours that a message names: that of a reply, or the token of progress. */
function requestNamedIn(message: JsonRpcMessage): unknown {
  if (message.type === 'response') return message.id;
  if (message.type !== 'notification' || message.method !== 'notifications/progress') {
    return undefined;
  }
  return message.params['progressToken'] ?? null;
}
