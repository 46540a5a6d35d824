/** Tasks. */
import { NOT_MEASURED, part } from '../part.ts';
import { times } from '../report/goals.ts';
import { measureProgress, type ProgressResult } from './progress.ts';
import { measureTasks, type TasksResult, type Waiting } from './tasks.ts';

/** Tasks a second that are made on a slow machine. */
const CREATED_PER_S = 200;

interface Result extends TasksResult {
  readonly progress: ProgressResult;
}

export const tasks = part<Result>({
  name: 'tasks',
  estimateMs: ({ tasks: { count, warmUp, pollMs, progress } }) =>
    2 * (5_000 + ((count + warmUp) * 1_000) / CREATED_PER_S + 1.25 * pollMs) +
    2 * (progress.rounds + 1) * (progress.workMs + 1_500),
  measure: async ({ upstream, folder, options, done }) => {
    const progress = await measureProgress(upstream, folder, options.tasks.progress);
    return { ...(await measureTasks(upstream, folder, options.tasks, done)), progress };
  },
  section: ({ tasks, parked, completed, progress }) => ({
    title: `${tasks.count} calls at once that are tasks, in one process without a store`,
    notes: [
      'Each waits for an answer. Memory is that of the gateway, after garbage collection, with the parked call.',
      'A task is looked at by tasks/get, and a call without a task by a retry that answers nothing.',
      `${completed} of the tasks were answered afterwards, and completed.`,
    ],
    tables: [
      {
        rows: [
          ['', 'created/s', 'RSS KiB each', 'heap KiB each', 'looks/s'],
          row('parked calls', parked),
          row('tasks', tasks),
          [
            'tasks to parked calls',
            times(tasks.createdPerSecond / parked.createdPerSecond, 2),
            times(tasks.rssBytesEach / parked.rssBytesEach, 2),
            times(tasks.heapUsedBytesEach / parked.heapUsedBytesEach, 2),
            times(tasks.looksPerSecond / parked.looksPerSecond, 2),
          ],
        ],
      },
      {
        caption: `A tool that reports its progress 50 times a second for ${progress.workMs / 1_000} s, with 1 MB of arguments; tasks are kept in Redis`,
        rows: [
          ['', 'CPU ms of the gateway for a call'],
          ['call', progress.callCpuMs?.toFixed(0) ?? '-'],
          ['call that is a task', progress.taskCpuMs?.toFixed(0) ?? '-'],
        ],
      },
    ],
    ...(progress.problem === null ? {} : { after: [`Without progress: ${progress.problem}.`] }),
  }),
  wanted: [
    {
      what: 'CPU of a task with 50 reports a second and 1 MB of arguments',
      against: 'the same call without a task',
      goal: 'at most 1.2 x',
      measured: ({ progress: { problem, taskToCall } }) =>
        problem === null ? times(taskToCall, 2) : NOT_MEASURED,
    },
  ],
});

function row(name: string, waiting: Waiting): string[] {
  const { createdPerSecond, rssBytesEach, heapUsedBytesEach, looksPerSecond } = waiting;
  return [
    name,
    createdPerSecond.toFixed(0),
    (rssBytesEach / 1_024).toFixed(2),
    (heapUsedBytesEach / 1_024).toFixed(2),
    looksPerSecond.toFixed(0),
  ];
}
