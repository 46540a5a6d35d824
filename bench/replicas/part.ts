/** Three replicas that share Redis. */
import { NOT_MEASURED, part } from '../part.ts';
import { times } from '../report/goals.ts';
import { spreadCell } from '../report/table.ts';
import { measureReplicas, type ReplicasResult } from './replicas.ts';

export const replicas = part<ReplicasResult>({
  name: 'replicas',
  estimateMs: ({ replicas: { warmUpMs, rounds, runMs } }) =>
    8_000 + 4 * (warmUpMs + rounds * runMs),
  measure: ({ upstream, folder, options, done }) =>
    measureReplicas(upstream, folder, options.replicas, done),
  section: ({ problem, rows }) => ({
    title: 'Plain calls of one caller over three replicas with Redis, beside one replica, in turns',
    notes: [
      'Each call goes to the next replica. One of the three has the home of the caller, and the others relay to it: two of three',
      'calls take a hop, and none asks Redis. All run on the same cores, with the clients and the server.',
      ...(problem === null ? [] : [`Not run: ${problem}.`]),
    ],
    tables:
      rows.length === 0
        ? []
        : [
            {
              rows: [
                [
                  'replicas',
                  'at once',
                  'calls/s',
                  'x one',
                  'median ms',
                  'p99 ms',
                  'cpu ms',
                  'x one',
                ],
                ...rows.map((row) => [
                  String(row.replicas),
                  String(row.callers),
                  spreadCell(row.callsPerSecond, 0),
                  row.replicas === 1 ? '' : spreadCell(row.callsPerSecondToOne, 2),
                  row.medianMs.toFixed(3),
                  row.p99Ms.toFixed(2),
                  row.cpuMsPerCall?.toFixed(3) ?? '-',
                  row.replicas === 1 ? '' : times(row.cpuToOne, 2),
                ]),
              ],
            },
          ],
  }),
  wanted: [
    {
      what: 'plain call over three replicas, median, one at a time',
      against: 'one replica',
      goal: 'at most 2 x',
      measured: (result) => measured(result, 'medianToOne'),
    },
    {
      what: 'the same, processor time of all replicas',
      against: 'one replica',
      goal: 'at most 2 x',
      measured: (result) => measured(result, 'cpuToOne'),
    },
  ],
});

function measured({ rows }: ReplicasResult, figure: 'medianToOne' | 'cpuToOne'): string {
  const found = rows.find(({ replicas, callers }) => replicas === 3 && callers === 1);
  return found === undefined ? NOT_MEASURED : times(found[figure], 2);
}
