/** Calls without questions. */
import { part, NOT_MEASURED } from '../part.ts';
import { times } from '../report/goals.ts';
import type { Section } from '../report/section.ts';
import { spreadCell } from '../report/table.ts';
import { measureCalls, type PathName, type PathResult } from './calls.ts';
import { startPaths } from './paths.ts';

interface Result {
  readonly calls: readonly PathResult[];
  readonly notes: readonly string[];
}

export const calls = part<Result>({
  name: 'calls',
  estimateMs: ({ calls: { loads, warmUpMs }, earlier }) => {
    const paths = earlier === null ? 7 : 8;
    const turnsMs = loads.reduce((sum, { rounds, runMs }) => sum + rounds * runMs, 0);
    return 5_000 + paths * (warmUpMs + turnsMs);
  },
  measure: async ({ upstream, folder, nginx, options, done }) => {
    const { paths, notes, stop } = await startPaths(
      upstream,
      nginx !== null,
      folder,
      options.earlier,
    );
    try {
      return { calls: await measureCalls(paths, upstream, options.calls, done), notes };
    } finally {
      await stop();
    }
  },
  section,
  wanted: [
    {
      what: 'calls/s, bridged tools/call, 32 connections',
      against: '@fastify/http-proxy',
      goal: 'at least 1.15 x, aim at 1.3',
      measured: (result) => times(at(result, 'gateway', 32)?.callsPerSecondToBlind.median, 2),
    },
    {
      what: 'CPU of a call, the same',
      against: '@fastify/http-proxy',
      goal: 'at most 0.85 x, aim at 0.75',
      measured: (result) => times(at(result, 'gateway', 32)?.cpuToBlind, 2),
    },
    {
      what: 'p99, the same',
      against: '@fastify/http-proxy',
      goal: 'at most 0.8 x',
      measured: (result) => times(at(result, 'gateway', 32)?.p99ToBlind.median, 2),
    },
    {
      what: 'calls/s over HTTP+SSE, 32 connections',
      against: '@fastify/http-proxy',
      goal: 'at least 1.0 x',
      measured: (result) => times(at(result, 'http-sse', 32)?.callsPerSecondToBlind.median, 2),
    },
    {
      what: 'CPU of a call, default drop-in, 32 connections',
      against: 'the configured gateway',
      goal: 'at most 1.1 x',
      measured: (result) => times(at(result, 'drop-in', 32)?.cpuToGateway, 2),
    },
    {
      what: 'added median latency, 1 connection',
      against: "nginx's own",
      goal: 'at most 3 x',
      measured: (result) =>
        at(result, 'nginx', 1) === undefined
          ? NOT_MEASURED
          : times(at(result, 'gateway', 1)?.addedMedianToNginx, 1),
    },
  ],
});

function at({ calls: results }: Result, name: PathName, count: number): PathResult | undefined {
  return results.find(({ path, connections }) => path === name && connections === count);
}

function section({ calls: results, notes }: Result): Section {
  const counts = [...new Set(results.map(({ connections }) => connections))];
  return {
    title: 'tools/call without questions, to the same upstream process',
    notes: [
      "gateway: a modern client's call, bridged to a legacy session. drop-in: the gateway started with",
      'nothing but --upstream, --listen and --admin, for anonymous callers. The others: the legacy call that',
      'the bridge makes upstream, passed on unread. So the difference between them is the bridge.',
      '"+" is what a path adds to the direct way, "x" a ratio; in each round every path has its turn.',
      ...notes,
    ],
    tables: counts.map((count) => {
      const rows = results.filter(({ connections }) => connections === count);
      const rounds = rows[0]?.callsPerSecond.rounds ?? 0;
      const connections = count === 1 ? '1 connection' : `${count} connections`;
      return { caption: `${connections}, ${rounds} rounds`, rows: [HEAD, ...rows.map(row)] };
    }),
  };
}

const PATH_NAMES: Readonly<Record<PathName, string>> = {
  direct: 'direct',
  nginx: 'nginx',
  'http-proxy': '@fastify/http-proxy (blind)',
  bare: 'node:http and undici alone (bare)',
  gateway: 'gateway',
  'drop-in': 'gateway, default drop-in',
  'http-sse': 'gateway, HTTP+SSE upstream',
  earlier: 'gateway, earlier version',
};

const HEAD = [
  'path',
  'calls',
  'calls/s',
  'x blind',
  'x direct',
  'median ms',
  'p99 ms',
  'p99 x blind',
  '+median',
  '+p99',
  '+median x blind',
  '+median x nginx',
  'CPU ms/call',
  'CPU x blind',
  'CPU x gateway',
];

function row(result: PathResult): string[] {
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
    spreadCell(result.p99ToBlind, 2),
    between(result.addedMedianMs, 3),
    between(result.addedP99Ms, 2),
    between(result.addedMedianToBlind, 2),
    between(result.addedMedianToNginx, 2),
    between(result.cpuMsPerCall, 3),
    between(result.cpuToBlind, 2),
    between(result.cpuToGateway, 2),
  ];
}
