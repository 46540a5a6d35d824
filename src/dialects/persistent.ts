/**
 * The persistent workflow of the drafts: tasks of 2025-11-25, whose `tasks/result` can ask for input, and
 * `tasks/input_response`, which answers. The final revision has other methods for the same tasks.
 */
import { ErrorCode } from '../protocol/json-rpc.ts';
import { isJsonObject, numberOf, objectMember, type JsonObject } from '../protocol/json.ts';
import { Meta } from '../protocol/meta.ts';
import {
  interimOf,
  InvalidMessage,
  plainResult,
  type Codec,
  type FinalRequest,
  type Interim,
} from './codec.ts';

/** How a dialect writes what the drafts have in common. */
export interface DraftWire {
  readonly interim: (interim: Interim) => JsonObject;
  readonly complete: (result: JsonObject) => JsonObject;
  /** Changes a task, as 2025-11-25 has it. */
  readonly task?: (task: JsonObject) => JsonObject;
}

const INPUT_RESPONSE = 'tasks/input_response';
const RELATED = `params._meta["${Meta.relatedTask}"].taskId`;

/** Translates the requests of the workflow. Other requests stay as they are. @throws InvalidMessage */
export function withTasks(request: FinalRequest): FinalRequest {
  const { method, params } = request;
  switch (method) {
    case 'tools/call':
      return params['task'] === undefined ? request : taskCall(params);
    case 'tasks/result':
      return { method: 'tasks/get', params, beyond: { untilSettled: true } };
    case INPUT_RESPONSE: {
      const { _meta: meta, inputResponses = {} } = params;
      const related = isJsonObject(meta) ? objectMember(meta, Meta.relatedTask) : undefined;
      const taskId = related?.['taskId'];
      if (typeof taskId !== 'string') throw new InvalidMessage(`${RELATED} must be a string`);
      return { method: 'tasks/update', params: { taskId, inputResponses } };
    }
    default:
      return request;
  }
}

/** Without `task` in its params, a retry can turn a call that was none into a task ("Workflow Transitions"). */
function taskCall({ task, ...params }: JsonObject): FinalRequest {
  if (!isJsonObject(task)) throw new InvalidMessage('params.task must be an object');
  const ttlMs = numberOf(task['ttl'] ?? null);
  if (task['ttl'] !== undefined && (ttlMs === null || ttlMs < 0)) {
    throw new InvalidMessage('params.task.ttl must be a number of milliseconds');
  }
  return { method: 'tools/call', params, beyond: { wantsTask: { ttlMs } } };
}

/** Creates the encoder of a draft. */
export function draftEncoder(wire: DraftWire): Codec['encode'] {
  return (result, request) => {
    const interim = interimOf(result);
    if (interim !== null) return wire.interim(interim);
    if (result['resultType'] === 'task') return wire.complete({ task: taskOf(result, wire) });
    if (!request.method.startsWith('tasks/')) return wire.complete(plainResult(result));
    return ofTask(result, request, wire);
  };
}

/** Writes the response to a request about a task, out of what the task is now. */
function ofTask(now: JsonObject, { method, beyond }: FinalRequest, wire: DraftWire): JsonObject {
  const meta = { _meta: { [Meta.relatedTask]: { taskId: now['taskId'] ?? null } } };
  if (method === 'tasks/update') return wire.complete(meta);
  if (method === 'tasks/cancel' && now['status'] !== 'cancelled') {
    const message = `The task is over already: its status is ${String(now['status'])}`;
    return { error: { code: ErrorCode.invalidParams, message } };
  }
  if (beyond?.untilSettled !== true) return wire.complete(taskOf(now, wire));
  switch (now['status']) {
    case 'input_required': {
      const inputRequests = objectMember(now, 'inputRequests') ?? {};
      return wire.interim({ inputRequests, requestState: null, meta });
    }
    case 'completed': {
      const result = plainResult(objectMember(now, 'result') ?? {});
      return wire.complete({
        ...result,
        _meta: { ...objectMember(result, '_meta'), ...meta._meta },
      });
    }
    case 'failed':
      return { error: now['error'] ?? null };
    default:
      return { error: { code: ErrorCode.invalidParams, message: 'The task was cancelled' } };
  }
}

/** Writes a task as 2025-11-25 has it. */
function taskOf(task: JsonObject, { task: change = (legacy) => legacy }: DraftWire): JsonObject {
  const { taskId, status, statusMessage, createdAt, lastUpdatedAt, ttlMs, pollIntervalMs } = task;
  return change({
    taskId: taskId ?? null,
    status: status ?? null,
    ...(statusMessage === undefined ? {} : { statusMessage }),
    createdAt: createdAt ?? null,
    lastUpdatedAt: lastUpdatedAt ?? null,
    ttl: ttlMs ?? null,
    pollInterval: pollIntervalMs ?? null,
  });
}
