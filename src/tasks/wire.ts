/** The wire of the tasks extension (`io.modelcontextprotocol/tasks`). Other dialects are codecs over the same tasks. */
import type { CallReply } from '../model/request.ts';
import { taskState, type Task, type TaskReply } from '../model/task.ts';
import { numberOf, type JsonObject } from '../protocol/json.ts';

/**
 * Writes the result that makes a call a task ("Task Creation").
 * @param meta of the result, which names the server
 */
export function createTaskResult(task: Task, meta: JsonObject | undefined): JsonObject {
  return {
    resultType: 'task',
    ...taskMembers(task),
    ...(meta === undefined ? {} : { _meta: meta }),
  };
}

/** Writes the result of `tasks/get` ("Task Polling"). */
export function getTaskResult(task: Task): JsonObject {
  return { resultType: 'complete', ...detailedTask(task) };
}

/** Writes a task with what its status calls for: questions, result or error. */
export function detailedTask(task: Task): JsonObject {
  const { status: _status, ...rest } = task.state;
  return { ...taskMembers(task), ...rest };
}

/** Reads the reply of the replica that has a task, with what `detailedTask` wrote. */
export function readTaskReply(reply: CallReply): TaskReply {
  if (reply.kind === 'failed') return { type: 'failed', failure: reply.failure };
  return { type: 'task', task: readDetailedTask(reply.result) };
}

/** Reads what `detailedTask` wrote, here or in another replica. */
export function readDetailedTask(written: JsonObject): Task {
  const { status, statusMessage } = written;
  const members = MEMBERS[String(status)] ?? [];
  const state = { status, ...Object.fromEntries(members.map((name) => [name, written[name]])) };
  return {
    taskId: String(written['taskId']),
    state: taskState.parse(state),
    statusMessage: typeof statusMessage === 'string' ? statusMessage : null,
    createdAtMs: Date.parse(String(written['createdAt'])),
    updatedAtMs: Date.parse(String(written['lastUpdatedAt'])),
    ttlMs: numberOf(written['ttlMs']) ?? 0,
    pollIntervalMs: numberOf(written['pollIntervalMs']) ?? 0,
  };
}

/** What a task has besides its members in any status. */
const MEMBERS: Readonly<Record<string, readonly string[]>> = {
  input_required: ['inputRequests'],
  completed: ['result'],
  failed: ['error'],
};

function taskMembers(task: Task): JsonObject {
  const { taskId, state, statusMessage, createdAtMs, updatedAtMs, ttlMs, pollIntervalMs } = task;
  return {
    taskId,
    status: state.status,
    ...(statusMessage === null ? {} : { statusMessage }),
    createdAt: new Date(createdAtMs).toISOString(),
    lastUpdatedAt: new Date(updatedAtMs).toISOString(),
    ttlMs,
    pollIntervalMs,
  };
}
