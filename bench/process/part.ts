/** The process: its start and its memory. */
import { NOT_MEASURED, part, type Wanted } from '../part.ts';
import { times } from '../report/goals.ts';
import { spreadCell } from '../report/table.ts';
import { measureFootprint, type Footprint, type FootprintResult } from './footprint.ts';

const START_MS = 1_000;
const SETTLE_MS = 1_000;

function wanted(
  what: string,
  toEarlier: (result: FootprintResult) => number | null,
): Wanted<FootprintResult> {
  return {
    what,
    against: 'the earlier version',
    goal: 'at most 0.6 x',
    measured: (result) => (result.earlier === null ? NOT_MEASURED : times(toEarlier(result), 2)),
  };
}

const row = (name: string, one: Footprint) => [
  name,
  spreadCell(one.startMs, 0),
  mebibytes(one.idleRssBytes.median),
  mebibytes(one.loadedRssBytes),
];
const mebibytes = (bytes: number) => (bytes / 2 ** 20).toFixed(0);

export const footprint = part({
  name: 'process',
  estimateMs: ({ footprint: { starts, loadMs }, earlier }) =>
    (earlier === null ? 2 : 3) * (starts * (START_MS + SETTLE_MS) + loadMs + START_MS + SETTLE_MS),
  measure: ({ upstream, folder, options, done }) =>
    measureFootprint(upstream, folder, options.earlier, options.footprint, done),
  section: ({ gateway, image, earlier, loadMs, ...to }) => ({
    title: `The process: from its start to \`/readyz\`, and its memory (RSS), idle and after ${loadMs / 1_000} s of calls over 32 connections`,
    notes: [],
    tables: [
      {
        rows: [
          ['', 'start ms', 'idle MiB', 'after load MiB'],
          row('gateway, package', gateway),
          row('gateway, image', image),
          ...(earlier === null
            ? []
            : [
                row('earlier version', earlier),
                [
                  'package to the earlier version',
                  ...[to.startToEarlier, to.idleToEarlier, to.loadedToEarlier].map(
                    (value) => value?.toFixed(2) ?? '-',
                  ),
                ],
              ]),
        ],
      },
    ],
  }),
  wanted: [
    wanted('RSS of the process, idle', ({ idleToEarlier }) => idleToEarlier),
    wanted('RSS of the process, after the load', ({ loadedToEarlier }) => loadedToEarlier),
    wanted('start to /readyz', ({ startToEarlier }) => startToEarlier),
  ],
});
