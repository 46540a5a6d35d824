/** Seals. */
import { part } from '../part.ts';
import { times } from '../report/goals.ts';
import { measureSeal } from './seal.ts';

export const seal = part({
  name: 'seal',
  estimateMs: ({ seal: { warmUp, samples } }) => 200 + warmUp + samples,
  measure: ({ options }) => measureSeal(options.seal),
  section: ({ samples, length, medianUs, joseMedianUs, toJose }) => ({
    title: `Sealing and opening one requestState of ${length} characters, ${samples} of each, in turns`,
    notes: [],
    tables: [
      {
        rows: [
          ['', 'median us', 'x jose'],
          ['gateway', medianUs.toFixed(1), toJose?.toFixed(2) ?? '-'],
          ['jose, the same size', joseMedianUs.toFixed(1), ''],
        ],
      },
    ],
  }),
  wanted: [
    {
      what: 'seal and open a requestState',
      against: 'jose, the same size',
      goal: 'at most 0.2 x',
      measured: ({ toJose }) => times(toJose, 2),
    },
  ],
});
