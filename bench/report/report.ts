/** What a run found, and how it is told to people. */
import type { Machine } from '../machine/machine.ts';
import type { Finding } from '../part.ts';
import { GOAL_HEAD, goalRow, type Goal } from './goals.ts';
import { sectionMarkdown, sectionText } from './section.ts';
import { markdownTable, table } from './table.ts';

export interface Report {
  readonly machine: Machine;
  /** Such as `nginx/1.22.1`; `null` when nginx was left out. */
  readonly nginx: string | null;
  /** By the name of the part, in their order. */
  readonly findings: ReadonlyMap<string, Finding>;
  /** Of all parts, those that were not run as well. */
  readonly goals: readonly Goal[];
  readonly elapsedMs: number;
}

const SPREAD =
  '"a (b..c)" is the median of the rounds, and between which values the middle half of them lies.';

/** Formats a report for a terminal. */
export function reportText(report: Report): string {
  const sections = [...report.findings.values()].map(({ section }, index) =>
    sectionText(section, index + 1),
  );
  return [
    machineText(report),
    ...sections,
    `Goals, and what this run measured\n\n${table([GOAL_HEAD, ...report.goals.map(goalRow)], 4)}`,
    `${SPREAD}\nTook ${(report.elapsedMs / 1_000).toFixed(0)} s.`,
  ].join('\n\n');
}

/** Formats a report as it is put into docs/performance.md. */
export function reportMarkdown(report: Report): string {
  const { machine, nginx, elapsedMs } = report;
  const facts = [
    ['date', machine.date],
    ['commit', machine.commit ?? 'unknown'],
    ['machine', `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB`],
    ['system', `${machine.system}, Node.js ${machine.node}, ${nginx ?? 'no nginx'}`],
    ['load average', `${machine.loadAverage.toFixed(2)} at the start`],
    ['run', `from src/, ${(elapsedMs / 1_000).toFixed(0)} s`],
  ];
  return [
    markdownTable([['what', 'value'], ...facts]),
    '### Goals',
    markdownTable([GOAL_HEAD, ...report.goals.map(goalRow)]),
    SPREAD,
    ...[...report.findings.values()].map(({ section }) => sectionMarkdown(section)),
  ].join('\n\n');
}

/** Formats a report for programs. */
export function reportJson({ findings, ...report }: Report): string {
  const parts = Object.fromEntries([...findings].map(([name, { result }]) => [name, result]));
  return JSON.stringify({ ...report, parts }, null, 2);
}

function machineText({ machine, nginx }: Report): string {
  return [
    `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB; ${machine.system}; Node.js ${machine.node}; ${nginx ?? 'no nginx'}`,
    `gateway run from src/, commit ${machine.commit ?? 'unknown'}, ${machine.date}`,
    `load average at the start: ${machine.loadAverage.toFixed(2)} (a busy machine makes every number worse, not all by the same factor)`,
    ...(nginx === null
      ? ['nginx is not on the PATH: it was left out, and so was what needs it']
      : []),
  ].join('\n');
}
