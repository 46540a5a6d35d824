/** What a reply of its call means for a task: how its record changes, and what the task does next. */
import { callLost, type FailureReason } from '../model/failures.ts';
import type { CallReply, Failure } from '../model/request.ts';
import { objectMember } from '../protocol/json.ts';
import type { JsonRpcErrorObject } from '../protocol/json-rpc.ts';
import type { TaskRecord } from './record.ts';
import { retryOf } from './task-calls.ts';

/** What a task does after a reply of its call. */
export type NextStep =
  /** The client is to be shown something, or the task is over. */
  | { readonly type: 'shown' }
  /** The call goes on, and the pointer to it is a newer one. */
  | { readonly type: 'renewed' }
  /** The call cannot be continued now. */
  | { readonly type: 'later' }
  | { readonly type: 'refused'; readonly failure: Failure }
  /** The call, or the server, did not take the answers: the call says what is open now. */
  | { readonly type: 'notTaken'; readonly failure: Failure };

/** What the call of a task waits for, and with what it is retried. */
export type Asked = Pick<TaskRecord, 'state' | 'retry'>;

export interface ReplyMeaning {
  readonly next: NextStep;
  /** `null` if nothing changes. */
  readonly change: Partial<TaskRecord> | null;
  /** What was asked, if answers have come meanwhile that the next retry has; `null` otherwise. */
  readonly asked: Asked | null;
}

const SHOWN: NextStep = { type: 'shown' };

/**
 * Tells what a reply means.
 * @param sent the retry that it replies to
 * @param record of the task, as it is now
 * @param cause why the answers of the retry before were not taken, if they were not: the call can have ended with them
 */
export function meaningOf(
  reply: CallReply,
  sent: TaskRecord['retry'],
  { retry }: TaskRecord,
  cause: Failure | null,
): ReplyMeaning {
  if (retry === null) return { next: SHOWN, change: null, asked: null };
  if (reply.kind === 'failed') {
    const step = afterFailure(reply.failure, sent);
    if (step.type !== 'failed') return { next: step, change: null, asked: null };
    const { error } = cause ?? step;
    const state = { status: 'failed', error: { ...error } } as const;
    const change = { state, statusMessage: error.message, retry: null };
    return { next: SHOWN, change, asked: null };
  }
  const promoted = retryOf(reply);
  if (promoted === null) {
    const state = { status: 'completed', result: reply.result } as const;
    return { next: SHOWN, change: { state, retry: null }, asked: null };
  }
  const { requestState, inputRequests } = promoted;
  const isAsked = Object.keys(inputRequests).length > 0;
  const asked: Asked = {
    state: isAsked ? { status: 'input_required', inputRequests } : { status: 'working' },
    retry: { ...retry, requestState, inputResponses: null },
  };
  if (retry === sent) {
    return { next: isAsked ? SHOWN : { type: 'renewed' }, change: asked, asked: null };
  }
  // Answers have come meanwhile: the next retry has them.
  return { next: { type: 'renewed' }, change: { retry: { ...retry, requestState } }, asked };
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
  sent: TaskRecord['retry'],
): NextStep | { readonly type: 'failed'; readonly error: JsonRpcErrorObject } {
  const { error } = failure;
  const { retryable, reason } = objectMember({ ...error }, 'data') ?? {};
  if (retryable === true) return { type: 'later' };
  if (reason === 'invalid_input_response') return { type: 'refused', failure };
  const hadAnswers = (sent?.inputResponses ?? null) !== null;
  if (hadAnswers && ANSWERS_NOT_TAKEN.has(reason)) return { type: 'notTaken', failure };
  return {
    type: 'failed',
    error: reason === 'invalid_request_state' ? callLost(true).error : error,
  };
}
