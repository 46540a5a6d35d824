/** A server over stdio. */
import { WAY_HEAD, wayCells } from '../clients/ways.ts';
import { part } from '../part.ts';
import { times } from '../report/goals.ts';
import { toDirect } from './calls.ts';
import { measureStdio } from './stdio.ts';

export const stdio = part({
  name: 'stdio',
  estimateMs: ({ stdio: { runMs, quietMs, calls } }) =>
    3_000 + 6 * (calls.rounds + 1) * calls.runMs + 2 * runMs + quietMs,
  measure: ({ folder, options, done }) => measureStdio(folder, options.stdio, done),
  section: ({ calls, asking, besideMs, quietMs }) => ({
    title: 'A server over stdio, clients of one caller',
    notes: [
      `Beside a tool of ${quietMs} ms, echo took ${besideMs[0].toFixed(0)} ms the first time, and ${besideMs[1].toFixed(0)} ms the next time.`,
    ],
    tables: [
      { rows: [WAY_HEAD, ...calls.map(wayCells)] },
      {
        rows: [
          ['clients that ask at once', 'questions/s', 'median ms'],
          ...asking.map(({ clients, questionsPerSecond, medianMs }) => [
            String(clients),
            questionsPerSecond.toFixed(0),
            medianMs.toFixed(1),
          ]),
        ],
      },
    ],
  }),
  wanted: [
    {
      what: 'time of a call at a server over stdio, 1 caller',
      against: 'the official client, direct',
      goal: 'at most 1.3 x',
      measured: ({ calls }) => times(toDirect(calls, 1), 2),
    },
    {
      what: 'the same, 16 callers at once',
      against: 'the official client, direct',
      goal: 'at most 1.3 x',
      measured: ({ calls }) => times(toDirect(calls, 16), 2),
    },
    {
      what: '16 clients of one caller ask at once, server over stdio',
      against: '-',
      goal: 'at least 100 questions/s',
      measured: ({ asking }) => `${asking.at(-1)?.questionsPerSecond.toFixed(0)} questions/s`,
    },
    {
      what: 'echo beside an unknown tool of another window, over stdio',
      against: '-',
      goal: '2 s at most, then at once',
      measured: ({ besideMs }) => besideMs.map((ms) => `${ms.toFixed(0)} ms`).join(', '),
    },
  ],
});
