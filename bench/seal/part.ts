/** Seals. */
import { NOT_MEASURED, part } from '../part.ts';
import { times } from '../report/goals.ts';
import { measureSeal } from './seal.ts';

const row = (name: string, us: number, gateway: number | null) => [
  name,
  us.toFixed(1),
  gateway?.toFixed(2) ?? '-',
];

export const seal = part({
  name: 'seal',
  estimateMs: ({ seal: { warmUp, samples } }) => 500 + warmUp + samples,
  measure: ({ options }) => measureSeal(options.seal, options.earlier),
  section: ({ samples, length, medianUs, ...to }) => ({
    title: `Sealing and opening one requestState of ${length} characters, ${samples} of each, in turns`,
    notes: [],
    tables: [
      {
        rows: [
          ['', 'median us', 'gateway x this'],
          ['gateway', medianUs.toFixed(1), ''],
          ...(to.earlierMedianUs === null
            ? []
            : [row('earlier version', to.earlierMedianUs, to.toEarlier)]),
          row('jose, the same size', to.joseMedianUs, to.toJose),
        ],
      },
    ],
  }),
  wanted: [
    {
      what: 'seal and open a requestState',
      against: 'the earlier version',
      goal: 'at most 0.2 x',
      measured: ({ earlierMedianUs, toEarlier }) =>
        earlierMedianUs === null ? NOT_MEASURED : times(toEarlier, 2),
    },
  ],
});
