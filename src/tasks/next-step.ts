/** What a reply of its call means for a task: how its record changes, and what the task does next. */
import { callLost, type FailureReason } from '../model/failures.ts';
import type { CallReply, Failure } from '../model/request.ts';
import { objectMember } from '../protocol/json.ts';
import type { TaskRecord } from './record.ts';
import { retryOf } from './task-calls.ts';

/** What a task does after a reply of its call. */
export type NextStep =
  /** The client is to be shown something, or the task is over. */
  | { readonly type: 'shown'; readonly change: Partial<TaskRecord> }
  /** The call goes on, and the pointer to it is a newer one. */
  | { readonly type: 'renewed'; readonly change: Partial<TaskRecord> }
  /** The call cannot be continued now. */
  | { readonly type: 'later' }
  /** The server refused the credentials with which the call was to go on. The call waits for others. */
  | { readonly type: 'shutOut'; readonly failure: Failure }
  /** The answers do not fit what was asked, which is as open as before. */
  | { readonly type: 'refused'; readonly failure: Failure }
  /** The call, or the server, did not take the answers: the call says what is open now. */
  | { readonly type: 'notTaken'; readonly failure: Failure };

/** With what a call is retried. */
type Retry = NonNullable<TaskRecord['retry']>;

/**
 * Tells what a reply means.
 * @param sent the retry that it replies to
 * @param retry that of the task as it is now
 * @param cause why the answers of the retry before were not taken, if they were not: the call can have ended with them
 */
export function nextStep(
  reply: CallReply,
  sent: Retry,
  retry: Retry,
  cause: Failure | null,
): NextStep {
  if (reply.kind === 'failed') return afterFailure(reply.failure, sent, cause);
  const again = retryOf(reply);
  if (again === null) {
    const state = { status: 'completed', result: reply.result } as const;
    return { type: 'shown', change: { state, retry: null } };
  }
  const { requestState, inputRequests } = again;
  // If answers have come meanwhile, the next retry has them.
  if (retry !== sent) return { type: 'renewed', change: { retry: { ...retry, requestState } } };
  const rest = { ...retry, requestState, inputResponses: null };
  if (Object.keys(inputRequests).length === 0)
    return { type: 'renewed', change: { state: { status: 'working' }, retry: rest } };
  const state = { status: 'input_required', inputRequests } as const;
  return { type: 'shown', change: { state, retry: rest } };
}

/** Why answers are not taken, after which the call may wait for others. */
const ANSWERS_NOT_TAKEN: ReadonlySet<unknown> = new Set<FailureReason>([
  'unauthorized',
  'request_too_large',
]);

/**
 * Tells what a task does after a failure of its call.
 * @param sent the retry that failed; without answers, the call itself failed
 */
function afterFailure(
  failure: Failure,
  { inputResponses }: Retry,
  cause: Failure | null,
): NextStep {
  const { retryable, reason } = objectMember({ ...failure.error }, 'data') ?? {};
  if (retryable === true) return { type: 'later' };
  if (reason === 'invalid_input_response') return { type: 'refused', failure };
  if (inputResponses !== null && ANSWERS_NOT_TAKEN.has(reason))
    return { type: 'notTaken', failure };
  if (reason === 'unauthorized') return { type: 'shutOut', failure };
  const ended = reason === 'invalid_request_state' ? callLost(true) : failure;
  return { type: 'shown', change: failedBy(cause ?? ended) };
}

/** @returns the change to a task that fails */
export function failedBy({ error }: Failure): Partial<TaskRecord> {
  const state = { status: 'failed', error: { ...error } } as const;
  return { state, statusMessage: error.message, retry: null };
}
