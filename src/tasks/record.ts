/** What is known of a task: what its client sees, and what a replica needs to go on with its call. */
import { z } from 'zod';
import { callFailure } from '../model/failures.ts';
import { type EdgeRequest, type Failure, jsonObject } from '../model/request.ts';
import { taskState, type Task, type TaskReply } from '../model/task.ts';
import { parseJson } from '../protocol/json.ts';

/** The request of a call, without what belongs to one HTTP request of its client. */
export type TaskRequest = Omit<
  EdgeRequest,
  'caller' | 'inputResponses' | 'requestState' | 'task' | 'wantsTask' | 'span' | 'hop'
>;

export interface TaskRecord extends Omit<Task, 'taskId'> {
  /** How often the task has changed since it was created. */
  readonly changes: number;
  /** With what the call is retried; `null` once the task is over. */
  readonly retry: TaskRetry | null;
}

interface TaskRetry {
  readonly request: TaskRequest;
  readonly requestState: string;
  /** The answers that are on their way to the server; `null` if there are none. */
  readonly inputResponses: z.infer<typeof jsonObject> | null;
}

const storedTask = z.strictObject({
  v: z.literal(1),
  changes: z.int().min(0),
  state: taskState,
  statusMessage: z.string().nullable(),
  createdAtMs: z.number(),
  updatedAtMs: z.number(),
  ttlMs: z.number(),
  pollIntervalMs: z.number(),
  retry: z
    .strictObject({
      request: z.custom<TaskRequest>((value) => jsonObject.safeParse(value).success),
      requestState: z.string(),
      inputResponses: jsonObject.nullable(),
    })
    .nullable(),
});

/** Returns the reply to a request about a task with this record. */
export function replyOf(taskId: string, record: TaskRecord): TaskReply {
  const { retry: _retry, changes: _changes, ...task } = record;
  return { type: 'task', task: { ...task, taskId } };
}

/** The longest record that is kept, in bytes: what is sealed is a third longer, and `MAX_SEALED_BYTES` of the store are opened. */
const MAX_RECORD_BYTES = 47 * 1024 * 1024;

/** The failure of a task that no other replica could read from the store. */
export const TASK_TOO_LARGE: Failure = callFailure(
  'upstream_protocol_error',
  'yes',
  'The server sent more than a task that replicas share can hold',
);

/** Tells whether a record can be read from the store again. */
export function isStorable(record: TaskRecord): boolean {
  return writeRecord(record).byteLength <= MAX_RECORD_BYTES;
}

/** Writes a record for the store. */
export function writeRecord(record: TaskRecord): Uint8Array {
  const stored: z.infer<typeof storedTask> = { v: 1, ...record };
  return Buffer.from(JSON.stringify(stored));
}

/** Reads a record. It comes sealed, with a version. @throws if another build wrote it */
export function readRecord(bytes: Uint8Array): TaskRecord {
  const text = Buffer.from(bytes).toString('utf8');
  const { v: _v, ...record } = storedTask.parse(parseJson(text));
  return record;
}

/** Returns the part of a request that its retries have in common. They are those of a task, and become no other one. */
export function requestOf({ profile, ...request }: EdgeRequest): TaskRequest {
  const { tasks: _tasks, ...rest } = profile;
  const { method, params, forwardedMeta, clientInfo, logLevel, progressToken } = request;
  return { method, params, forwardedMeta, clientInfo, logLevel, progressToken, profile: rest };
}
