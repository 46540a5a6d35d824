/** The methods of the tasks extension, over the tasks of a route. */
import { inBackground } from '../lib/background.ts';
import { TASKS_NOT_DECLARED } from '../model/failures.ts';
import {
  waiterWithoutNotifications,
  type CallReply,
  type EdgeRequest,
  type Failure,
  type Waiter,
} from '../model/request.ts';
import { isTaskOver, type Task, type TaskReply } from '../model/task.ts';
import { isJsonObject, type JsonObject } from '../protocol/json.ts';
import type { Tasks } from './tasks.ts';
import { detailedTask, getTaskResult } from './wire.ts';

/** Serves `tasks/get`, `tasks/update` or `tasks/cancel`. */
export async function serveTaskMethod(
  tasks: Tasks,
  request: EdgeRequest,
  waiter: Waiter,
): Promise<CallReply> {
  if (request.profile.tasks !== true) return { kind: 'failed', failure: TASKS_NOT_DECLARED };
  const write = request.method === 'tasks/get' ? getTaskResult : acknowledgement;
  return replyWith(await replyTo(tasks, request, waiter), write);
}

/** Serves the same methods for a draft, which tells in all of them what the task is now. */
export async function serveDraftTaskMethod(
  tasks: Tasks,
  request: EdgeRequest,
  waiter: Waiter,
): Promise<CallReply> {
  return replyWith(await replyTo(tasks, request, waiter), getTaskResult);
}

function replyTo(tasks: Tasks, request: EdgeRequest, waiter: Waiter): Promise<TaskReply> {
  const { method, params, untilSettled } = request;
  const taskId = String(params['taskId']);
  if (method !== 'tasks/get') return tasks.serveWhereItIs(request, taskId, waiter);
  return untilSettled === true
    ? tasks.settled(request, taskId, waiter)
    : tasks.get(request, taskId, waiter);
}

/** Tells no more than that the request was taken ("Task Update Requests", "Task Cancellation"). */
function acknowledgement(): JsonObject {
  return { resultType: 'complete' };
}

function replyWith(reply: TaskReply, write: (task: Task) => JsonObject): CallReply {
  if (reply.type === 'failed') return { kind: 'failed', failure: reply.failure };
  return { kind: 'result', result: write(reply.task) };
}

/** Returns the tasks as `subscriptions/listen` tells of them ("Task Status Notifications"). */
export function followedTasks(tasks: Tasks) {
  return {
    has: async (request: EdgeRequest, taskId: string): Promise<boolean | Failure> => {
      const reply = await tasks.get(request, taskId, waiterWithoutNotifications());
      if (reply.type === 'task') return true;
      return isRetryable(reply.failure) && reply.failure;
    },
    /** @returns a function that ends it */
    follow: (request: EdgeRequest, taskId: string, tell: (params: JsonObject) => void) => {
      const ended = new AbortController();
      inBackground(follow(tasks, request, taskId, ended.signal, tell));
      return () => ended.abort();
    },
  };
}

/** Tells what a task is at first, and each time that it changes. */
async function follow(
  tasks: Tasks,
  request: EdgeRequest,
  taskId: string,
  ended: AbortSignal,
  tell: (params: JsonObject) => void,
): Promise<void> {
  let last = '';
  while (!ended.aborted) {
    const reply = await tasks.get(request, taskId, waiterWithoutNotifications(ended));
    if (ended.aborted) return;
    if (reply.type === 'task') {
      const params = detailedTask(reply.task);
      const written = JSON.stringify(params);
      if (written !== last) tell(params);
      last = written;
      if (isTaskOver(reply.task.state)) return;
    } else if (!isRetryable(reply.failure)) {
      return;
    }
    await tasks.changed(request, taskId, ended);
  }
}

/** Tells whether a task can still be there, although its replica or the store does not respond now. */
function isRetryable({ error: { data } }: Failure): boolean {
  return isJsonObject(data) && data['retryable'] === true;
}
