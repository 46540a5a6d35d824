/** The process: its start and its memory. */
import { part } from '../part.ts';
import { spreadCell } from '../report/table.ts';
import { measureFootprint, type Footprint } from './footprint.ts';

const START_MS = 1_000;
const SETTLE_MS = 1_000;

/** Kinds of servers whose first discovery is measured. */
const COLD = 4;

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
    (earlier === null ? 3 : 4) * ((starts + 2) * (START_MS + SETTLE_MS) + loadMs) +
    COLD * starts * START_MS,
  measure: ({ upstream, folder, options, done }) =>
    measureFootprint(upstream, folder, options.earlier, options.footprint, done),
  section: ({ gateway, image, bare, earlier, loadMs, discovers, ...to }) => ({
    title: `The process: from its start to \`/readyz\`, and its memory (RSS), idle and after ${loadMs / 1_000} s of calls over 32 connections`,
    notes: [
      'The bare form is a bundle of the libraries that the gateway loads at its start, run as the image is: what these libraries take alone.',
    ],
    tables: [
      {
        rows: [
          ['', 'start ms', 'idle MiB', 'after load MiB'],
          row('gateway, package', gateway),
          row('gateway, image', image),
          row('bare form', bare),
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
      {
        caption: 'The first `server/discover` on a route, in JSON',
        rows: [
          ['server', 'ms'],
          ...discovers.map(({ server, tookMs }) => [server, spreadCell(tookMs, 0)]),
        ],
      },
    ],
  }),
  wanted: [
    {
      what: 'RSS of the process, idle, image',
      against: '-',
      goal: 'at most 70 MiB',
      measured: ({ image, bare }) =>
        besideBare(image.idleRssBytes.median, bare.idleRssBytes.median),
    },
    {
      what: 'RSS of the process, after the load, image',
      against: '-',
      goal: 'at most 160 MiB',
      measured: ({ image, bare }) => besideBare(image.loadedRssBytes, bare.loadedRssBytes),
    },
    {
      what: 'start to /readyz, package',
      against: '-',
      goal: 'at most 250 ms',
      measured: ({ gateway }) => `${gateway.startMs.median.toFixed(0)} ms`,
    },
    {
      what: 'first discover of a cold route, the slowest kind of server',
      against: '-',
      goal: 'at most 500 ms, JSON',
      measured: ({ discovers }) =>
        `${Math.max(...discovers.map(({ slowestMs }) => slowestMs)).toFixed(0)} ms`,
    },
  ],
});

const besideBare = (bytes: number, bare: number) =>
  `${mebibytes(bytes)} MiB (bare form: ${mebibytes(bare)})`;
