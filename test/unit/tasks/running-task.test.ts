/** A task that waits for its call: what becomes of answers that come meanwhile, and of a store that is unreachable. */
import { describe, expect, test } from 'vitest';
import { DirectoryUnavailable, type Written } from '../../../src/model/store.ts';
import { isTaskOver } from '../../../src/model/task.ts';
import { illFormedAnswer } from '../../../src/model/question-failures.ts';
import type { CallReply, EdgeRequest, Waiter } from '../../../src/model/request.ts';
import { homeId } from '../../../src/protocol/ids.ts';
import type { JsonObject } from '../../../src/protocol/json.ts';
import type { TaskRecord } from '../../../src/tasks/record.ts';
import { RunningTask } from '../../../src/tasks/running-task.ts';
import type { TaskStore } from '../../../src/tasks/store.ts';
import { FIRST, settled } from '../../fixtures/calls-testbed.ts';
import { ManualClock } from '../../fixtures/manual-clock.ts';

const QUESTIONS: JsonObject = { 'elicitation-1': { method: 'elicitation/create', params: {} } };
const ANSWERS: JsonObject = { 'elicitation-1': { action: 'accept', content: {} } };
const DONE: CallReply = { kind: 'result', result: { resultType: 'complete', content: [] } };

function asking(requestState: string, inputRequests = QUESTIONS): CallReply {
  const result = { resultType: 'input_required', inputRequests, requestState };
  return { kind: 'result', result };
}

/** A task whose call replies when the test says so. */
function taskTestbed({
  store = null,
  inputResponses = null,
}: {
  readonly store?: Partial<TaskStore> | null;
  readonly inputResponses?: JsonObject | null;
} = {}) {
  const clock = new ManualClock();
  const retries: EdgeRequest[] = [];
  const waiters: Waiter[] = [];
  /** What became of the task, and what it did with its call. */
  const did: string[] = [];
  let reply: (reply: CallReply) => void = () => {};
  const { caller, inputResponses: _none, requestState: _new, ...request } = FIRST;
  const status = inputResponses === null ? 'input_required' : 'working';
  const nowMs = clock.now();
  const withAll: Partial<TaskStore> = { giveUp: () => {}, ...store };
  const task = new RunningTask(
    {
      state: status === 'working' ? { status } : { status, inputRequests: QUESTIONS },
      ...{ statusMessage: null, changes: 0 },
      ...{ createdAtMs: nowMs, updatedAtMs: nowMs, ttlMs: 600_000, pollIntervalMs: 1_000 },
      retry: { request, requestState: 'round-1', inputResponses },
    },
    caller,
    {
      home: homeId('task:1'),
      calls: {
        serve: (retry, waiter) => {
          retries.push(retry);
          waiters.push(waiter);
          return new Promise((resolve) => (reply = resolve));
        },
        cancelHere: () => true,
        sendBack: () => void did.push('send back'),
      },
      store: store && (withAll as TaskStore),
      clock,
      onGone: () => void did.push('gone'),
      onNotStopped: () => {},
    },
  );
  const replies = async (to: CallReply) => {
    reply(to);
    await settled();
  };
  return { task, clock, retries, waiters, did, replies };
}

// Rule promoted-3.
test('answers that come while the task looks at its call go with the next retry', async () => {
  const { task, clock, retries, replies } = taskTestbed();
  // The stream of the parked call is being resumed: the retry that looks at it waits.
  task.moved();
  const answered = task.answer(ANSWERS);
  await settled();
  clock.advance(250);
  expect(await answered).toBeNull();
  await replies(asking('round-1'));
  expect(retries.map(({ inputResponses }) => inputResponses)).toEqual([null, ANSWERS]);
  await replies(DONE);
  expect(task.record.state.status).toBe('completed');
});

describe('an answer that does not fit its question', () => {
  const refused: CallReply = { kind: 'failed', failure: illFormedAnswer('elicitation-1', 'wrong') };

  // Rule promoted-3.
  test('leaves the question open, also when that is found out late', async () => {
    const { task, clock, replies } = taskTestbed();
    const answered = task.answer(ANSWERS);
    await settled();
    clock.advance(250);
    expect(await answered).toBeNull();
    await replies(refused);
    expect(task.record.state).toEqual({ status: 'input_required', inputRequests: QUESTIONS });
  });

  // Rule promoted-3.
  test('leaves the question open that it is for, if another one was open before', async () => {
    const { task, clock, retries, replies } = taskTestbed();
    void task.answer(ANSWERS);
    await settled();
    // The call asks again, and moves once more before the task has seen that: the task looks at it.
    task.moved();
    const second: JsonObject = { 'elicitation-2': { method: 'elicitation/create', params: {} } };
    await replies(asking('round-2', second));
    const answered = task.answer({ 'elicitation-2': { action: 'accept', content: {} } });
    await replies(asking('round-2', second));
    clock.advance(250);
    expect(await answered).toBeNull();
    await replies(refused);
    await replies(asking('round-2', second));
    expect(retries).toHaveLength(4);
    expect(task.record.state).toEqual({ status: 'input_required', inputRequests: second });
  });

  // Rule promoted-3.
  test('leaves the question open at the replica that went on with the task', async () => {
    const { task, retries, replies } = taskTestbed({ inputResponses: ANSWERS });
    task.begin();
    await replies(refused);
    await replies(asking('round-1'));
    expect(retries.map(({ inputResponses }) => inputResponses)).toEqual([ANSWERS, null]);
    expect(task.record.state).toEqual({ status: 'input_required', inputRequests: QUESTIONS });
  });
});

describe('answers that did not reach the call', () => {
  const notTaken = { reason: 'unauthorized', mayHaveActed: 'yes' };
  const error = { code: -32603, message: 'refused', data: notTaken };
  const refused = { kind: 'failed', failure: { error, httpStatus: 200 } } as const;

  // Rule promoted-3.
  test.each(['unauthorized', 'request_too_large'])(
    'leave the question open: %s',
    async (reason) => {
      const { task, retries, replies } = taskTestbed();
      const answered = task.answer(ANSWERS);
      await settled();
      const failure = { error: { ...error, data: { ...notTaken, reason } }, httpStatus: 200 };
      await replies({ kind: 'failed', failure });
      await replies(asking('round-1'));
      expect(await answered).toBe(failure);
      expect(retries.map(({ inputResponses }) => inputResponses)).toEqual([ANSWERS, null]);
      expect(task.record.state).toEqual({ status: 'input_required', inputRequests: QUESTIONS });
    },
  );

  // Rule promoted-3.
  test('end the task if they ended the call', async () => {
    const { task, replies } = taskTestbed();
    const answered = task.answer(ANSWERS);
    await settled();
    await replies(refused);
    const data = { reason: 'invalid_request_state' };
    const ended = { error: { ...error, message: 'ended', data }, httpStatus: 200 };
    await replies({ kind: 'failed', failure: ended });
    expect(await answered).toBe(refused.failure);
    expect(task.record.state).toMatchObject({ status: 'failed', error: { message: 'refused' } });
  });

  // Rule promoted-3.
  test('are not why a call fails that has gone on without them', async () => {
    const { task, replies } = taskTestbed();
    const answered = task.answer(ANSWERS);
    await settled();
    await replies(refused);
    // While the task looks at its call, that asks something else.
    task.moved();
    await replies(asking('round-1'));
    const data = { reason: 'upstream_protocol_error' };
    const ended = { error: { ...error, message: 'ended', data }, httpStatus: 200 };
    await replies({ kind: 'failed', failure: ended });
    expect(await answered).toBe(refused.failure);
    expect(task.record.state).toMatchObject({ status: 'failed', error: { message: 'ended' } });
  });

  // Rule promoted-3.
  test('are not what a call lacks that failed before it had any', async () => {
    const { task, retries, replies } = taskTestbed();
    task.moved();
    const data = { ...notTaken, reason: 'request_too_large' };
    await replies({ kind: 'failed', failure: { error: { ...error, data }, httpStatus: 200 } });
    expect(retries).toHaveLength(1);
    expect(task.record.state).toMatchObject({ status: 'failed', error: { message: 'refused' } });
  });
});

describe('credentials that the server refuses when the call of a task is to go on', () => {
  const data = { reason: 'unauthorized', mayHaveActed: 'yes' };
  const error = { code: -32603, message: 'refused', data };
  const refused = { kind: 'failed', failure: { error, httpStatus: 401 } } as const;
  const bob = { ...FIRST.caller, headers: { authorization: 'Bearer renewed' } };

  // Rule promoted-23: If the server refuses credentials, the call goes on with those of the next request about the
  // task, or fails.
  test('are replaced by those of the next request about it', async () => {
    const { task, retries, replies } = taskTestbed();
    task.moved();
    await replies(refused);
    expect(retries).toHaveLength(1);
    task.usedBy(bob);
    await settled();
    expect(retries.map(({ caller }) => caller.headers)).toEqual([
      FIRST.caller.headers,
      bob.headers,
    ]);
    await replies(DONE);
    expect(task.record.state.status).toBe('completed');
  });

  // Rule promoted-23.
  test('end the task if those of the next request are refused as well', async () => {
    const { task, replies } = taskTestbed();
    task.moved();
    await replies(refused);
    expect(task.record.state.status).toBe('input_required');
    task.usedBy(bob);
    await settled();
    await replies(refused);
    expect(task.record.state).toMatchObject({ status: 'failed', error: { message: 'refused' } });
  });
});

// Rule shared-21: A task whose result or questions exceed 47 MiB fails with -32603.
test.each([
  ['a result', { kind: 'result', result: { content: [], text: 'x'.repeat(48 * 1024 * 1024) } }],
  ['a question', asking('x'.repeat(48 * 1024 * 1024))],
] as const)('a task with %s that no replica could read from the store fails', async (_, reply) => {
  const kept: TaskRecord[] = [];
  const keep = async (_key: unknown, record: TaskRecord): Promise<Written> => {
    kept.push(record);
    return 'kept';
  };
  const store: Partial<TaskStore> = { keep };
  const { task, replies } = taskTestbed({
    store,
    inputResponses: ANSWERS,
  });
  task.begin();
  await replies(reply as CallReply);
  expect(task.record.state).toMatchObject({ status: 'failed', error: { code: -32603 } });
  expect(kept.at(-1)?.state).toEqual(task.record.state);
  // In memory it has all the room of the process.
  const alone = taskTestbed({ inputResponses: ANSWERS });
  alone.task.begin();
  await alone.replies(reply as CallReply);
  expect(alone.task.record.state.status).toMatch(/^(?:completed|input_required)$/);
});

test('a task is left although the store is unreachable', async () => {
  const keep = () => Promise.reject(new DirectoryUnavailable('timeout', 'away'));
  const store: Partial<TaskStore> = { keep };
  const { task, clock } = taskTestbed({ store });
  task.learned({ ttlMs: null, pollIntervalMs: 1_000, statusMessage: 'half done' });
  await settled();
  const left = task.leave();
  clock.advance(2_000);
  await left;
  await settled();
  expect(clock.pending).toBe(0);
});

describe('a task that another replica has taken over', () => {
  // Rule shared-13.
  test('keeps nothing any more, and has its call reply to its waiter', async () => {
    const tried: unknown[] = [];
    const store: Partial<TaskStore> = {
      keep: async (_home, { statusMessage }) => {
        tried.push(statusMessage);
        return 'lost';
      },
      find: async () => null,
      isStillHere: async () => false,
    };
    const testbed = taskTestbed({ store, inputResponses: ANSWERS });
    const { task, clock, waiters, did, replies } = testbed;
    task.begin();
    await settled();
    task.keepAgain();
    await settled();
    waiters[0]?.notify('notifications/progress', {
      progressToken: 1,
      progress: 1,
      message: 'half',
    });
    await settled();
    expect(tried).toEqual([null]);
    expect(did).toEqual(['gone', 'send back']);
    expect([waiters[0]?.closed.aborted, task.credentialsKey]).toEqual([false, null]);
    await replies(asking('round-1'));
    expect(clock.pending).toBe(0);
  });

  // Rule shared-13.
  test.each<[string, (task: RunningTask) => unknown]>([
    ['it is asked for', (task) => task.lookForEnd()],
    [
      'it changes',
      (task) => task.learned({ ttlMs: null, pollIntervalMs: 1_000, statusMessage: 'half done' }),
    ],
  ])('lets its call be cancelled that the one before has cancelled, when %s', async (_, look) => {
    const cancelled = { state: { status: 'cancelled' }, statusMessage: null };
    const kept: unknown[] = [];
    const store: Partial<TaskStore> = {
      find: async () => cancelled as TaskRecord,
      keep: async (_key, { state }) => {
        if (!isTaskOver(state)) return 'ended';
        kept.push(state.status);
        return 'kept';
      },
    };
    const { task, waiters, did } = taskTestbed({
      store,
      inputResponses: ANSWERS,
    });
    task.noteTakenOver();
    task.begin();
    await look(task);
    await settled();
    expect(waiters.map(({ closed }) => closed.aborted)).toEqual([true]);
    expect(did).toEqual(['gone']);
    expect(kept).not.toContain('working');
  });

  // Rule shared-13.
  test('is not looked for once it is given back', async () => {
    const looks: string[] = [];
    const store: Partial<TaskStore> = {
      keep: async () => 'kept',
      isStillHere: async (home) => looks.push(home) < 0,
    };
    const { task, clock, did, replies } = taskTestbed({
      store,
      inputResponses: ANSWERS,
    });
    task.begin();
    const error = { code: -32000, message: 'later', data: { retryable: true } };
    await replies({ kind: 'failed', failure: { error, httpStatus: 200 } });
    await task.leave();
    clock.advance(1_000);
    await settled();
    expect([did, looks]).toEqual([['gone'], []]);
  });

  // Rule shared-13.
  test('takes no answer and no cancellation, unless it has ended', async () => {
    const { task, clock } = taskTestbed();
    await task.leave();
    const answered = task.answer(ANSWERS);
    await settled();
    clock.advance(250);
    await answered;
    task.cancel();
    expect(task.record.state.status).toBe('input_required');
    expect(task.isElsewhere).toBe(true);
    const { task: ended, replies } = taskTestbed({ inputResponses: ANSWERS });
    ended.begin();
    await replies(DONE);
    await ended.leave();
    expect(ended.isElsewhere).toBe(false);
  });
});
