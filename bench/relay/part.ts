/** A retry that lands at a replica that does not hold the call. */
import { part } from '../part.ts';
import { times } from '../report/goals.ts';
import { measureRelayed, type RelayedResult, type Times } from './relayed.ts';

const row = (what: string, { medianMs, p99Ms }: Times) => [
  what,
  medianMs.toFixed(3),
  p99Ms.toFixed(2),
];

interface Result {
  /** The repetition with the median ratio. */
  readonly middle: RelayedResult;
  /** Of all repetitions; without those that are lost in the noise. */
  readonly addedToExchange: readonly number[];
}

export const relay = part<Result>({
  name: 'relay',
  estimateMs: ({ relay: { warmUp, samples, repetitions } }) =>
    repetitions * (3_000 + 15 * (warmUp + samples)),
  measure: async ({ upstream, folder, options, done }) => {
    const { repetitions } = options.relay;
    const runs: RelayedResult[] = [];
    while (runs.length < repetitions) {
      runs.push(await measureRelayed(upstream, folder, options.relay));
      done(runs.length / repetitions);
    }
    const sorted = runs.toSorted((a, b) => (a.addedToExchange ?? 0) - (b.addedToExchange ?? 0));
    const middle = sorted[Math.floor(sorted.length / 2)];
    if (middle === undefined) throw new Error('nothing was measured');
    const addedToExchange = sorted.flatMap((run) => run.addedToExchange ?? []);
    return { middle, addedToExchange };
  },
  section: ({ middle: result, addedToExchange }) => ({
    title: `Retry through another replica, one at a time, ${result.samples} of each, in turns`,
    notes: [
      'Two gateways with one key and the relay between them; beside them two bare servers of node:http.',
      `Repetitions with new processes: ${addedToExchange.map((value) => times(value, 2)).join(', ')}. The table is that of the middle one.`,
    ],
    tables: [
      {
        rows: [
          ['', 'median ms', 'p99 ms'],
          row('retry to the replica that holds the call', result.here),
          row('retry to the other replica, relayed', result.relayed),
          row('bare request to the first process', result.bareHere),
          row('bare request to the first, which asks the second', result.bareThere),
          row('of that, the request and reply between the two', result.bareExchange),
        ],
      },
    ],
    after: [
      `The relay adds ${result.addedMedianMs.toFixed(3)} ms: ${times(result.addedToExchange, 2)} the bare request and reply between two processes,`,
      `${times(result.addedToBareAdded, 2)} the ${result.bareAddedMedianMs.toFixed(3)} ms that the bare pair adds for its client.`,
    ],
  }),
  wanted: [
    {
      what: 'relayed retry, added median, middle of five runs',
      against: 'a bare HTTP request and reply',
      goal: 'at most 1.4 x',
      measured: ({ middle }) => times(middle.addedToExchange, 2),
    },
  ],
});
