/** A retry that lands at a replica that does not hold the call. */
import { part } from '../part.ts';
import { times } from '../report/goals.ts';
import { measureRelayed, type Times } from './relayed.ts';

const row = (what: string, { medianMs, p99Ms }: Times) => [
  what,
  medianMs.toFixed(3),
  p99Ms.toFixed(2),
];

export const relay = part({
  name: 'relay',
  estimateMs: ({ relay: { warmUp, samples } }) => 3_000 + 15 * (warmUp + samples),
  measure: ({ upstream, folder, options }) => measureRelayed(upstream, folder, options.relay),
  section: (result) => ({
    title: `Retry through another replica, one at a time, ${result.samples} of each, in turns`,
    notes: [
      'Two gateways with one key and the relay between them; beside them two bare servers of node:http.',
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
      what: 'relayed retry, added median',
      against: 'a bare HTTP request and reply',
      goal: 'at most 1.5 x',
      measured: ({ addedToExchange }) => times(addedToExchange, 2),
    },
  ],
});
