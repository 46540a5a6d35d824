/** Questions of a process that is busy. */
import { part } from '../part.ts';
import { times } from '../report/goals.ts';
import { spreadCell } from '../report/table.ts';
import { LOAD_SHARE, measureBusy, type OnItsWay } from './busy.ts';

/** A question with its answer, and the pause after it, in ms. */
const QUESTION_MS = 20;

const row = (name: string, { samples, medianMs, p99Ms }: OnItsWay) => [
  name,
  String(samples),
  medianMs.toFixed(2),
  p99Ms.toFixed(2),
];

export const busy = part({
  name: 'busy',
  estimateMs: ({ busy: { warmUpMs, rounds, rateMs, questions } }) =>
    3_000 + warmUpMs + rounds * (rateMs + 2 * questions * QUESTION_MS),
  measure: ({ upstream, folder, options, done }) =>
    measureBusy(upstream, folder, options.busy, done),
  section: ({ idle, loaded, rate, pace, coreShare }) => ({
    title: `A question on its way from the server to the client, idle and beside plain calls of another caller at ${LOAD_SHARE * 100} % of the rate of the process`,
    notes: [
      `The process served ${spreadCell(rate, 0)} calls/s over 32 connections, and ${spreadCell(pace, 0)} calls/s while questions were timed under load`,
      `(${spreadCell(coreShare, 2)} of a core).`,
    ],
    tables: [
      {
        rows: [
          ['', 'questions', 'median ms', 'p99 ms'],
          row('idle', idle),
          row('under load', loaded),
        ],
      },
    ],
  }),
  wanted: [
    {
      what: "a server's question to the client, p99, at 80 % of the rate",
      against: 'the idle process',
      goal: 'at most 3 x',
      measured: ({ p99ToIdle }) => times(p99ToIdle, 2),
    },
  ],
});
