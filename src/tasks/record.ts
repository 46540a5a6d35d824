/** What is known of a task: what its client sees, and what a replica needs to go on with its call. */
import { z } from 'zod';
import { callFailure } from '../model/failures.ts';
import { type EdgeRequest, type Failure, jsonObject } from '../model/request.ts';
import { seenTask, type TaskReply } from '../model/task.ts';
import { parseJson } from '../protocol/json.ts';

/** The request of a call, without what belongs to one HTTP request of its client. */
export type TaskRequest = Omit<
  EdgeRequest,
  'caller' | 'inputResponses' | 'requestState' | 'task' | 'wantsTask' | 'span' | 'hop'
>;

const storedTask = seenTask.extend({
  v: z.literal(1),
  /** How often the task has changed since it was created. */
  changes: z.int().min(0),
  /** With what the call is retried; `null` once the task is over. */
  retry: z
    .strictObject({
      requestState: z.string(),
      /** The answers that are on their way to the server; `null` if there are none. */
      inputResponses: jsonObject.nullable(),
    })
    .nullable(),
});

/** A record without the request of its call. */
export type TaskChange = Readonly<Omit<z.infer<typeof storedTask>, 'v'>>;

export type TaskRecord = Omit<TaskChange, 'retry'> & {
  /** The request does not change, and can be large: in a store it is kept once, apart from the rest. */
  readonly retry: (NonNullable<TaskChange['retry']> & { readonly request: TaskRequest }) | null;
};

const storedRequest = z.strictObject({
  v: z.literal(1),
  request: z.custom<TaskRequest>((value) => jsonObject.safeParse(value).success),
});

/** Returns the reply to a request about a task with this record. */
export function replyOf(taskId: string, record: TaskChange): TaskReply {
  const { retry: _retry, changes: _changes, ...task } = record;
  return { type: 'task', task: { ...task, taskId } };
}

/** The longest record, or request, that is kept, in bytes: what is sealed is a third longer, and `MAX_SEALED_BYTES` of the store are opened. */
const MAX_RECORD_BYTES = 47 * 1024 * 1024;

/** The failure of a task that no other replica could read from the store. */
export const TASK_TOO_LARGE: Failure = callFailure(
  'upstream_protocol_error',
  'yes',
  'The server sent more than a task that replicas share can hold',
);

/** Tells whether what was written can be read from the store again. */
export function isStorable(written: Uint8Array): boolean {
  return written.byteLength <= MAX_RECORD_BYTES;
}

/** Writes a record for the store, without the request. */
export function writeRecord({ retry, ...rest }: TaskRecord): Uint8Array {
  const { request: _request, ...change } = retry ?? {};
  const stored = { v: 1, ...rest, retry: retry && change };
  return Buffer.from(JSON.stringify(stored));
}

/** Reads a record. It comes sealed, with a version. @throws if another build wrote it */
export function readRecord(bytes: Uint8Array): TaskChange {
  const { v: _v, ...record } = storedTask.parse(parseJson(Buffer.from(bytes).toString('utf8')));
  return record;
}

/** Writes the request of a call for the store. */
export function writeRequest(request: TaskRequest): Uint8Array {
  const stored: z.infer<typeof storedRequest> = { v: 1, request };
  return Buffer.from(JSON.stringify(stored));
}

/** Reads the request of a call. It comes sealed, with a version. @throws if another build wrote it */
export function readRequest(bytes: Uint8Array): TaskRequest {
  return storedRequest.parse(parseJson(Buffer.from(bytes).toString('utf8'))).request;
}

/** Returns the part of a request that its retries have in common. They are those of a task, and become no other one. */
export function requestOf({ profile, ...request }: EdgeRequest): TaskRequest {
  const { tasks: _tasks, ...rest } = profile;
  const { method, params, forwardedMeta, clientInfo, logLevel, progressToken } = request;
  return { method, params, forwardedMeta, clientInfo, logLevel, progressToken, profile: rest };
}
