/** Several workers. */
import { NOT_MEASURED, part } from '../part.ts';
import { times } from '../report/goals.ts';
import { spreadCell } from '../report/table.ts';
import { measureWorkers, type Sessions, type WorkersResult } from './workers.ts';

const NAMES: Readonly<Record<Sessions, string>> = {
  separate: 'sessions of the worker',
  homes: 'homes of the callers',
};

export const workers = part<WorkersResult>({
  name: 'workers',
  estimateMs: ({ workers: { warmUpMs, rounds, runMs } }) =>
    15_000 + 4 * (warmUpMs + (rounds + 1) * runMs),
  measure: ({ upstream, folder, options, done }) =>
    measureWorkers(upstream, folder, options.workers, done),
  section: ({ problem, share, rows }) => ({
    title: 'Two workers beside one process, 64 callers, a new connection every 50 calls',
    notes: [
      `Each process that serves clients is held to ${Math.round(share * 100)} % of a core by a control group, so that the machine is not the limit.`,
      'With sessions.concurrency: separate, a call uses a session of the worker that it reaches. With homes, half of the',
      'calls of two workers are relayed to the other one.',
      ...(problem === null ? [] : [`Not run: ${problem}.`]),
    ],
    tables:
      rows.length === 0
        ? []
        : [
            {
              rows: [
                ['sessions', 'workers', 'calls/s', 'x one'],
                ...rows.map((row) => [
                  NAMES[row.sessions],
                  String(row.workers),
                  spreadCell(row.callsPerSecond, 0),
                  row.workers === 1 ? '' : spreadCell(row.toOne, 2),
                ]),
              ],
            },
          ],
  }),
  wanted: [
    {
      what: 'calls/s with two workers, each held to a share of a core',
      against: 'one process',
      goal: 'at least 1.8 x',
      measured: (result) => measured(result, 'separate'),
    },
    {
      what: 'the same, with homes',
      against: 'one process',
      goal: 'at least 1.5 x',
      measured: (result) => measured(result, 'homes'),
    },
  ],
});

function measured({ rows }: WorkersResult, sessions: Sessions): string {
  const found = rows.find((row) => row.sessions === sessions && row.workers === 2);
  return found === undefined ? NOT_MEASURED : times(found.toOne.median, 2);
}
