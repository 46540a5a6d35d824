/** Tasks. */
import { part } from '../part.ts';
import { times } from '../report/goals.ts';
import { measureTasks, type Waiting } from './tasks.ts';

/** Tasks a second that are made on a slow machine. */
const CREATED_PER_S = 200;

export const tasks = part({
  name: 'tasks',
  estimateMs: ({ tasks: { count, warmUp, pollMs } }) =>
    2 * (5_000 + ((count + warmUp) * 1_000) / CREATED_PER_S + 1.25 * pollMs),
  measure: ({ upstream, folder, options, done }) =>
    measureTasks(upstream, folder, options.tasks, done),
  section: ({ tasks, parked, completed }) => ({
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
    ],
  }),
  wanted: [],
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
