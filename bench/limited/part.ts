/** The gateway with a limit of memory. */
import { NOT_MEASURED, part } from '../part.ts';
import { measureLimited, type LimitedResult, type LimitedRun } from './limited.ts';

export const limited = part<LimitedResult>({
  name: 'limited',
  estimateMs: ({ limited: { mostParked, sizedParked, loadMs } }) =>
    8_000 + 6 * (mostParked + sizedParked) + 2 * loadMs,
  measure: ({ folder, options, done }) => measureLimited(folder, options.limited, done),
  section: ({ limitBytes, problem, image, runs }) => ({
    title: `The process with ${mebibytes(limitBytes)} MiB of memory, in a control group, started as in the image`,
    notes: [
      'First it is sent calls that ask, which stay parked, then calls without questions over 32 connections, and at last',
      'some of the parked calls are answered. RSS: the most that was seen; the group counts the memory of the kernel as well.',
      `The image runs node with ${image.flags.length === 0 ? 'no flags' : image.flags.join(' ')} and ${envText(image.env)}.`,
      ...(problem === null ? [] : [`Not run: ${problem}.`]),
    ],
    tables: [{ rows: [HEAD, ...runs.map(row)] }],
    after: runs.flatMap(({ maxParkedCalls, flooded, end }) => [
      ...(flooded.firstProblem === null
        ? []
        : [
            `${limitOf(maxParkedCalls)}: the first call that was not parked: ${flooded.firstProblem}`,
          ]),
      ...(end === null ? [] : [`${limitOf(maxParkedCalls)}: the process ended: ${end}.`]),
    ]),
  }),
  wanted: [
    {
      what: 'with 512 MiB: a flood beyond limits.maxParkedCalls, then a load',
      against: '-',
      goal: 'refuses, and goes on answering',
      measured: ({ runs }) => {
        const run = runs.find(({ maxParkedCalls }) => maxParkedCalls !== null);
        return run === undefined ? NOT_MEASURED : verdict(run);
      },
    },
  ],
});

const HEAD = [
  'limits.maxParkedCalls',
  'tried',
  'parked',
  'refused',
  'no answer',
  'then calls',
  'for s',
  'refused',
  'no answer',
  'answered after',
  'RSS MiB',
  'group MiB',
  'slowest /healthz ms',
  'process',
];

function row(run: LimitedRun): string[] {
  const { flooded, served, answered } = run;
  return [
    limitOf(run.maxParkedCalls),
    ...[flooded.tried, flooded.parked, flooded.refused, flooded.unanswered].map(String),
    ...(served === null
      ? ['', '', '', '']
      : [
          String(served.right),
          (served.tookMs / 1_000).toFixed(0),
          String(served.refused),
          String(served.unanswered),
        ]),
    answered === null ? '' : `${answered.right} of ${answered.tried}`,
    mebibytes(run.highestRssBytes),
    run.peakBytes === null ? '-' : mebibytes(run.peakBytes),
    `${run.slowestHealthMs.toFixed(0)}${run.unansweredHealth === 0 ? '' : ` (${run.unansweredHealth} without answer)`}`,
    run.end === null ? 'survived' : 'ended',
  ];
}

function verdict({ flooded, served, highestRssBytes, end }: LimitedRun): string {
  if (end !== null) return `${flooded.parked} parked, then ${end}`;
  const rss = `${mebibytes(highestRssBytes)} MiB RSS`;
  return `${flooded.parked} parked, ${flooded.refused} refused, then ${served?.right ?? 0} calls right, ${rss}`;
}

const limitOf = (limit: number | null) => (limit === null ? 'none' : String(limit));
const mebibytes = (bytes: number) => (bytes / 2 ** 20).toFixed(0);

function envText(env: Readonly<Record<string, string>>): string {
  const entries = Object.entries(env).map(([name, value]) => `${name}=${value}`);
  return entries.length === 0 ? 'no variables' : entries.join(' ');
}
