/** What the gateway reads of legacy tasks. */
import { describe, expect, test } from 'vitest';
import {
  demandsTask,
  isTaskTool,
  pollIntervalOf,
  readCreatedTask,
  relatedTaskOf,
  runsToolTasks,
  withoutTaskId,
  withRelatedTask,
} from '../../../src/protocol/task.ts';

const RELATED = 'io.modelcontextprotocol/related-task';

describe('a server', () => {
  test.each([
    [{ tasks: { requests: { tools: { call: {} } } } }, true],
    [{ tasks: { list: {}, cancel: {} } }, false],
    [{ tasks: { requests: { tools: {} } } }, false],
    [{ tasks: true }, false],
    [{}, false],
  ])('with the capabilities %j runs tool calls as tasks: %s', (capabilities, runs) => {
    expect(runsToolTasks(capabilities)).toBe(runs);
  });

  test.each([
    [{ execution: { taskSupport: 'required' } }, true],
    [{ execution: { taskSupport: 'optional' } }, false],
    [{ execution: { taskSupport: 'forbidden' } }, false],
    [{ execution: 'required' }, false],
    [{}, false],
  ])('that lists the tool %j demands a task: %s', (tool, demands) => {
    expect(isTaskTool(tool)).toBe(demands);
  });

  test.each([
    [-32601, true],
    [-32600, true],
    [-32602, false],
    [-32603, false],
  ])('that replies with error %d demands a task: %s', (code, demands) => {
    expect(demandsTask({ error: { code, message: '' } })).toBe(demands);
    expect(demandsTask({ result: { code } })).toBe(false);
  });
});

test.each([
  [{ task: { taskId: 't', pollInterval: 5_000 } }, { taskId: 't', pollIntervalMs: 5_000 }],
  [{ task: { taskId: 't' } }, { taskId: 't', pollIntervalMs: 1_000 }],
  [{ task: { taskId: '' } }, null],
  [{ task: { taskId: 7 } }, null],
  [{ content: [] }, null],
])('the result %j creates the task %j', (result, task) => {
  expect(readCreatedTask(result)).toEqual(task);
});

test.each([
  [0, 100],
  [-5, 100],
  [250, 250],
  [1e12, 3_600_000],
  ['500', 1_000],
])('a suggested interval of %j ms becomes %d ms', (pollInterval, expected) => {
  expect(pollIntervalOf({ pollInterval })).toBe(expected);
});

test('a message names its task in its _meta, beside what else is there', () => {
  const message = withRelatedTask({ action: 'accept', _meta: { 'a.example/x': 1 } }, 't');
  expect(message).toEqual({
    action: 'accept',
    _meta: { 'a.example/x': 1, [RELATED]: { taskId: 't' } },
  });
  expect(relatedTaskOf(message)).toBe('t');
  expect(relatedTaskOf({ _meta: { [RELATED]: { taskId: 7 } } })).toBeNull();
  expect(relatedTaskOf({})).toBeNull();
});

test('the id of a task is taken out of the text of an error, and out of nothing else', () => {
  const error = { code: -32603, message: 'task t-1 failed: t-1' };
  expect(withoutTaskId({ error }, 't-1')).toEqual({
    error: { code: -32603, message: 'task … failed: …' },
  });
  expect(withoutTaskId({ error }, 't-2')).toEqual({ error });
  expect(withoutTaskId({ result: { text: 't-1' } }, 't-1')).toEqual({ result: { text: 't-1' } });
});
