/**
 * Calls without questions: how many a second and how long each takes, over every path to the same
 * upstream, in turns.
 */
import { cpuTimeMs } from '../processes/cpu-time.ts';
import { openLegacySession } from '../clients/legacy-session.ts';
import { Connection, load } from '../clients/load.ts';
import { legacyCall, modernCall } from '../clients/messages.ts';
import type { CallsOptions, LoadOptions } from '../sizes.ts';
import { median, percentile, ratio, spreadOf, type Spread } from '../report/statistics.ts';

/**
 * `drop-in` is the gateway as a newcomer starts it, `earlier` another version of it, `http-sse` the gateway
 * with an upstream of that transport.
 */
export type PathName =
  'direct' | 'nginx' | 'http-proxy' | 'bare' | 'gateway' | 'drop-in' | 'http-sse' | 'earlier';

const BRIDGES: ReadonlySet<PathName> = new Set(['gateway', 'drop-in', 'http-sse', 'earlier']);
/** Who calls at each bridge; the drop-in has no header for that, so its callers are anonymous. */
const principalAt = (path: PathName) => (path === 'drop-in' ? null : 'bench');

/** A way to the upstream. */
export interface Path {
  readonly name: PathName;
  readonly origin: string;
  /** The process in between, or `null` for the direct way. */
  readonly pid: number | null;
}

/** What one path did at one number of connections; times in ms. */
export interface PathResult {
  readonly path: PathName;
  readonly connections: number;
  /** How many calls were timed, over all rounds. */
  readonly calls: number;
  readonly callsPerSecond: Spread;
  /** Calls a second as a ratio to the blind proxy's in the same round. */
  readonly callsPerSecondToBlind: Spread;
  /** The same to the direct way's. */
  readonly callsPerSecondToDirect: Spread;
  /** Over all calls of all rounds. */
  readonly medianMs: number;
  readonly p99Ms: number;
  /** As a ratio to the blind proxy's in the same round. */
  readonly p99ToBlind: Spread;
  /** Beyond the direct way's. */
  readonly addedMedianMs: number;
  readonly addedP99Ms: number;
  /** The added median beside a peer's; `null` where the peer's is lost in the noise, or not there. */
  readonly addedMedianToBlind: number | null;
  readonly addedMedianToNginx: number | null;
  /** Processor time of the process in between for one call; `null` where it cannot be read. */
  readonly cpuMsPerCall: number | null;
  readonly cpuToBlind: number | null;
  /** The same to the configured gateway's. */
  readonly cpuToGateway: number | null;
}

interface Sample {
  readonly callsPerSecond: number;
  readonly latenciesMs: readonly number[];
  readonly cpuMs: number | null;
}

/** One sample of every path, taken one right after the other. */
type Round = ReadonlyMap<PathName, Sample>;

interface Connected {
  readonly path: Path;
  readonly connections: readonly Connection[];
}

export async function measureCalls(
  paths: readonly Path[],
  upstream: string,
  options: CallsOptions,
  done: (share: number) => void,
): Promise<PathResult[]> {
  const most = Math.max(...options.loads.map(({ connections }) => connections));
  const connected = await Promise.all(
    paths.map(async (path) => ({ path, connections: await connect(path, upstream, most) })),
  );
  for (const { connections } of connected) await load(connections, options.warmUpMs);
  const results: PathResult[] = [];
  const allRounds = options.loads.reduce((sum, { rounds }) => sum + rounds, 0);
  let roundsDone = 0;
  for (const one of options.loads) {
    const rounds = await takeRounds(connected, one, () => {
      roundsDone += 1;
      done(roundsDone / allRounds);
    });
    results.push(...paths.map(({ name }) => summary(name, one.connections, rounds)));
  }
  await Promise.all(connected.flatMap((each) => each.connections.map((one) => one.close())));
  return results;
}

async function takeRounds(
  connected: readonly Connected[],
  { connections: count, rounds, runMs }: LoadOptions,
  onRound: () => void,
): Promise<Round[]> {
  const taken: Round[] = [];
  for (let index = 0; index < rounds; index += 1) {
    const samples = new Map<PathName, Sample>();
    for (const { path, connections } of rotated(connected, index)) {
      samples.set(path.name, await sample(path, connections.slice(0, count), runMs));
    }
    taken.push(samples);
    onRound();
  }
  return taken;
}

/** Connections of a modern client to the gateway, and of a legacy one in a session to the others. */
function connect({ name, origin }: Path, upstream: string, count: number): Promise<Connection[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      if (BRIDGES.has(name)) {
        const principal = principalAt(name);
        return new Connection(origin, '/mcp', (id) => modernCall('echo', id, {}, principal));
      }
      const session = await openLegacySession(`${upstream}/mcp`);
      return new Connection(origin, '/mcp', (id) => legacyCall('echo', id, session));
    }),
  );
}

async function sample(
  { pid }: Path,
  connections: readonly Connection[],
  runMs: number,
): Promise<Sample> {
  const before = pid === null ? null : cpuTimeMs(pid);
  const { callsPerSecond, latenciesMs } = await load(connections, runMs);
  const after = pid === null ? null : cpuTimeMs(pid);
  const cpuMs = before === null || after === null ? null : after - before;
  return { callsPerSecond, latenciesMs, cpuMs };
}

function summary(path: PathName, connections: number, rounds: readonly Round[]): PathResult {
  const of = (name: PathName) => rounds.map((round) => sampleOf(round, name));
  const latencies = (name: PathName) => of(name).flatMap(({ latenciesMs }) => latenciesMs);
  const isThere = (name: PathName) => rounds.every((round) => round.has(name));
  const own = latencies(path);
  const direct = latencies('direct');
  const medianMs = median(own);
  const p99Ms = percentile(own, 0.99);
  const addedMedian = (name: PathName) =>
    isThere(name) ? median(latencies(name)) - median(direct) : null;
  const addedMedianMs = medianMs - median(direct);
  const cpu = cpuMsPerCall(of(path));
  const inRounds = (peer: PathName, figure: (sample: Sample) => number) =>
    spreadOf(rounds.map((round) => figure(sampleOf(round, path)) / figure(sampleOf(round, peer))));
  const callsPerSecondTo = (peer: PathName) => inRounds(peer, (one) => one.callsPerSecond);
  return {
    path,
    connections,
    calls: own.length,
    callsPerSecond: spreadOf(of(path).map((each) => each.callsPerSecond)),
    callsPerSecondToBlind: callsPerSecondTo('http-proxy'),
    callsPerSecondToDirect: callsPerSecondTo('direct'),
    medianMs,
    p99Ms,
    p99ToBlind: inRounds('http-proxy', (one) => percentile(one.latenciesMs, 0.99)),
    addedMedianMs,
    addedP99Ms: p99Ms - percentile(direct, 0.99),
    addedMedianToBlind: ratio(addedMedianMs, addedMedian('http-proxy')),
    addedMedianToNginx: ratio(addedMedianMs, addedMedian('nginx')),
    cpuMsPerCall: cpu,
    cpuToBlind: ratio(cpu, cpuMsPerCall(of('http-proxy'))),
    cpuToGateway: ratio(cpu, cpuMsPerCall(of('gateway'))),
  };
}

/** Over all rounds together. */
function cpuMsPerCall(samples: readonly Sample[]): number | null {
  let sum = 0;
  let calls = 0;
  for (const { cpuMs, latenciesMs } of samples) {
    if (cpuMs === null) return null;
    sum += cpuMs;
    calls += latenciesMs.length;
  }
  return sum / calls;
}

function sampleOf(round: Round, name: PathName): Sample {
  const found = round.get(name);
  if (found === undefined) throw new Error(`nothing was measured of ${name}`);
  return found;
}

/** Each round begins with another path, so that none is always the one after a certain other. */
export function rotated<T>(items: readonly T[], by: number): T[] {
  const start = by % items.length;
  return [...items.slice(start), ...items.slice(0, start)];
}
