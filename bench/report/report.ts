/** What a run found, and how it is told to people. */
import type { PathName, PathResult } from '../calls/calls.ts';
import { goalsOf } from './goals.ts';
import type { Footprint, FootprintResult } from '../process/footprint.ts';
import type { Machine } from '../machine/machine.ts';
import type { OfficialResult } from '../questions/official.ts';
import type { ParkedCalls, ParkedResult, Taken } from '../parked/parked.ts';
import type { Latency, QuestionsResult } from '../questions/questions.ts';
import type { RelayedResult, Times } from '../relay/relayed.ts';
import type { SealResult } from '../seal/seal.ts';
import type { Spread } from './statistics.ts';
import { spreadCell, table } from './table.ts';

export interface Report {
  readonly machine: Machine;
  /** Such as `nginx/1.22.1`; `null` when nginx was left out. */
  readonly nginx: string | null;
  /** Whether the gateway ran from compiled files or from its sources. */
  readonly runs: 'dist' | 'src';
  readonly calls: readonly PathResult[];
  readonly questions: QuestionsResult;
  readonly official: OfficialResult;
  readonly relayed: RelayedResult;
  readonly footprint: FootprintResult;
  readonly seal: SealResult;
  readonly parked: ParkedResult;
  readonly elapsedMs: number;
}

export function reportText(report: Report): string {
  return [
    machineText(report),
    callsText(report),
    questionsText(report.questions),
    officialText(report.official),
    relayedText(report.relayed),
    parkedText(report.parked),
    footprintText(report.footprint),
    sealText(report.seal),
    goalsText(report),
    `"a (b..c)" is the median of the rounds, and between which values the middle half of them lies.
Took ${(report.elapsedMs / 1_000).toFixed(0)} s.`,
  ].join('\n\n');
}

function machineText({ machine, nginx, runs }: Report): string {
  return [
    `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGiB} GiB; ${machine.system}; Node.js ${machine.node}; ${nginx ?? 'no nginx'}; gateway run from ${runs}/`,
    `load average at the start: ${machine.loadAverage.toFixed(2)} (a busy machine makes every number worse, not all by the same factor)`,
    ...(nginx === null
      ? ['nginx is not on the PATH: it was left out, and so was what needs it']
      : []),
  ].join('\n');
}

function callsText({ calls }: Report): string {
  const counts = [...new Set(calls.map(({ connections }) => connections))];
  const tables = counts.map((count) => {
    const rows = calls.filter(({ connections }) => connections === count);
    return `${count === 1 ? '1 connection' : `${count} connections`}, ${rows[0]?.callsPerSecond.rounds ?? 0} rounds\n${callsTable(rows)}`;
  });
  return [
    `1. tools/call without questions, to the same upstream process
   gateway: a modern client's call, bridged to a legacy session of the pool. The others: the legacy call
   that the bridge makes upstream, passed on unread. So the difference between them is the bridge.
   "+" is what a path adds to the direct way, "x" a ratio; in each round every path has its turn.`,
    ...tables,
  ].join('\n\n');
}

const PATH_NAMES: Readonly<Record<PathName, string>> = {
  direct: 'direct',
  nginx: 'nginx',
  'http-proxy': '@fastify/http-proxy (blind)',
  gateway: 'gateway',
  earlier: 'gateway, earlier version',
  'http-sse': 'gateway, HTTP+SSE upstream',
};

function callsTable(results: readonly PathResult[]): string {
  const head = [
    'path',
    'calls',
    'calls/s',
    'x blind',
    'x direct',
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
    const between = (value: number | null, digits: number) =>
      isBetween ? (value?.toFixed(digits) ?? '-') : '';
    return [
      PATH_NAMES[result.path],
      String(result.calls),
      spreadCell(result.callsPerSecond, 0),
      spreadCell(result.callsPerSecondToBlind, 2),
      between(result.callsPerSecondToDirect.median, 2),
      result.medianMs.toFixed(3),
      result.p99Ms.toFixed(2),
      between(result.addedMedianMs, 3),
      between(result.addedP99Ms, 2),
      between(result.addedMedianToBlind, 2),
      between(result.addedMedianToNginx, 1),
      between(result.cpuMsPerCall, 3),
      between(result.cpuToBlind, 2),
    ];
  });
  return table([head, ...rows]);
}

function questionsText({ gateway, direct, samples }: QuestionsResult): string {
  const cells = ({ medianMs, p99Ms }: Latency) => [spreadCell(medianMs, 2), spreadCell(p99Ms, 2)];
  return `2. Round trip of a question, one at a time, ${samples} of each
   The gateway waits a moment after a question for others that come together with it; a legacy client does not.

${table([
  ['', 'to question: median ms', 'p99 ms', 'answer to result: median ms', 'p99 ms'],
  ['gateway', ...cells(gateway.toQuestion), ...cells(gateway.toResult)],
  ['legacy client, direct', ...cells(direct.toQuestion), ...cells(direct.toResult)],
])}`;
}

function officialText(official: OfficialResult): string {
  const { samples, gatewayMedianMs, gatewayP99Ms, directMedianMs, directP99Ms } = official;
  return `3. A whole question, from the call to its result: the official client and server-everything, ${samples} of each, in turns

${table([
  ['', 'median ms', 'p99 ms', 'x direct'],
  [
    'modern client, through the gateway',
    gatewayMedianMs.toFixed(2),
    gatewayP99Ms.toFixed(2),
    official.toDirect?.toFixed(2) ?? '-',
  ],
  ['legacy client, direct', directMedianMs.toFixed(2), directP99Ms.toFixed(2), ''],
])}`;
}

function footprintText({ gateway, earlier, loadMs, ...to }: FootprintResult): string {
  const mebibytes = (bytes: number) => (bytes / 2 ** 20).toFixed(0);
  const row = (name: string, one: Footprint) => [
    name,
    spreadCell(one.startMs, 0),
    mebibytes(one.idleRssBytes.median),
    mebibytes(one.loadedRssBytes),
  ];
  const ratios = [to.startToEarlier, to.idleToEarlier, to.loadedToEarlier];
  return `6. The process: from its start to \`/readyz\`, and its memory (RSS), idle and after ${loadMs / 1_000} s of calls over 32 connections

${table([
  ['', 'start ms', 'idle MiB', 'after load MiB'],
  row('gateway', gateway),
  ...(earlier === null
    ? []
    : [
        row('earlier version', earlier),
        ['to the earlier version', ...ratios.map((value) => value?.toFixed(2) ?? '-')],
      ]),
])}`;
}

function sealText({ samples, length, medianUs, joseMedianUs, toJose }: SealResult): string {
  return `7. Sealing and opening one requestState of ${length} characters, ${samples} of each, in turns

${table([
  ['', 'median us', 'x jose'],
  ['gateway', medianUs.toFixed(1), toJose?.toFixed(2) ?? '-'],
  ['jose, the same size', joseMedianUs.toFixed(1), ''],
])}`;
}

function relayedText(result: RelayedResult): string {
  const row = (what: string, { medianMs, p99Ms }: Times) => [
    what,
    medianMs.toFixed(3),
    p99Ms.toFixed(2),
  ];
  const ratioText = (value: number | null) => value?.toFixed(2) ?? '-';
  return `4. Retry through another replica, one at a time, ${result.samples} of each, in turns
   Two gateways with one key and the relay between them; beside them two bare servers of node:http.

${table([
  ['', 'median ms', 'p99 ms'],
  row('retry to the replica that holds the call', result.here),
  row('retry to the other replica, relayed', result.relayed),
  row('bare request to the first process', result.bareHere),
  row('bare request to the first, which asks the second', result.bareThere),
  row('of that, the request and reply between the two', result.bareExchange),
])}

   the relay adds ${result.addedMedianMs.toFixed(3)} ms: ${ratioText(result.addedToExchange)} x the bare request and reply between two processes,
   ${ratioText(result.addedToBareAdded)} x the ${result.bareAddedMedianMs.toFixed(3)} ms that the bare pair adds for its client`;
}

function parkedText({
  count,
  releasedCount,
  bareStream,
  held,
  released,
  heldToBare,
}: ParkedResult): string {
  const kibibytes = ({ median, lower, upper, rounds }: Spread): Spread => ({
    median: median / 1_024,
    lower: lower / 1_024,
    upper: upper / 1_024,
    rounds,
  });
  const row = (name: string, taken: Taken, calls: ParkedCalls | null) => [
    name,
    spreadCell(kibibytes(taken.rssBytes), 1),
    spreadCell(kibibytes(taken.heapUsedBytes), 2),
    spreadCell(kibibytes(taken.externalBytes), 2),
    taken.sockets?.median.toFixed(2) ?? '-',
    calls === null ? '' : spreadCell(calls.serving, 2),
    calls === null ? '' : String(calls.answered),
  ];
  return `5. Memory and sockets of a parked call, ${count} held or ${releasedCount} released at once, ${bareStream.rssBytes.rounds} repetitions in fresh processes
   After garbage collection; the gateway's process only. A held call has two streams upstream: its own,
   and its session's standalone one. The floor is one bare stream, held by undici in a process that does
   nothing else. "serving": calls/s of one connection while they are parked, to the rate before.

${table([
  [
    '',
    'RSS KiB each',
    'heap used KiB each',
    'external KiB each',
    'sockets each',
    'serving',
    'answered after',
  ],
  row('bare undici stream', bareStream, null),
  row('parked call, held', held, held),
  row('parked call, released', released, released),
  ['held to bare', spreadCell(heldToBare.rss, 2), spreadCell(heldToBare.heap, 2), '', '', '', ''],
])}`;
}

function goalsText(report: Report): string {
  const rows = goalsOf(report).map(({ what, against, goal, measured }) => [
    what,
    against,
    goal,
    measured,
  ]);
  return `Goals, and what this run measured\n\n${table([['', 'against', 'goal', 'measured'], ...rows], 4)}`;
}
