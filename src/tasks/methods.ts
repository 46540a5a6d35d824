/** The methods of the tasks extension, over the tasks of a route. */
import { TASKS_NOT_DECLARED } from '../model/failures.ts';
import type { CallReply, EdgeRequest, Leg } from '../model/request.ts';
import type { Task, TaskEngine, TaskReply } from '../model/task.ts';
import { objectMember, type JsonObject } from '../protocol/json.ts';
import { getTaskResult } from './wire.ts';

/** Serves `tasks/get`, `tasks/update` or `tasks/cancel`. */
export async function serveTaskMethod(
  tasks: TaskEngine,
  request: EdgeRequest,
  leg: Leg,
): Promise<CallReply> {
  if (request.profile.tasks !== true) return { kind: 'failed', failure: TASKS_NOT_DECLARED };
  const taskId = String(request.params['taskId']);
  switch (request.method) {
    case 'tasks/update': {
      const answers = objectMember(request.params, 'inputResponses') ?? {};
      return replyWith(await tasks.answer(request, taskId, answers, leg), acknowledgement);
    }
    case 'tasks/cancel':
      return replyWith(await tasks.cancel(request, taskId, leg), acknowledgement);
    default:
      return replyWith(await tasks.get(request, taskId), getTaskResult);
  }
}

/** Tells no more than that the request was taken ("Task Update Requests", "Task Cancellation"). */
function acknowledgement(): JsonObject {
  return { resultType: 'complete' };
}

function replyWith(reply: TaskReply, write: (task: Task) => JsonObject): CallReply {
  if (reply.type === 'failed') return { kind: 'failed', failure: reply.failure };
  return { kind: 'result', result: write(reply.task) };
}
