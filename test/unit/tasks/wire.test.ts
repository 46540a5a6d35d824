/** What clients and the store read of a task, whatever is in it. */
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isTaskOver, type Task, type TaskState } from '../../../src/model/task.ts';
import {
  readRecord,
  readRequest,
  writeRecord,
  writeRequest,
  type TaskRecord,
} from '../../../src/tasks/record.ts';
import {
  createTaskResult,
  detailedTask,
  getTaskResult,
  readDetailedTask,
} from '../../../src/tasks/wire.ts';
import { arbitraryJsonObject } from '../../fixtures/arbitrary/json.ts';
import { RETRY } from '../../fixtures/clients/edge-request.ts';

const state: fc.Arbitrary<TaskState> = fc.oneof(
  fc.constant<TaskState>({ status: 'working' }),
  fc.constant<TaskState>({ status: 'cancelled' }),
  arbitraryJsonObject.map((inputRequests): TaskState => ({
    status: 'input_required',
    inputRequests,
  })),
  arbitraryJsonObject.map((result): TaskState => ({ status: 'completed', result })),
  fc
    .record({ code: fc.integer(), message: fc.string(), data: arbitraryJsonObject })
    .map((error): TaskState => ({ status: 'failed', error })),
);
const timeMs = fc.integer({ min: 0, max: Date.UTC(9999, 0) });
const members = {
  state,
  statusMessage: fc.option(fc.string()),
  createdAtMs: timeMs,
  updatedAtMs: timeMs,
  ttlMs: fc.nat(),
  pollIntervalMs: fc.nat(),
};
const task: fc.Arbitrary<Task> = fc.record({ taskId: fc.string({ minLength: 1 }), ...members });

test('another replica reads the task that this one wrote', () => {
  fc.assert(
    fc.property(task, (one) => {
      const written = JSON.parse(JSON.stringify(detailedTask(one)));
      expect(readDetailedTask(written)).toEqual(one);
    }),
  );
});

test('a task has what its status calls for, and no member of another status', () => {
  const MEMBERS: Readonly<Record<string, string>> = {
    input_required: 'inputRequests',
    completed: 'result',
    failed: 'error',
  };
  fc.assert(
    fc.property(task, (one) => {
      const { status } = one.state;
      const got = getTaskResult(one);
      expect(got).toMatchObject({ resultType: 'complete', taskId: one.taskId, status });
      const ofStates = Object.values(MEMBERS).filter((member) => member in got);
      expect(ofStates).toEqual(status in MEMBERS ? [MEMBERS[status]] : []);
      expect('statusMessage' in got).toBe(one.statusMessage !== null);
      const created = createTaskResult(one, undefined);
      expect(created).toMatchObject({ resultType: 'task', status });
      expect(Object.keys(created)).not.toEqual(
        expect.arrayContaining([expect.stringMatching(/^(?:inputRequests|result|error|_meta)$/)]),
      );
    }),
  );
});

test('the store gives back the record that was kept', () => {
  const { caller: _caller, inputResponses: _answers, requestState, ...request } = RETRY;
  const record: fc.Arbitrary<TaskRecord> = fc
    .record({
      ...members,
      changes: fc.nat(),
      answers: fc.option(arbitraryJsonObject),
      params: arbitraryJsonObject,
    })
    .map(({ answers, params, ...rest }) => ({
      ...rest,
      retry: isTaskOver(rest.state)
        ? null
        : {
            request: { ...request, params },
            requestState: String(requestState),
            inputResponses: answers,
          },
    }));
  fc.assert(
    fc.property(record, (one) => {
      const { request, ...change } = one.retry ?? {};
      expect(readRecord(writeRecord(one))).toEqual({ ...one, retry: one.retry && change });
      if (request !== undefined) expect(readRequest(writeRequest(request))).toEqual(request);
    }),
  );
});

test.each([
  ['nothing', ''],
  ['no object', '[]'],
  ['another version', '{"v":2}'],
  ['a member more', null],
])('a record with %s is refused', (_, text) => {
  const record: TaskRecord = {
    ...{ state: { status: 'working' }, statusMessage: null, retry: null, changes: 0 },
    ...{ createdAtMs: 0, updatedAtMs: 0, ttlMs: 1, pollIntervalMs: 1 },
  };
  const good = Buffer.from(writeRecord(record)).toString();
  expect(() => readRecord(Buffer.from(good))).not.toThrow();
  const bad = text ?? good.replace('{', '{"more":1,');
  expect(() => readRecord(Buffer.from(bad))).toThrow();
});
