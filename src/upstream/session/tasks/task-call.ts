/** A tool call that the server runs as a task (2025-11-25, "Tasks"). Its stream is that of `tasks/result`, asked for again if it breaks. */
import { inBackground } from '../../../lib/background.ts';
import { type Clock, Closing } from '../../../lib/clock.ts';
import type { ServerRequestId, UpstreamRequestId } from '../../../protocol/ids.ts';
import { objectMember, type JsonObject } from '../../../protocol/json.ts';
import { LegacyErrorCode, type JsonRpcReply } from '../../../protocol/json-rpc.ts';
import {
  demandsTask,
  isTerminal,
  readCreatedTask,
  readServerTask,
  TASK_STATUS,
  taskIdOf,
  withoutTaskId,
} from '../../../protocol/task.ts';
import { asUpstreamFailure, type UpstreamFailure } from '../../../model/upstream-failure.ts';
import type { CallerHeaders } from '../../transport/transport.ts';
import type {
  CreatedCallTask,
  CallExchange,
  ExchangeListener,
  ExchangePoint,
  RequestExchange,
  UnanswerableCause,
} from '../call-exchange.ts';
import type { Session } from '../session.ts';
import { StreamStatus } from './stream-status.ts';
import { isTransient, TaskRequests } from './task-requests.ts';
import {
  createTask,
  type Opened,
  type Stage,
  type TaskCallOptions,
  type TaskPoint,
  type ToolCallRequest,
} from './task-stage.ts';

/** A stream that ends after this long, in ms, has not failed: proxies end streams that bring nothing. */
const LONG_LIFE_MS = 10_000;

export class TaskCall implements CallExchange, ExchangeListener {
  readonly accepted: Promise<void>;
  readonly #session: Session;
  readonly #clock: Clock;
  readonly #listener: ExchangeListener;
  readonly #stream: StreamStatus;
  /** Aborts when the call is over. */
  readonly #over = new Closing();
  readonly #requests: TaskRequests;
  /** Resolves to the id of the task, or to `null` if there will be none. */
  readonly #created = Promise.withResolvers<string | null>();
  #stage: Stage;
  #request: RequestExchange;
  #isCancelled = false;
  /** Whether the server has said that the task is at its end. */
  #hasEnded = false;
  /** When the server took the request, by `Clock.elapsed`. */
  #takenAtMs = Infinity;

  private constructor(
    { session, clock, listener }: TaskCallOptions,
    isBroken: boolean,
    open: (listener: ExchangeListener) => Opened,
  ) {
    this.#session = session;
    this.#clock = clock;
    this.#listener = listener;
    this.#stream = new StreamStatus(listener, clock, isBroken);
    this.#requests = new TaskRequests({
      ...{ session, clock, signal: this.#over },
      onStatus: (task) => this.#listener.taskChanged?.(readServerTask(task)),
      isRead: () => this.#listener.readsStatus?.() === true,
      onLost: (failure) => this.#lose(failure),
    });
    const { stage, request } = open(this);
    this.#stage = stage;
    this.#request = request;
    this.accepted = request.accepted;
  }

  /** Calls a tool of a server that runs tasks. */
  static start(
    options: TaskCallOptions,
    toolCall: ToolCallRequest,
    headers: CallerHeaders,
  ): TaskCall {
    const { session } = options;
    return new TaskCall(options, false, (listener) => {
      const { params, demandsTask, isSilent } = toolCall;
      if (demandsTask) return createTask(session, toolCall, listener, headers);
      const request = session.call('tools/call', params, listener, headers, isSilent);
      return { stage: { name: 'plain', toolCall }, request };
    });
  }

  /**
   * Continues a call of another replica: resumes its stream, or asks for the result of its task.
   * @param open the questions that the server still waits for
   */
  static resume(
    options: TaskCallOptions,
    point: TaskPoint,
    headers: CallerHeaders,
    open: readonly ServerRequestId[],
  ): TaskCall {
    const { session } = options;
    const { upstreamId } = point;
    if (point.lastEventId !== null) {
      const { task } = point;
      const { taskId, progressToken } = task;
      const stage: Stage =
        taskId === null
          ? { name: 'creating', progressToken }
          : { name: 'following', task: { taskId, progressToken } };
      const call = new TaskCall(options, true, (listener) => ({
        stage,
        request: session.resumeCall(upstreamId, point, listener, headers, open, task),
      }));
      if (stage.name === 'following') inBackground(call.#requests.watchStatus(stage.task.taskId));
      return call;
    }
    const { task } = point;
    const former = { id: upstreamId, openQuestions: open };
    session.questions.mayRun(point.beside ?? []);
    inBackground(session.forget(upstreamId));
    const call = new TaskCall(options, true, (listener) => ({
      stage: { name: 'following', task },
      request: session.followTask(task, former, listener),
    }));
    call.#expectHead();
    inBackground(call.#requests.watchStatus(task.taskId));
    return call;
  }

  get id(): UpstreamRequestId {
    return this.#request.id;
  }

  respond(id: ServerRequestId, reply: JsonRpcReply, headers: CallerHeaders): Promise<void> {
    return this.#request.respond(id, reply, headers);
  }

  /** A task is cancelled by `tasks/cancel`, and by no notification (cancellation, "Behavior Requirements"). */
  cancel(reason: string, headers: CallerHeaders): Promise<boolean> {
    this.#isCancelled = true;
    if (this.#stage.name === 'plain') return this.#request.cancel(reason, headers);
    return this.#request.cancelBy(this.#cancelTask(headers));
  }

  get asksBeside(): boolean {
    return this.#request.asksBeside;
  }

  resumable(): ExchangePoint | null {
    return this.#request.resumable();
  }

  abandon(): void {
    this.#end();
    this.#request.abandon();
  }

  // What the stream of the call brings:

  sent(): void {
    this.#stream.sent();
  }

  /** Each request tells it by `accepted`. */
  notTaken(): void {}

  asked(id: ServerRequestId, method: string, params: JsonObject): void {
    this.#begun();
    this.#listener.asked(id, method, params);
  }

  withdrawn(id: ServerRequestId): void {
    this.#listener.withdrawn(id);
  }

  unanswerable(method: string, cause: UnanswerableCause): void {
    this.#listener.unanswerable(method, cause);
  }

  notified(method: string, params: JsonObject): void {
    this.#begun();
    if (method !== TASK_STATUS) return this.#listener.notified(method, params);
    const { taskId } = this.#stage.name === 'following' ? this.#stage.task : { taskId: null };
    if (taskIdOf(params) !== taskId) return;
    this.#requests.endWatch();
    this.#listener.taskChanged?.(readServerTask(params));
  }

  replied(reply: JsonRpcReply): void {
    const stage = this.#stage;
    switch (stage.name) {
      case 'plain': {
        const { toolCall } = stage;
        const mayCreate = toolCall !== null && demandsTask(reply) && !this.#isCancelled;
        return mayCreate ? this.#callAsTask(toolCall) : this.#settle(reply);
      }
      case 'creating':
        return this.#taskCreated(reply, stage.progressToken);
      case 'following':
        return this.#taskReplied(reply, stage.task);
    }
  }

  interrupted(): void {
    this.#stream.broke();
  }

  resumed(): void {
    this.#stream.isBack();
  }

  lost(failure: UpstreamFailure): void {
    const stage = this.#stage;
    const mayAskAgain = stage.name === 'following' && !this.#session.dead && !this.#isCancelled;
    if (mayAskAgain && isTransient(failure))
      this.#inBackground(this.#followAgain(stage.task, failure));
    else this.#lose(failure);
  }

  backlog(): Promise<void> | null {
    return this.#listener.backlog();
  }

  /** A defect in this work ends the call: nothing else would. */
  #inBackground(work: Promise<void>): void {
    inBackground(work, (error) => this.#lose(asUpstreamFailure(error, true)));
  }

  #callAsTask(toolCall: ToolCallRequest): void {
    const { stage, request } = createTask(this.#session, toolCall, this, this.#session.headers);
    this.#stage = stage;
    this.#request = request;
    request.accepted.catch((error: unknown) => this.#lose(asUpstreamFailure(error, true)));
  }

  #taskCreated(reply: JsonRpcReply, progressToken: UpstreamRequestId): void {
    const created = 'result' in reply ? readCreatedTask(reply.result) : null;
    // The server has refused the call, or run it without a task.
    if (created === null || !('result' in reply)) return this.#settle(reply);
    const { taskId, pollIntervalMs } = created;
    this.#requests.pollIntervalMs = pollIntervalMs;
    const task = { taskId, progressToken };
    this.#stage = { name: 'following', task };
    this.#created.resolve(taskId);
    if (!this.#isCancelled) this.#follow(task);
    inBackground(this.#requests.watchStatus(taskId));
    this.#listener.taskCreated?.(readServerTask(objectMember(reply.result, 'task') ?? {}));
  }

  /**
   * Takes the reply to `tasks/result`. An error can be that of the tool. It can also mean that the task is gone, or that
   * the server does not wait for the end of the task, as it should (tasks, "Result Retrieval").
   */
  #taskReplied(reply: JsonRpcReply, task: CreatedCallTask): void {
    const isCertain =
      'result' in reply ||
      this.#isCancelled ||
      this.#hasEnded ||
      reply.error.code === LegacyErrorCode.urlElicitationRequired;
    if (isCertain) this.#settle(withoutTaskId(reply, task.taskId));
    else this.#inBackground(this.#pollAfter(reply, task));
  }

  /** Asks for the result of the task. The stream of the response is that of the call from here on. */
  #follow(task: CreatedCallTask): void {
    this.#request = this.#session.followTask(task, this.#request, this);
    this.#expectHead();
  }

  #expectHead(): void {
    const request = this.#request;
    this.#takenAtMs = Infinity;
    this.#stream.expectHead();
    request.accepted.then(
      () => {
        if (this.#request !== request || this.#over.aborted) return;
        this.#takenAtMs = this.#clock.elapsed();
        this.#stream.isBack();
      },
      (error: unknown) => {
        if (this.#request !== request) return;
        this.#stream.end();
        this.lost(asUpstreamFailure(error, true));
      },
    );
  }

  /** Asks for the result again: the stream broke, and cannot be resumed. */
  async #followAgain(task: CreatedCallTask, failure: UpstreamFailure): Promise<void> {
    this.#stream.broke();
    if (this.#clock.elapsed() - this.#takenAtMs >= LONG_LIFE_MS) this.#requests.succeeded();
    if (!(await this.#requests.backOff(failure))) return;
    // Of two requests for one result, the server may send a question to the one that nobody reads.
    await this.#session.forget(this.#request.id);
    if (!this.#over.aborted) this.#follow(task);
  }

  /** Waits for the end of the task, or for its next question, and asks for the result again. */
  async #pollAfter(reply: JsonRpcReply, task: CreatedCallTask): Promise<void> {
    const status = await this.#requests.nextStatus(task.taskId);
    if (status === null) return;
    if (status === 'unknown') return this.#settle(withoutTaskId(reply, task.taskId));
    // The error came before the task had ended, for all the gateway knows.
    this.#hasEnded = isTerminal(status);
    this.#follow(task);
  }

  async #cancelTask(headers: CallerHeaders): Promise<boolean> {
    const taskId = await this.#taskId();
    return taskId !== null && this.#requests.cancel(taskId, headers);
  }

  #taskId(): Promise<string | null> {
    const stage = this.#stage;
    return stage.name === 'following' ? Promise.resolve(stage.task.taskId) : this.#created.promise;
  }

  /** The server works on the call: it has not refused it, and its stream is read. */
  #begun(): void {
    if (this.#stage.name === 'plain') this.#stage = { name: 'plain', toolCall: null };
    this.#requests.succeeded();
  }

  #settle(reply: JsonRpcReply): void {
    if (this.#over.aborted) return;
    this.#end();
    this.#listener.replied(reply);
  }

  #lose(failure: UpstreamFailure): void {
    if (this.#over.aborted) return;
    const isTask = this.#stage.name === 'following';
    this.#end();
    // The server has the task, whatever became of this request.
    this.#listener.lost(isTask ? failure.with({ mayHaveActed: true }) : failure);
  }

  #end(): void {
    this.#over.abort();
    this.#stream.end();
    this.#created.resolve(null);
  }
}
