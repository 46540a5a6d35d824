/**
 * Finds out whom a request or a notification of the server is for. Servers ask on streams that name no call: what
 * comes there is told from the calls that can have asked it.
 */
import type { Entries } from '../../../lib/containers.ts';
import {
  serverRequestId,
  upstreamRequestId,
  type ServerRequestId,
  type UpstreamRequestId,
} from '../../../protocol/ids.ts';
import { isExactNumber, type ExactNumber, type JsonObject } from '../../../protocol/json.ts';
import { ErrorCode, type JsonRpcMessage, type JsonRpcReply } from '../../../protocol/json-rpc.ts';
import type { BroadcastDetector } from '../../discovery/broadcast-detector.ts';
import { askedBy } from '../../../protocol/translate/input-request.ts';
import { relatedTaskOf, TASK_STATUS, taskIdOf } from '../../../protocol/task.ts';
import { TRAITS } from '../../transport/traits.ts';
import type { MessageSource, Transport } from '../../transport/transport.ts';
import type { CallTask } from '../call-exchange.ts';

/** A call, as far as routing looks at it. */
interface RoutedCall {
  readonly id: UpstreamRequestId;
  readonly task: CallTask | null;
}

/** The state of a session on which routing depends. */
export interface RoutingContext<Call extends RoutedCall> {
  readonly transport: Transport['kind'];
  readonly calls: Entries<UpstreamRequestId, Call>;
  /** Whether calls that ended without a reply may still run at the server. */
  readonly hasUnfinished: boolean;
  readonly detector: BroadcastDetector;
}

export interface ServerRequest {
  readonly id: ServerRequestId;
  readonly method: string;
  readonly params: JsonObject;
}

export type RoutedMessage<Call> =
  | { readonly type: 'ignored' }
  /** A question of a call. */
  | (ServerRequest & { readonly type: 'question'; readonly call: Call })
  /** A question on a stream that names no call, while calls run. */
  | (ServerRequest & { readonly type: 'uncorrelated-question' })
  /** A request that the gateway replies to itself. */
  | {
      readonly type: 'gateway-reply';
      readonly id: ServerRequestId | ExactNumber;
      readonly reply: JsonRpcReply;
      /** The method of the question, if every call is told that it may have been its own. */
      readonly unanswerable?: string;
    }
  | { readonly type: 'withdrawn'; readonly id: ServerRequestId }
  | { readonly type: 'url-visited'; readonly elicitationId: string }
  /** A list or a resource changed. */
  | { readonly type: 'changed'; readonly method: string; readonly params: JsonObject }
  | {
      readonly type: 'notified';
      readonly call: Call;
      readonly method: string;
      readonly params: JsonObject;
    };

const IGNORED = { type: 'ignored' } as const;

/** The notifications by which a server says that a list changed. */
export const LIST_CHANGES: readonly string[] = [
  'notifications/tools/list_changed',
  'notifications/prompts/list_changed',
  'notifications/resources/list_changed',
];

/** True for requests that ask the client or its user something. */
export function isQuestion(method: string): boolean {
  return askedBy(method) !== null;
}

/** Decides whom a message is for that is not a reply. */
export function routeOf<Call extends RoutedCall>(
  message: Exclude<JsonRpcMessage, { readonly type: 'response' }>,
  source: MessageSource,
  context: RoutingContext<Call>,
): RoutedMessage<Call> {
  switch (message.type) {
    case 'request': {
      const { method, params } = message;
      return routeOfRequest({ id: serverRequestId(message.id), method, params }, source, context);
    }
    case 'notification':
      return routeOfNotification(message.method, message.params, source, context);
    case 'malformed': {
      // A request with an id that cannot be kept, or one that is too large, is refused, so that the server does not wait.
      const { id } = message;
      if (id === undefined) return IGNORED;
      const error = { code: ErrorCode.invalidRequest, message: message.problem };
      return {
        type: 'gateway-reply',
        id: isExactNumber(id) ? id : serverRequestId(id),
        reply: { error },
      };
    }
  }
}

function routeOfRequest<Call extends RoutedCall>(
  { id, method, params }: ServerRequest,
  source: MessageSource,
  { transport, calls, detector }: RoutingContext<Call>,
): RoutedMessage<Call> {
  if (method === 'ping') return { type: 'gateway-reply', id, reply: { result: {} } };
  const isRefused = {
    type: 'gateway-reply',
    id,
    reply: refusalReply(method, calls.size > 0),
  } as const;
  if (!isQuestion(method)) return isRefused;
  const taskId = relatedTaskOf(params);
  const asking = taskId === null ? null : callOfTask(taskId, source, calls);
  if (asking !== null) return { type: 'question', call: asking, id, method, params };
  if (source.stream === 'request' && taskId === null) {
    const call = calls.get(source.id);
    return call === undefined ? isRefused : { type: 'question', call, id, method, params };
  }
  if (TRAITS[transport].mayBroadcast) {
    // The server may have sent the question to every session, and wait for the answer of another one.
    if (calls.size === 0) return IGNORED;
    if (![...calls.keys()].every((call) => detector.isOnlyCall(call))) {
      return { type: 'gateway-reply', id, reply: BROADCAST_REFUSAL, unanswerable: method };
    }
  }
  // A task that no call runs any more, or that is not the gateway's.
  if (calls.size === 0 || taskId !== null) return isRefused;
  return { type: 'uncorrelated-question', id, method, params };
}

/**
 * Finds the call that runs a task (tasks, "Associating Task-Related Messages"). A message about a task that is being
 * created can come before its id.
 */
function callOfTask<Call extends RoutedCall>(
  taskId: string,
  source: MessageSource,
  calls: Entries<UpstreamRequestId, Call>,
): Call | null {
  const all = [...calls.values()];
  const running = all.find((call) => call.task?.taskId === taskId);
  if (running !== undefined) return running;
  if (source.stream === 'request') {
    const call = calls.get(source.id);
    // A tool that is called plainly can use tasks of its own.
    return call === undefined || (call.task?.taskId ?? null) !== null ? null : call;
  }
  const created = all.filter(({ task }) => task !== null && task.taskId === null);
  return created.length === 1 ? (created[0] ?? null) : null;
}

function routeOfNotification<Call extends RoutedCall>(
  method: string,
  params: JsonObject,
  source: MessageSource,
  context: RoutingContext<Call>,
): RoutedMessage<Call> {
  if (method === 'notifications/cancelled') {
    const { requestId: id } = params;
    const isId = typeof id === 'string' || typeof id === 'number';
    return isId ? { type: 'withdrawn', id: serverRequestId(id) } : IGNORED;
  }
  if (method === 'notifications/elicitation/complete') {
    const { elicitationId } = params;
    return typeof elicitationId === 'string' ? { type: 'url-visited', elicitationId } : IGNORED;
  }
  if (LIST_CHANGES.includes(method) || method === 'notifications/resources/updated') {
    return { type: 'changed', method, params };
  }
  const call = callNotified(method, params, source, context);
  return call === null ? IGNORED : { type: 'notified', call, method, params };
}

/**
 * Progress names its request. A log message belongs to a request only if it comes on that request's
 * stream; over HTTP+SSE and stdio there is one stream for all.
 */
function callNotified<Call extends RoutedCall>(
  method: string,
  params: JsonObject,
  source: MessageSource,
  { transport, calls, hasUnfinished, detector }: RoutingContext<Call>,
): Call | null {
  if (method === 'notifications/progress') {
    const { progressToken } = params;
    const isToken = typeof progressToken === 'string' || typeof progressToken === 'number';
    return isToken ? callWithToken(upstreamRequestId(progressToken), calls) : null;
  }
  // The params of a status are the task (tasks, "Related Task Metadata").
  const taskId = method === TASK_STATUS ? taskIdOf(params) : relatedTaskOf(params);
  if (taskId !== null) return callOfTask(taskId, source, calls);
  if (source.stream === 'request') return calls.get(source.id) ?? null;
  if (TRAITS[transport].namesTheCall || calls.size !== 1 || hasUnfinished) return null;
  for (const call of calls.values()) if (detector.isOnlyCall(call.id)) return call;
  return null;
}

/** The token of a task is the id of the request that created it. */
function callWithToken<Call extends RoutedCall>(
  token: UpstreamRequestId,
  calls: Entries<UpstreamRequestId, Call>,
): Call | null {
  const call = calls.get(token);
  if (call !== undefined) return call;
  for (const other of calls.values()) if (other.task?.progressToken === token) return other;
  return null;
}

/** For a question that may be one of another client. */
export const BROADCAST_REFUSAL: JsonRpcReply = {
  error: {
    code: ErrorCode.internalError,
    message:
      'This server sends its questions to every session and has other clients, so the gateway cannot tell whose question this is',
  },
};

/** The reply to a question for which nobody can be asked. */
export function unasked(method: string): JsonRpcReply {
  if (method !== 'roots/list') return refusalReply(method, true);
  return { error: { code: ErrorCode.internalError, message: 'The request was not answered' } };
}

/** The reply to a request that belongs to no call. It never reaches a user. */
function refusalReply(method: string, callRunning: boolean): JsonRpcReply {
  const asked = askedBy(method);
  if (asked === 'roots') return { result: { roots: [] } };
  if (asked === 'elicitation' && callRunning) return { result: { action: 'cancel' } };
  if (asked === 'sampling' && callRunning) {
    return { error: { code: -1, message: 'No user is available to review the request' } };
  }
  if (asked !== null) {
    return {
      error: {
        code: ErrorCode.invalidParams,
        message: 'The request does not belong to a client request',
      },
    };
  }
  return { error: { code: ErrorCode.methodNotFound, message: 'Method not found' } };
}
