/** Questions of the upstream of the benchmark, and of a real server. */
import { part } from '../part.ts';
import { startGateway } from '../processes/gateway-process.ts';
import { times } from '../report/goals.ts';
import { spreadCell } from '../report/table.ts';
import { measureOfficial, type Way } from './official.ts';
import { measureQuestions, type Latency } from './questions.ts';

const cells = ({ medianMs, p99Ms }: Latency) => [spreadCell(medianMs, 2), spreadCell(p99Ms, 2)];

const wayCells = ({ medianMs, p99Ms, toDirect, toBlind }: Way) => [
  medianMs.toFixed(2),
  p99Ms.toFixed(2),
  toDirect?.toFixed(2) ?? '-',
  toBlind?.toFixed(2) ?? '-',
];

export const questions = part({
  name: 'questions',
  estimateMs: ({ questions: { repetitions, rounds, warmUpRounds } }) =>
    1_500 + 15 * (warmUpRounds + repetitions * rounds),
  measure: async ({ upstream, folder, options, done }) => {
    const { child, origin } = await startGateway({ upstreamUrl: `${upstream}/mcp`, folder });
    try {
      return await measureQuestions(origin, upstream, options.questions, done);
    } finally {
      await child.stop();
    }
  },
  section: ({ samples, gateway, direct }) => ({
    title: `Round trip of a question, one at a time, ${samples} of each`,
    notes: [],
    tables: [
      {
        rows: [
          ['', 'to question: median ms', 'p99 ms', 'answer to result: median ms', 'p99 ms'],
          ['gateway', ...cells(gateway.toQuestion), ...cells(gateway.toResult)],
          ['legacy client, direct', ...cells(direct.toQuestion), ...cells(direct.toResult)],
        ],
      },
    ],
  }),
  wanted: [],
});

export const official = part({
  name: 'official',
  estimateMs: ({ official: { warmUp, samples } }) => 3_000 + 40 * (warmUp + samples),
  measure: ({ folder, options, done }) => measureOfficial(folder, options.official, done),
  section: (result) => ({
    title: `A whole question, from the call to its result: the official client and server-everything, ${result.samples} of each, in turns`,
    notes: [],
    tables: [
      {
        rows: [
          ['', 'median ms', 'p99 ms', 'x direct', 'x blind'],
          ['modern client, through the gateway', ...wayCells(result.gateway)],
          ['legacy client, through @fastify/http-proxy', ...wayCells(result.blind)],
          ['legacy client, direct', ...wayCells(result.direct)],
        ],
      },
    ],
  }),
  wanted: [
    {
      what: 'a whole question, official client, server-everything',
      against: '@fastify/http-proxy',
      goal: 'at most 1.2 x',
      measured: ({ gateway }) => times(gateway.toBlind, 2),
    },
  ],
});
