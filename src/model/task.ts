/** Tasks, as the rest of the gateway and dialects see them: what a task is now, and what can be done with it. */
import { z } from 'zod';
import { type Failure, jsonObject, jsonRpcError } from './request.ts';

/** What a task is at, with what its client has to know of that (tasks, "Task Status"). */
export const taskState = z.discriminatedUnion('status', [
  z.strictObject({ status: z.literal('working') }),
  /** All questions that wait for an answer. A key names one question for the whole life of the task. */
  z.strictObject({ status: z.literal('input_required'), inputRequests: jsonObject }),
  /** The result of the call. One with `isError` is a result as well. */
  z.strictObject({ status: z.literal('completed'), result: jsonObject }),
  /** The JSON-RPC error of the call. */
  z.strictObject({
    status: z.literal('failed'),
    error: jsonRpcError,
  }),
  z.strictObject({ status: z.literal('cancelled') }),
]);
export type TaskState = z.infer<typeof taskState>;

/** What a client sees of a task, besides its id. */
export const seenTask = z.strictObject({
  state: taskState,
  /** What the server said last of its progress, or of its failure; `null` if it said nothing. */
  statusMessage: z.string().nullable(),
  /** In ms since the epoch. */
  createdAtMs: z.number(),
  /** In ms since the epoch. */
  updatedAtMs: z.number(),
  /** How long the task lives from its creation on, in ms. */
  ttlMs: z.number(),
  /** How long its client should wait between two looks at it, in ms. */
  pollIntervalMs: z.number(),
});

/** A task, as its client sees it. */
export type Task = Readonly<z.infer<typeof seenTask>> & {
  /** Sealed for its principal, and the same for as long as the task lives. */
  readonly taskId: string;
};

/** The reply to a request about a task. The request failed if there is no such task for its caller. */
export type TaskReply =
  | { readonly type: 'task'; readonly task: Task }
  | { readonly type: 'failed'; readonly failure: Failure };

export const TASK_STATUSES = taskState.options.map(({ shape }) => shape.status.value);

/** True for a state that a task never leaves. */
export function isTaskOver({ status }: TaskState): boolean {
  return status !== 'working' && status !== 'input_required';
}
