/** The call of a task, as the task sees it: it retries as a client would, and has the server cancel it. */
import { sleep, type Clock } from '../lib/clock.ts';
import type { RelayedHandle } from '../model/relay.ts';
import {
  waiterWithoutNotifications,
  type CallReply,
  type EdgeRequest,
  type Waiter,
  type WaitingTask,
} from '../model/request.ts';
import { objectMember, type JsonObject } from '../protocol/json.ts';

/** What a task does with its call. */
export interface TaskCalls {
  serve(request: EdgeRequest, waiter: Waiter): Promise<CallReply>;
  /** Cancels a call that is here. @returns false if it is not, or if its stream is being resumed */
  cancelHere(request: EdgeRequest, requestState: string): boolean;
  /** Tells the task that waits for a call that is here to retry, as soon as that is possible: it waits no more. */
  sendBack(request: EdgeRequest, requestState: string): void;
}

/** What the tasks of a route do with its calls. */
export interface RouteCalls extends TaskCalls {
  serveRelayed(request: EdgeRequest, waiter: Waiter): Promise<RelayedHandle | null>;
  runsAsServerTask(request: EdgeRequest, requestState: string): boolean;
  /** Whether its client would end the call in the next round, or the gateway. */
  isLastRound(request: EdgeRequest, requestState: string): boolean;
}

/** A reply that tells the client to retry, which a task can be made of. */
export interface PromotedReply {
  readonly requestState: string;
  readonly inputRequests: JsonObject;
  readonly meta: JsonObject | undefined;
}

/** Reads what a task can be made of. @returns `null` for any other reply */
export function retryOf(reply: CallReply): PromotedReply | null {
  if (reply.kind === 'failed' || reply.result['resultType'] !== 'input_required') return null;
  const { requestState } = reply.result;
  if (typeof requestState !== 'string') return null;
  const inputRequests = objectMember(reply.result, 'inputRequests') ?? {};
  return { requestState, inputRequests, meta: objectMember(reply.result, '_meta') };
}

/** How long the call that is taken up again lives, in ms. */
const LIVES_MS = 10_000;
const MAX_ATTEMPTS = 20;
const RETRY_MS = 1_000;

const STOPPING_TASK: WaitingTask = {
  leftMs: LIVES_MS,
  credentialsKey: null,
  endsWithProcess: false,
  isStopping: true,
  moved: () => {},
  learned: () => {},
};

/**
 * Has the server cancel the call of a task that is over, when the call is not here: it was left to the server, or to nobody.
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
    const reply = await calls.serve(retry, waiterWithoutNotifications());
    const again = retryOf(reply);
    if (again !== null) return calls.cancelHere(retry, again.requestState);
    const error = reply.kind === 'failed' ? { ...reply.failure.error } : {};
    if (objectMember(error, 'data')?.['retryable'] !== true) return true;
    if (attempt === MAX_ATTEMPTS) return false;
    await sleep(clock, RETRY_MS);
  }
}
