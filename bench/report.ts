/** What a run found, and how it is told to people. */
import type { PathResult } from './calls.ts';
import type { Machine } from './machine.ts';
import type { ParkedResult } from './parked.ts';
import type { Latency, QuestionsResult } from './questions.ts';
import type { Spread } from './statistics.ts';
import { spreadCell, table } from './table.ts';

export interface Report {
  readonly machine: Machine;
  /** Such as `nginx/1.22.1`; `null` when nginx was left out. */
  readonly nginx: string | null;
  readonly calls: readonly PathResult[];
  readonly parked: ParkedResult;
  readonly questions: QuestionsResult;
  readonly elapsedMs: number;
}

export function reportText(report: Report): string {
  return [
    machineText(report),
    callsText(report),
    parkedText(report.parked),
    questionsText(report.questions),
    `Numbers are medians of the repetitions, with (least..most) where a ratio or a rate is told. Took ${(report.elapsedMs / 1_000).toFixed(0)} s.`,
  ].join('\n\n');
}

function machineText({ machine, nginx }: Report): string {
  const lines = [
    `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB; ${machine.system}; Node.js ${machine.node}`,
    `load average at the start: ${machine.loadAverage.toFixed(2)}`,
  ];
  if (nginx === null) lines.push('nginx is not on the PATH and was left out');
  return lines.join('\n');
}

function callsText({ calls }: Report): string {
  const concurrencies = [...new Set(calls.map(({ connections }) => connections))];
  const tables = concurrencies.map((concurrency) => {
    const rows = calls.filter(({ connections }) => connections === concurrency);
    return `${concurrency === 1 ? '1 connection' : `${concurrency} connections`}\n${callsTable(rows)}`;
  });
  return [
    `1. tools/call without questions, to the same upstream process
   gateway: a modern client's call, bridged to a legacy session of the pool. The others: the legacy call
   that the bridge makes upstream, passed on unread. So the difference between them is the bridge.
   "+" is what a path adds to the direct way, "x" a ratio within one repetition.`,
    ...tables,
  ].join('\n\n');
}

function callsTable(results: readonly PathResult[]): string {
  const head = [
    'path',
    'calls/s',
    'x blind',
    'median ms',
    'p99 ms',
    '+median',
    '+p99',
    '+median x blind',
    '+median x nginx',
    'CPU ms/call',
    'CPU x blind',
  ];
  const rows = results.map((result) => {
    const isBetween = result.path !== 'direct';
    const between = (spread: Spread | null, digits: number) =>
      isBetween ? spreadCell(spread, digits) : '-';
    return [
      result.path === 'http-proxy' ? '@fastify/http-proxy (blind)' : result.path,
      spreadCell(result.callsPerSecond, 0),
      spreadCell(result.callsPerSecondToBlind, 2),
      result.medianMs.median.toFixed(2),
      result.p99Ms.median.toFixed(2),
      isBetween ? result.addedMedianMs.median.toFixed(2) : '-',
      isBetween ? result.addedP99Ms.median.toFixed(2) : '-',
      between(result.addedMedianToBlind, 2),
      between(result.addedMedianToNginx, 1),
      isBetween ? (result.cpuMsPerCall?.median.toFixed(3) ?? '-') : '-',
      between(result.cpuToBlind, 2),
    ];
  });
  return table([head, ...rows]);
}

function parkedText({ count, gateway, bareStream, rssRatio, heapRatio }: ParkedResult): string {
  const kibibytes = ({ median, least, most }: Spread): Spread => ({
    median: median / 1_024,
    least: least / 1_024,
    most: most / 1_024,
  });
  const row = (name: string, { rssBytes, heapUsedBytes }: typeof gateway) => [
    name,
    spreadCell(kibibytes(rssBytes), 1),
    spreadCell(kibibytes(heapUsedBytes), 1),
  ];
  return `2. Memory of a parked call, ${count} parked at once, after garbage collection
   A parked call holds two streams upstream: its own, and its session's standalone one. The floor is one
   bare stream, held by undici in a process that does nothing else.

${table([
  ['', 'RSS KiB each', 'heap used KiB each'],
  row('parked call in the gateway', gateway),
  row('bare undici stream', bareStream),
  ['ratio', spreadCell(rssRatio, 2), spreadCell(heapRatio, 2)],
])}`;
}

function questionsText({ gateway, direct }: QuestionsResult): string {
  const cells = ({ medianMs, p99Ms }: Latency) => [spreadCell(medianMs, 2), spreadCell(p99Ms, 2)];
  return `3. Round trip of a question, one at a time
   The gateway waits a moment after a question for others that come together with it; a legacy client does not.

${table([
  ['', 'to question: median ms', 'p99 ms', 'answer to result: median ms', 'p99 ms'],
  ['gateway', ...cells(gateway.toQuestion), ...cells(gateway.toResult)],
  ['legacy client, direct', ...cells(direct.toQuestion), ...cells(direct.toResult)],
])}`;
}
