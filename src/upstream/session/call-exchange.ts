/** An exchange: the upstream's side of one call, which is a legacy request in flight. */
import type { ServerRequestId, UpstreamRequestId } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { ServerTask } from '../../protocol/task.ts';
import type { CallerHeaders, SessionPoint } from '../transport/transport.ts';
import type { UpstreamFailure } from '../../model/upstream-failure.ts';

/**
 * Why nobody can be asked a question of the server.
 * - `broadcast`: the server sends it to every session
 * - `ambiguous`: it names no call, and several calls of the session can have asked it
 */
export type UnanswerableCause = 'broadcast' | 'ambiguous';

/** What a call is told of its exchange. Nothing is told after `replied` or `lost`. */
export interface ExchangeListener {
  /** The request is written on a connection to the server. */
  sent?(): void;
  /** The request did not reach the server, or the server refused it. Nothing else is told then. */
  notTaken(failure: UpstreamFailure): void;
  asked(id: ServerRequestId, method: string, params: JsonObject): void;
  /** The server withdrew its question (`notifications/cancelled`). */
  withdrawn(id: ServerRequestId): void;
  /** The server asked a question that may be of another call. The gateway has refused it. */
  unanswerable(method: string, cause: UnanswerableCause): void;
  notified(method: string, params: JsonObject): void;
  replied(reply: JsonRpcReply): void;
  /** The server runs the call as a task, and has created it. */
  taskCreated?(task: ServerTask): void;
  /** What the server says of that task now. */
  taskChanged?(task: ServerTask): void;
  /** Whether anybody reads what the server says of it now. */
  readsStatus?(): boolean;
  /** The stream of the exchange broke; it is being resumed. */
  interrupted(): void;
  resumed(): void;
  lost(failure: UpstreamFailure): void;
  /**
   * Returns `null` if the call can take more messages, else a promise that resolves when it may. The
   * stream of the exchange is not read meanwhile.
   */
  backlog(): Promise<void> | null;
}

/** A session, and what else runs in it. */
export interface SharedSessionPoint extends SessionPoint {
  /** Other calls of the session that can ask on streams that name no call. Absent if there are none. */
  readonly beside?: readonly UpstreamRequestId[];
}

/** The task as which the server runs a call; `taskId` is `null` until the server has created it. */
export interface CallTask {
  readonly taskId: string | null;
  /** The token of the call, which stays valid as long as the task (tasks, "Task Progress Notifications"). */
  readonly progressToken: UpstreamRequestId;
}

/** A task that the server has created. */
export type CreatedCallTask = CallTask & { readonly taskId: string };

/**
 * Where another replica could continue an exchange: after an event of its stream; or with the task, whose result can be
 * asked for again.
 */
export type ExchangePoint = SharedSessionPoint &
  (
    | { readonly lastEventId: string; readonly task: null }
    | { readonly lastEventId: string; readonly task: CallTask }
    | { readonly lastEventId: null; readonly task: CreatedCallTask }
  );

/** `SessionCall` is one, and `TaskCall` one of a call that its server runs as a legacy task. */
export interface CallExchange {
  readonly id: UpstreamRequestId;
  /**
   * Resolves when the server has taken the request, or the exchange is over. Rejects with UpstreamFailure
   * if the server has not taken it.
   */
  readonly accepted: Promise<void>;
  /** Answers a question of the exchange. @throws UpstreamFailure if the server has not taken it */
  respond(id: ServerRequestId, reply: JsonRpcReply, headers: CallerHeaders): Promise<void>;
  /**
   * Cancels the request at the server (`notifications/cancelled`). Never throws.
   * @returns whether the server has taken the notification (a 2xx)
   */
  cancel(reason: string, headers: CallerHeaders): Promise<boolean>;
  /** Whether a question waits that came beside the stream of the exchange: who resumes that is not asked again. */
  readonly asksBeside: boolean;
  /** Returns where another replica could continue the exchange, or `null` if none could. */
  resumable(): ExchangePoint | null;
  /** Closes the stream. The listener is told nothing more. */
  abandon(): void;
}

/** An exchange that is one request of a session. */
export interface RequestExchange extends CallExchange {
  /** The questions that wait for an answer. */
  readonly openQuestions: readonly ServerRequestId[];
  /** Notes that the call was cancelled with another message. @returns whether the server has taken that */
  cancelBy(sent: Promise<boolean>): Promise<boolean>;
}

/** What a session keeps of a call from its beginning. */
export interface SessionCallOptions {
  readonly id: UpstreamRequestId;
  readonly listener: ExchangeListener;
  /** Questions that the server asked before, and that are not answered. */
  readonly openQuestions?: readonly ServerRequestId[];
  /** The task that the request creates or follows; `null` for an ordinary call. */
  readonly task?: CallTask | null;
  /** True if calls of the same target have ended in this session, and none has asked. */
  readonly isSilent?: boolean;
}
