/**
 * Calls without questions: how many a second and how long each takes, over every path to the same
 * upstream, in turns.
 */
import { cpuTimeMs } from './cpu-time.ts';
import { openLegacySession } from './legacy-session.ts';
import { Connection, load } from './load.ts';
import { legacyCall, modernCall } from './messages.ts';
import type { CallsOptions } from './options.ts';
import { percentile, spreadOf, type Spread } from './statistics.ts';

export type PathName = 'direct' | 'nginx' | 'http-proxy' | 'gateway';

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
  readonly callsPerSecond: Spread;
  /** Calls a second as a ratio to the blind proxy's in the same repetition. */
  readonly callsPerSecondToBlind: Spread;
  readonly medianMs: Spread;
  readonly p99Ms: Spread;
  /** Beyond the direct way's in the same repetition. */
  readonly addedMedianMs: Spread;
  readonly addedP99Ms: Spread;
  /** The added median as a ratio to the added median of a peer in the same repetition. */
  readonly addedMedianToBlind: Spread;
  readonly addedMedianToNginx: Spread | null;
  /** Processor time of the process in between for one call; `null` where it cannot be read. */
  readonly cpuMsPerCall: Spread | null;
  readonly cpuToBlind: Spread | null;
}

interface Sample {
  readonly callsPerSecond: number;
  readonly medianMs: number;
  readonly p99Ms: number;
  readonly cpuMsPerCall: number | null;
}

/** One sample of every path, taken one right after the other. */
type Repetition = ReadonlyMap<PathName, Sample>;

const ECHOED = 'Ljubljana';

export async function measureCalls(
  paths: readonly Path[],
  upstream: string,
  options: CallsOptions,
): Promise<PathResult[]> {
  const most = Math.max(...options.concurrencies);
  const connected = await Promise.all(
    paths.map(async (path) => ({ path, connections: await connect(path, upstream, most) })),
  );
  for (const { connections } of connected) await load(connections, ECHOED, options.warmUpMs);
  const results: PathResult[] = [];
  for (const concurrency of options.concurrencies) {
    const repetitions: Repetition[] = [];
    for (let round = 0; round < options.repetitions; round += 1) {
      const samples = new Map<PathName, Sample>();
      for (const { path, connections } of rotated(connected, round)) {
        const used = connections.slice(0, concurrency);
        samples.set(path.name, await sample(path, used, options.runMs));
      }
      repetitions.push(samples);
    }
    results.push(...paths.map(({ name }) => summary(name, concurrency, repetitions)));
  }
  await Promise.all(connected.flatMap((each) => each.connections.map((one) => one.close())));
  return results;
}

/** Connections of a modern client to the gateway, and of a legacy one in a session to the others. */
function connect({ name, origin }: Path, upstream: string, count: number): Promise<Connection[]> {
  return Promise.all(
    Array.from({ length: count }, async () => {
      if (name === 'gateway') return new Connection(origin, '/mcp', (id) => modernCall('echo', id));
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
  const { calls, callsPerSecond, latenciesMs } = await load(connections, ECHOED, runMs);
  const after = pid === null ? null : cpuTimeMs(pid);
  return {
    callsPerSecond,
    medianMs: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
    cpuMsPerCall: before === null || after === null ? null : (after - before) / calls,
  };
}

function summary(
  path: PathName,
  connections: number,
  repetitions: readonly Repetition[],
): PathResult {
  const spread = (value: (repetition: Repetition) => number | null): Spread | null => {
    const values = repetitions.map(value).filter((each) => each !== null);
    return values.length === 0 ? null : spreadOf(values);
  };
  const known = (value: (repetition: Repetition) => number): Spread =>
    spreadOf(repetitions.map(value));
  const added = (repetition: Repetition, name: PathName, which: 'medianMs' | 'p99Ms') =>
    of(repetition, name)[which] - of(repetition, 'direct')[which];
  const addedMedian = (repetition: Repetition, name: PathName) =>
    added(repetition, name, 'medianMs');
  return {
    path,
    connections,
    callsPerSecond: known((each) => of(each, path).callsPerSecond),
    callsPerSecondToBlind: known(
      (each) => of(each, path).callsPerSecond / of(each, 'http-proxy').callsPerSecond,
    ),
    medianMs: known((each) => of(each, path).medianMs),
    p99Ms: known((each) => of(each, path).p99Ms),
    addedMedianMs: known((each) => addedMedian(each, path)),
    addedP99Ms: known((each) => added(each, path, 'p99Ms')),
    addedMedianToBlind: known((each) => addedMedian(each, path) / addedMedian(each, 'http-proxy')),
    addedMedianToNginx: spread((each) =>
      each.has('nginx') ? addedMedian(each, path) / addedMedian(each, 'nginx') : null,
    ),
    cpuMsPerCall: spread((each) => of(each, path).cpuMsPerCall),
    cpuToBlind: spread((each) =>
      quotient(of(each, path).cpuMsPerCall, of(each, 'http-proxy').cpuMsPerCall),
    ),
  };
}

function of(repetition: Repetition, name: PathName): Sample {
  const found = repetition.get(name);
  if (found === undefined) throw new Error(`nothing was measured of ${name}`);
  return found;
}

function quotient(value: number | null, by: number | null): number | null {
  return value === null || by === null || by === 0 ? null : value / by;
}

/** Each repetition begins with another path, so that none is always the one after a certain other. */
function rotated<T>(items: readonly T[], by: number): T[] {
  const start = by % items.length;
  return [...items.slice(start), ...items.slice(0, start)];
}
