/** Has the server cancel the call of a task that is over, when the call is not here: it was left to the server, or to nobody. */
import { sleep, type Clock } from '../lib/clock.ts';
import { legWithoutNotifications, type EdgeRequest } from '../model/request.ts';
import type { WaitingTask } from '../model/waiting-task.ts';
import { objectMember } from '../protocol/json.ts';
import { retryOf, type TaskCalls } from './task-calls.ts';

/** How long the call that is taken up again lives, in ms. */
const LIVES_MS = 10_000;
const MAX_ATTEMPTS = 20;
const RETRY_MS = 1_000;

const STOPPING_TASK: WaitingTask = {
  leftMs: LIVES_MS,
  endsWithProcess: false,
  isStopping: true,
  moved: () => {},
  learned: () => {},
};

/**
 * Takes the call up again, and cancels it. Never throws.
 * @param request the retry of the task
 * @returns whether the server was told, or no cancellation is needed
 */
export async function stopElsewhere(
  calls: TaskCalls,
  clock: Clock,
  request: EdgeRequest,
): Promise<boolean> {
  const retry = { ...request, inputResponses: null, task: STOPPING_TASK };
  for (let attempt = 1; ; attempt += 1) {
    const reply = await calls.serve(retry, legWithoutNotifications());
    const again = retryOf(reply);
    if (again !== null) return calls.cancelHere(retry, again.requestState);
    const error = reply.kind === 'failed' ? { ...reply.failure.error } : {};
    if (objectMember(error, 'data')?.['retryable'] !== true) return true;
    if (attempt === MAX_ATTEMPTS) return false;
    await sleep(clock, RETRY_MS);
  }
}
