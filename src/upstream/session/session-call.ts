/** One interactive call of a session: its listener, and its open questions. */
import type { RouteLog } from '../../ops/route-log.ts';
import { inBackground } from '../../lib/background.ts';
import type { Clock, Timer } from '../../lib/clock.ts';
import type { ServerRequestId, UpstreamRequestId } from '../../protocol/ids.ts';
import { objectMember, type JsonObject } from '../../protocol/json.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { BroadcastDetector } from '../discovery/broadcast-detector.ts';
import { isProgressToken } from '../../protocol/meta.ts';
import type { UpstreamFailure } from '../../model/upstream-failure.ts';
import { withRelatedTask } from '../../protocol/task.ts';
import type { CallerHeaders, Transport } from '../transport/transport.ts';
import type {
  CallTask,
  ExchangeListener,
  ExchangePoint,
  RequestExchange,
  SessionCallOptions,
} from './call-exchange.ts';
import { ProgressHeartbeat } from './keep-alive.ts';
import { unasked } from './questions/routing.ts';
import type { SessionRequests } from './requests.ts';
import { ResumedStream } from './resumed-stream.ts';

/** What a call needs of its session. */
export interface CallHost {
  readonly clock: Clock;
  readonly transport: Transport;
  readonly detector: BroadcastDetector;
  readonly requests: Pick<SessionRequests, 'cancel'>;
  readonly questions: {
    /** Returns the other calls that can ask on streams that name no call. */
    callsBeside(id: UpstreamRequestId): readonly UpstreamRequestId[];
    /** A call waits for another answer than before, or for none. */
    callsChanged(): void;
    /** The call is being cancelled: no further questions go to the client. */
    callCancelled(call: SessionCall): void;
  };
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
  /** Removes the call from the session. */
  endCall(id: UpstreamRequestId): unknown;
}

/**
 * What became of a question.
 * - `open`: it has no answer yet; another call can have asked for the roots in its place, or the answer is on its way
 * - `waiting`: the client has not answered it, and only this call can have asked it
 * - `passed on`: another call asks its client in place of this one
 */
type QuestionState = 'open' | 'waiting' | 'closed' | 'passed on';

const isOpen = (state: QuestionState | undefined) => state === 'open' || state === 'waiting';

/**
 * How long servers wait for an answer, in ms: the default of the SDKs. Some tell nobody that they have given a question up, and
 * one that was long on its way comes when its call is about to end, or has ended.
 */
export const ANSWER_WAIT_MS = 60_000;
/**
 * How long a call can still ask after the server was told to stop it, or has given up to wait for an answer, in ms. A receiver
 * of `notifications/cancelled` SHOULD stop (cancellation, "Behavior Requirements"), but tools of the TypeScript SDK run on unless
 * they look at their signal, and nothing reports their end. The time is a trade: meanwhile the questions of other calls are
 * declined, and who cancels a call often makes another. So it is shorter where the tool has ended in this session before, and
 * never asked.
 */
export const STOPPED_CALL_MS = 15_000;
/** Once a call is cancelled, a server that asks more than this gets no reply to the rest. */
const MAX_QUESTIONS = 10_000;
const MAX_ID_CHARACTERS = 1_024;
/** After this time without the head of a response, something may hold it back. Most servers send it at once. In ms. */
const HEAD_EXPECTED_MS = 30_000;

export class SessionCall implements RequestExchange {
  readonly id: UpstreamRequestId;
  readonly listener: ExchangeListener;
  readonly task: CallTask | null;
  /**
   * True if an error reply to the call may mean that the server no longer knows the session. A session that was opened for this
   * call is known.
   */
  sessionMayBeGone: boolean;
  /** `null` until the stream of the call is resumed. */
  resumedStream: ResumedStream | null = null;
  readonly #host: CallHost;
  readonly #isSilent: boolean;
  /** All questions of the call so far: a resumed stream can repeat them. `null` until the server asks. */
  #questions: Map<ServerRequestId, QuestionState> | null = null;
  /** Those that came on a stream of the session. */
  #beside: Set<ServerRequestId> | null = null;
  /** How many of them are `waiting`. */
  #waiting = 0;
  #accepted: PromiseWithResolvers<void> | null = null;
  #isAccepted = false;
  #expectation: Timer | null = null;
  isOver = false;
  /** Set if the call was left while it waits for an answer, which its client can still give where it is resumed. */
  isLeft = false;
  #refusal: UpstreamFailure | null = null;
  #heartbeat: ProgressHeartbeat | null = null;
  /** When it last asked, in ms of `Clock.elapsed`. Another call can have asked for the roots in its place, so they do not count. */
  #askedAtMs = 0;
  /** Whether nothing shows so far that the turn of its last question is over; that of one on its own stream is. */
  #isInTurn = false;
  /** Counts its turns: each answer begins another one. */
  #turn = 0;
  /** When the call began here, or last stopped waiting for answers. */
  #worksSinceMs: number;
  /** Whether the server took the cancellation; `null` for a call that is not cancelled. */
  #cancelled: Promise<boolean> | null = null;
  #cancellationTaken = false;

  constructor(host: CallHost, options: SessionCallOptions, sessionMayBeGone: boolean) {
    this.id = options.id;
    this.listener = options.listener;
    this.task = options.task ?? null;
    this.sessionMayBeGone = sessionMayBeGone;
    this.#host = host;
    this.#isSilent = options.isSilent === true;
    this.#worksSinceMs = host.clock.elapsed();
    for (const id of options.openQuestions ?? []) this.#become(id, 'open');
  }

  get accepted(): Promise<void> {
    if (this.#refusal !== null) return Promise.reject(this.#refusal);
    if (this.#isAccepted || this.isOver) return Promise.resolve();
    return (this.#accepted ??= Promise.withResolvers()).promise;
  }

  /** The request is on its way. */
  wasSent(log: RouteLog | undefined): void {
    this.listener.sent?.();
    if (log === undefined || this.isAccepted || this.isOver) return;
    const { clock } = this.#host;
    this.#expectation = clock.setTimer(HEAD_EXPECTED_MS, () =>
      log.once('upstream.held_back', { ms: HEAD_EXPECTED_MS }),
    );
  }

  /** The server has taken the request. */
  accept(): void {
    this.#isAccepted = true;
    this.#expectation?.cancel();
    this.#accepted?.resolve();
  }

  /** False while the server can still refuse the request. */
  get isAccepted(): boolean {
    return this.#isAccepted || this.resumedStream !== null;
  }

  /** The server has not taken the request. */
  refuse(failure: UpstreamFailure): void {
    this.#refusal ??= failure;
    this.#expectation?.cancel();
    this.#accepted?.reject(failure);
  }

  get isCancelled(): boolean {
    return this.#cancelled !== null;
  }

  /** True if the server took the cancellation, and every question of the call was answered or withdrawn. */
  get wasStopped(): boolean {
    return this.#cancellationTaken && !this.hasOpenQuestions;
  }

  /** True if nothing says that the call asks: others of its target have ended in this session without a question. */
  get isSilent(): boolean {
    return this.#isSilent && this.#questions === null;
  }

  /** True if the call can have asked, waited as long as servers do, and given up, without a word about it so far. */
  get mayHaveGivenUp(): boolean {
    return this.#host.clock.elapsed() - this.#worksSinceMs >= ANSWER_WAIT_MS;
  }

  get hasOpenQuestions(): boolean {
    return this.openQuestions.length > 0;
  }

  /** Since when the call waits for an answer, in ms of `Clock.elapsed`; `null` if it works. */
  get waitsSinceMs(): number | null {
    return this.#waiting > 0 ? this.#askedAtMs : null;
  }

  /** The turn in which the call has just asked beside the streams, and can ask more; `null` if it can not. */
  get turn(): number | null {
    return this.#waiting > 0 && this.#isInTurn ? this.#turn : null;
  }

  /** All that the call asks in this turn has come. */
  turnOver(turn: number): void {
    if (turn === this.#turn) this.#isInTurn = false;
  }

  /**
   * Whether the call can ask now on a stream that names no call: it works, has just asked, or can have given up to wait for an
   * answer. A tool that was still not heard of a minute after that waits for longer than others.
   */
  get canAsk(): boolean {
    if (this.#waiting === 0 || this.#isInTurn) return true;
    const waitsForMs = this.#host.clock.elapsed() - this.#askedAtMs;
    return this.mayHaveGivenUp && waitsForMs < ANSWER_WAIT_MS + STOPPED_CALL_MS;
  }

  get openQuestions(): readonly ServerRequestId[] {
    if (this.#questions === null) return [];
    return [...this.#questions].flatMap(([id, state]) => (isOpen(state) ? [id] : []));
  }

  get asksBeside(): boolean {
    return this.openQuestions.some((id) => this.#beside?.has(id));
  }

  /** True if the server asked this question in the call. */
  wasAsked(id: ServerRequestId): boolean {
    return this.#questions?.has(id) === true;
  }

  /** True if the server, where it counts its questions, has asked the call another one after this. */
  wasAskedSince(id: ServerRequestId): boolean {
    if (typeof id !== 'number') return false;
    for (const asked of this.#questions?.keys() ?? []) {
      if (typeof asked === 'number' && asked > id) return true;
    }
    return false;
  }

  async respond(id: ServerRequestId, reply: JsonRpcReply, headers: CallerHeaders): Promise<void> {
    const state = this.#questions?.get(id);
    if (state === 'passed on') return;
    const workedSinceMs = this.#worksSinceMs;
    this.#turn += 1;
    // The server can go on with the call, and ask more, before it responds to the answer.
    if (state === 'waiting') this.#become(id, 'open');
    try {
      await this.#host.respond(this, id, this.#ofTask(reply), headers);
    } catch (error) {
      if (state === 'waiting' && this.#isOpen(id)) {
        this.#become(id, state);
        this.#worksSinceMs = workedSinceMs;
      }
      throw error;
    }
  }

  cancel(reason: string, headers: CallerHeaders): Promise<boolean> {
    return this.cancelBy(this.#host.requests.cancel(this.id, reason, headers));
  }

  cancelBy(sent: Promise<boolean>): Promise<boolean> {
    const isTaken = sent.then((taken) => (this.#cancellationTaken = taken));
    this.#cancelled = isTaken;
    this.#host.questions.callCancelled(this);
    return isTaken;
  }

  resumable(): ExchangePoint | null {
    const point = this.#host.transport.resumable(this.id);
    if (point === null) return null;
    const { lastEventId, ...own } = point;
    const beside = this.#host.questions.callsBeside(this.id);
    const session = beside.length === 0 ? own : { ...own, beside };
    const { task } = this;
    if (task === null) return lastEventId === null ? null : { ...session, lastEventId, task };
    if (lastEventId !== null) return { ...session, lastEventId, task };
    const { taskId, progressToken } = task;
    return taskId === null ? null : { ...session, lastEventId, task: { taskId, progressToken } };
  }

  abandon(): void {
    this.isLeft = !this.isOver && !this.isCancelled && this.#waiting > 0;
    this.#host.endCall(this.id);
    this.#host.transport.abandon(this.id);
  }

  /**
   * Passes a question of the server on.
   * @param cameOn the stream. A question beside one on the stream of the call is that of another call (ADR 48); a resumed stream can
   * carry what is of another call.
   */
  ask(
    id: ServerRequestId,
    method: string,
    params: JsonObject,
    cameOn: 'own' | 'resumed' | 'session' = 'session',
  ): void {
    this.sessionMayBeGone = false;
    // An id is used once in a session (basic, "Requests"), so this repeats a question.
    if (this.wasAsked(id)) return;
    const isTooMuch = this.#questions !== null && this.#questions.size >= MAX_QUESTIONS;
    if (this.isCancelled && (isTooMuch || String(id).length > MAX_ID_CHARACTERS)) return;
    if (method !== 'roots/list') {
      this.#askedAtMs = this.#host.clock.elapsed();
      this.#isInTurn = cameOn !== 'own';
    }
    if (cameOn === 'session') (this.#beside ??= new Set()).add(id);
    this.#become(id, method === 'roots/list' ? 'open' : 'waiting');
    if (this.#cancelled !== null) {
      return inBackground(this.#cancelOpenQuestions(id, method, this.#cancelled));
    }
    this.#startHeartbeat(id, params);
    this.listener.asked(id, method, params);
  }

  /** Another call asks its client this question in its place, and this one must not answer it any more. */
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

  /** Stops all timers, and releases whoever waits. */
  end(): void {
    this.isOver = true;
    this.#expectation?.cancel();
    this.#accepted?.resolve();
    this.#heartbeat?.stopAll();
  }

  /** The stream was resumed with `Last-Event-ID`. */
  resumeStream(): void {
    this.#host.hasResumed = true;
    if (this.resumedStream !== null) return this.resumedStream.resumedAgain();
    this.resumedStream = new ResumedStream(this, this.#host.detector);
  }

  #isOpen(id: ServerRequestId): boolean {
    return isOpen(this.#questions?.get(id));
  }

  #become(id: ServerRequestId, state: QuestionState): void {
    this.#questions ??= new Map();
    const waited = this.#questions.get(id) === 'waiting';
    if (waited) {
      this.#waiting -= 1;
      if (this.#waiting === 0) this.#worksSinceMs = this.#host.clock.elapsed();
    }
    if (state === 'waiting') this.#waiting += 1;
    this.#questions.set(id, state);
    if (waited || state === 'waiting') this.#host.questions.callsChanged();
  }

  /** Answers a question for which there is no client any more, once the server has taken the cancellation. */
  async #cancelOpenQuestions(
    id: ServerRequestId,
    method: string,
    cancelled: Promise<boolean>,
  ): Promise<void> {
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
}
