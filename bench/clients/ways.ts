/** Several ways to the same kind of server, whose calls are compared in turns. */
import { cpuTimeMs } from '../processes/cpu-time.ts';
import type { Child } from '../processes/child.ts';
import { percentile } from '../report/statistics.ts';

/** A client with one call at a time. */
export interface WayCaller {
  /** @throws Error if the result is not that of the call */
  call(): Promise<void>;
  close(): Promise<void>;
}

export interface Way<Name extends string> {
  readonly name: Name;
  /** The process between client and server; `null` if there is none. */
  readonly proxy: Child | null;
  /** Opens a session. @returns clients that call in it at once */
  open(callers: number): Promise<WayCaller[]>;
  stop(): Promise<void>;
}

export interface WayRow<Name extends string> {
  readonly path: Name;
  /** Calls at once in one session. */
  readonly callers: number;
  readonly callsPerSecond: number;
  readonly medianMs: number;
  /** Processor time of the program between client and server, in µs; `null` if there is none, or it is not known. */
  readonly cpuMicroseconds: number | null;
}

export interface Turns {
  readonly rounds: number;
  /** How long each way is loaded in one round, in ms. */
  readonly runMs: number;
}

/** Loads each way in turns, so that what else the machine does concerns all of them. */
export async function compareWays<Name extends string>(
  ways: readonly Way<Name>[],
  callers: number,
  { rounds, runMs }: Turns,
): Promise<WayRow<Name>[]> {
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

export const WAY_HEAD = ['path', 'at once', 'calls/s', 'median ms', 'µs of processor a call'];

/** The cells of a row under `WAY_HEAD`. */
export function wayCells(row: WayRow<string>): string[] {
  return [
    row.path,
    String(row.callers),
    row.callsPerSecond.toFixed(0),
    row.medianMs.toFixed(2),
    row.cpuMicroseconds?.toFixed(0) ?? '-',
  ];
}

function cpuOf(proxy: Child | null): number | null {
  return proxy === null ? null : cpuTimeMs(proxy.pid);
}

async function load(session: readonly WayCaller[], runMs: number): Promise<number[]> {
  const times: number[] = [];
  const startedAt = performance.now();
  const loop = async (caller: WayCaller) => {
    for (let now = startedAt; now - startedAt < runMs; now = performance.now()) {
      await caller.call();
      times.push(performance.now() - now);
    }
  };
  await Promise.all(session.map(loop));
  return times;
}
