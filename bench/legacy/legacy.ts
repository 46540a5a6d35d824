/** Legacy clients in front of a server over stdio: what a plain call costs, and what a session takes. */
import { cpuTimeMs } from '../processes/cpu-time.ts';
import type { Child } from '../processes/child.ts';
import { residentBytes } from '../processes/resident.ts';
import { percentile } from '../report/statistics.ts';
import type { LegacyOptions } from '../sizes.ts';
import { startWays, type Caller, type PathName, type Way } from './paths.ts';

export interface LegacyRow {
  readonly path: PathName;
  /** Calls at once in one session. */
  readonly callers: number;
  readonly callsPerSecond: number;
  readonly medianMs: number;
  /** Processor time of the program between client and server, in µs; `null` if there is none, or it is not known. */
  readonly cpuMicroseconds: number | null;
}

export interface LegacyResult {
  readonly rows: readonly LegacyRow[];
  /** What one more session takes in the program itself, without the process of the server. */
  readonly sessions: readonly { readonly path: PathName; readonly bytes: number }[];
}

const CALLERS = [1, 16];

export async function measureLegacy(
  folder: string,
  { rounds, runMs, sessions }: LegacyOptions,
  done: (share: number) => void,
): Promise<LegacyResult> {
  const ways = await startWays(folder);
  try {
    const rows: LegacyRow[] = [];
    for (const callers of CALLERS) {
      rows.push(...(await compare(ways, callers, { rounds, runMs })));
      done(rows.length / ways.length / (CALLERS.length + 1));
    }
    const held: { path: PathName; bytes: number }[] = [];
    for (const way of ways) {
      const bytes = await sessionBytes(way, sessions);
      if (bytes !== null) held.push({ path: way.name, bytes });
    }
    return { rows, sessions: held };
  } finally {
    await Promise.all(ways.map((way) => way.stop()));
  }
}

/** Loads each way in turns, so that what else the machine does concerns all of them. */
async function compare(
  ways: readonly Way[],
  callers: number,
  { rounds, runMs }: Pick<LegacyOptions, 'rounds' | 'runMs'>,
): Promise<LegacyRow[]> {
  const opened = await Promise.all(
    ways.map(async (way) => ({
      way,
      session: await way.open(callers),
      times: [] as number[],
      ms: 0,
      cpuMs: 0,
    })),
  );
  // The first turn only warms up.
  for (let round = 0; round <= rounds; round += 1) {
    for (const one of opened) {
      const cpuBefore = cpuOf(one.way.proxy);
      const startedAt = performance.now();
      const times = await load(one.session, runMs);
      if (round === 0) continue;
      one.ms += performance.now() - startedAt;
      one.cpuMs += (cpuOf(one.way.proxy) ?? NaN) - (cpuBefore ?? NaN);
      one.times.push(...times);
    }
  }
  for (const { session } of opened) for (const caller of session) await caller.close();
  return opened.map(({ way, times, ms, cpuMs }) => ({
    path: way.name,
    callers,
    callsPerSecond: (times.length * 1_000) / ms,
    medianMs: percentile(times, 0.5),
    cpuMicroseconds: Number.isNaN(cpuMs) ? null : (cpuMs * 1_000) / times.length,
  }));
}

function cpuOf(proxy: Child | null): number | null {
  return proxy === null ? null : cpuTimeMs(proxy.pid);
}

async function load(session: readonly Caller[], runMs: number): Promise<number[]> {
  const times: number[] = [];
  const startedAt = performance.now();
  const loop = async (caller: Caller) => {
    for (let now = startedAt; now - startedAt < runMs; now = performance.now()) {
      await caller.call();
      times.push(performance.now() - now);
    }
  };
  await Promise.all(session.map(loop));
  return times;
}

/** @returns `null` where no program is between */
async function sessionBytes(way: Way, sessions: number): Promise<number | null> {
  const { proxy } = way;
  if (proxy === null) return null;
  const before = await heldBytes(way);
  for (let at = 0; at < sessions; at += 1) await way.open(1);
  return ((await heldBytes(way)) - before) / sessions;
}

/** What a program of Node.js holds after its garbage was collected; what any other one has in use. */
async function heldBytes({ name, proxy }: Way): Promise<number> {
  if (proxy === null) return 0;
  return name === 'mcp-proxy' ? residentBytes(proxy.pid) : (await proxy.memory()).rssBytes;
}
