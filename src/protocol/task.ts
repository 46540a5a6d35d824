/** The wire of legacy tasks (2025-11-25, "Tasks"): the gateway makes them, and no client sees them. */
import { numberOf, objectMember, type JsonObject } from './json.ts';
import { ErrorCode, type JsonRpcReply } from './json-rpc.ts';
import { Meta } from './meta.ts';

/** A task of the server, as far as its requestor needs it. */
export interface CreatedTask {
  readonly taskId: string;
  readonly pollIntervalMs: number;
}

/** What a server says of a task. */
export interface ServerTask {
  /** How long it keeps the task, in ms; `null` if it does not say, or keeps it without an end. */
  readonly ttlMs: number | null;
  readonly pollIntervalMs: number;
  readonly statusMessage: string | null;
}

const DEFAULT_POLL_INTERVAL_MS = 1_000;
const MIN_POLL_INTERVAL_MS = 100;
const MAX_POLL_INTERVAL_MS = 3_600_000;
const TERMINAL: ReadonlySet<unknown> = new Set(['completed', 'failed', 'cancelled']);

/** True if the server runs tool calls as tasks ("Server Capabilities"). */
export function runsToolTasks(capabilities: JsonObject): boolean {
  const requests = objectMember(objectMember(capabilities, 'tasks') ?? {}, 'requests');
  return objectMember(objectMember(requests ?? {}, 'tools') ?? {}, 'call') !== undefined;
}

/** True if a tool can be called only as a task ("Tool-Level Negotiation"). */
export function isTaskTool(tool: JsonObject): boolean {
  return objectMember(tool, 'execution')?.['taskSupport'] === 'required';
}

/**
 * True if the server refuses a plain call because it wants a task: -32601 ("Tool-Level Negotiation"), or -32600
 * ("Protocol Errors"). Either says that the server has not begun the call.
 */
export function demandsTask(reply: JsonRpcReply): boolean {
  if (!('error' in reply)) return false;
  const { code } = reply.error;
  return code === ErrorCode.methodNotFound || code === ErrorCode.invalidRequest;
}

/** Reads a `CreateTaskResult`. @returns `null` for another result: the server has run the call without a task */
export function readCreatedTask(result: JsonObject): CreatedTask | null {
  const task = objectMember(result, 'task') ?? {};
  const { taskId } = task;
  if (typeof taskId !== 'string' || taskId === '') return null;
  return { taskId, pollIntervalMs: pollIntervalOf(task) };
}

/** By this a server tells that the status of a task changed ("Task Status Notification"). */
export const TASK_STATUS = 'notifications/tasks/status';

/** Reads a `Task`: that of a `CreateTaskResult`, or that of a status notification or `tasks/get`. */
export function readServerTask(task: JsonObject): ServerTask {
  const { statusMessage } = task;
  return {
    ttlMs: numberOf(task['ttl']),
    pollIntervalMs: pollIntervalOf(task),
    statusMessage: typeof statusMessage === 'string' ? statusMessage : null,
  };
}

/** Returns how long to wait between two `tasks/get`, in ms, as a `Task` of the server suggests. */
export function pollIntervalOf({ pollInterval }: JsonObject): number {
  const suggested = numberOf(pollInterval) ?? DEFAULT_POLL_INTERVAL_MS;
  return Math.max(MIN_POLL_INTERVAL_MS, Math.min(suggested, MAX_POLL_INTERVAL_MS));
}

/** True for a status that a task never leaves ("Task Status Lifecycle"). */
export function isTerminal(status: unknown): boolean {
  return TERMINAL.has(status);
}

/** Returns the id of the task that a message of the server belongs to, or `null`. */
export function relatedTaskOf(params: JsonObject): string | null {
  const related = objectMember(objectMember(params, '_meta') ?? {}, Meta.relatedTask);
  return taskIdOf(related ?? {});
}

/** Returns the `taskId` of an object, or `null`. */
export function taskIdOf({ taskId }: JsonObject): string | null {
  return typeof taskId === 'string' ? taskId : null;
}

/** Adds the task that a message belongs to ("Related Task Metadata"). */
export function withRelatedTask(message: JsonObject, taskId: string): JsonObject {
  const meta = objectMember(message, '_meta') ?? {};
  return { ...message, _meta: { ...meta, [Meta.relatedTask]: { taskId } } };
}

/** Removes the id of a task from the text of an error: it lets its holder read the task. */
export function withoutTaskId(reply: JsonRpcReply, taskId: string): JsonRpcReply {
  if (!('error' in reply) || !reply.error.message.includes(taskId)) return reply;
  const message = reply.error.message.replaceAll(taskId, '…');
  return { error: { ...reply.error, message } };
}
