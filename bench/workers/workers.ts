/**
 * How many more calls two workers serve than one process. Each process is held to a share of a core, so that the cores of
 * the machine are not the limit, and neither the clients nor the upstream.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { rotated } from '../calls/calls.ts';
import { Connection, load } from '../clients/load.ts';
import { modernCall } from '../clients/messages.ts';
import { ControlGroup } from '../machine/control-group.ts';
import { asUsers, startGateway, type GatewayProcess } from '../processes/gateway-process.ts';
import { spreadOf, type Spread } from '../report/statistics.ts';
import type { WorkersOptions } from '../sizes.ts';

/** Whether calls go to the home of their caller, or use a session of the worker that they reach. */
export type Sessions = 'separate' | 'homes';

export interface WorkersResult {
  /** Why nothing was run; `null` if it was. */
  readonly problem: string | null;
  readonly share: number;
  readonly rows: readonly WorkersRow[];
}

export interface WorkersRow {
  readonly sessions: Sessions;
  readonly workers: number;
  readonly callsPerSecond: Spread;
  /** As a ratio to one process in the same round. */
  readonly toOne: Spread;
}

interface Loaded {
  readonly sessions: Sessions;
  readonly workers: number;
  readonly gateway: GatewayProcess;
  /** The processes that serve clients. */
  readonly serving: readonly number[];
  readonly groups: ControlGroup[];
  readonly connections: readonly Connection[];
  readonly callsPerSecond: number[];
}

const CALLERS = 64;
const CALLS_PER_CONNECTION = 50;
const WORKERS = [1, 2];
const PERIOD_US = 20_000;
const START_MS = 10_000;

export async function measureWorkers(
  upstream: string,
  folder: string,
  options: WorkersOptions,
  done: (share: number) => void,
): Promise<WorkersResult> {
  const { share } = options;
  const tried = limited(share);
  if (typeof tried === 'string') return { problem: tried, share, rows: [] };
  tried.remove();
  const rows: WorkersRow[] = [];
  for (const sessions of ['separate', 'homes'] as const) {
    rows.push(...(await measurePair(upstream, folder, sessions, options)));
    done(rows.length / (2 * WORKERS.length));
  }
  return { problem: null, share, rows };
}

/** Loads one process and two workers in turns. */
async function measurePair(
  upstream: string,
  folder: string,
  sessions: Sessions,
  { share, warmUpMs, rounds, runMs }: WorkersOptions,
): Promise<WorkersRow[]> {
  const loaded: Loaded[] = [];
  const turn = async (round: number, count: (one: Loaded, callsPerSecond: number) => void) => {
    for (const one of rotated(loaded, round)) {
      count(one, (await load(one.connections, runMs, CALLS_PER_CONNECTION)).callsPerSecond);
    }
  };
  try {
    for (const workers of WORKERS) {
      loaded.push(await start(upstream, folder, sessions, workers));
    }
    // Sessions are opened and code is compiled before the processes are held back, which would make that last for minutes. In turns,
    // since V8 collects the heap of a process that has little to do, and throws away compiled code with it.
    for (let round = 0; round * runMs < warmUpMs; round += 1) await turn(round, () => {});
    for (const one of loaded) one.groups.push(...one.serving.map((pid) => held(pid, share)));
    await turn(0, () => {});
    for (let round = 0; round < rounds; round += 1) {
      await turn(round, (one, callsPerSecond) => one.callsPerSecond.push(callsPerSecond));
    }
    return loaded.map((one) => row(one, loaded));
  } finally {
    for (const { gateway, groups, connections } of loaded) {
      await Promise.all(connections.map((one) => one.close()));
      await gateway.child.terminate();
      for (const group of groups) group.remove();
    }
  }
}

async function start(
  upstream: string,
  folder: string,
  sessions: Sessions,
  workers: number,
): Promise<Loaded> {
  const gateway = await startGateway({
    ...{ upstreamUrl: `${upstream}/mcp`, folder, launch: asUsers, workers },
    concurrency: sessions === 'homes' ? 'auto' : 'separate',
  });
  const connections = Array.from({ length: CALLERS }, (_, caller) => {
    const call = (id: number) => modernCall('echo', id, {}, `caller-${caller}`);
    return new Connection(gateway.origin, '/mcp', call);
  });
  const serving = await servingProcesses(gateway.child.pid, workers);
  return { sessions, workers, gateway, serving, groups: [], connections, callsPerSecond: [] };
}

/** Holds a process to a share of a core. @throws Error if it cannot */
function held(pid: number, share: number): ControlGroup {
  const group = limited(share);
  if (typeof group === 'string') throw new Error(group);
  group.add(pid);
  return group;
}

/** Makes a group whose processes get this share of a core together. */
function limited(share: number): ControlGroup | string {
  const quotaUs = Math.round(share * PERIOD_US);
  return ControlGroup.make('cpu', (group) => {
    if (group.version === 2) return group.write('cpu.max', `${quotaUs} ${PERIOD_US}`);
    group.write('cpu.cfs_period_us', PERIOD_US);
    group.write('cpu.cfs_quota_us', quotaUs);
  });
}

/** The processes that serve clients: the gateway itself, or the workers of its primary. */
async function servingProcesses(pid: number, workers: number): Promise<number[]> {
  if (workers === 1) return [pid];
  for (const untilMs = performance.now() + START_MS; performance.now() < untilMs;) {
    const children = childrenOf(pid);
    if (children.length === workers) return children;
    await sleep(50);
  }
  throw new Error(`the gateway did not start ${workers} workers`);
}

function childrenOf(pid: number): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name) && parentOf(name) === pid)
    .map(Number);
}

function parentOf(pid: string): number | null {
  try {
    // The name of the program, in parentheses, can hold anything.
    const [, fields = ''] = /\) (.*)$/s.exec(readFileSync(`/proc/${pid}/stat`, 'utf8')) ?? [];
    return Number(fields.split(' ')[1]);
  } catch {
    return null;
  }
}

function row({ sessions, workers, callsPerSecond }: Loaded, all: readonly Loaded[]): WorkersRow {
  const one = all.find((other) => other.sessions === sessions && other.workers === 1);
  const toOne = callsPerSecond.map((rate, round) => rate / (one?.callsPerSecond[round] ?? NaN));
  return { sessions, workers, callsPerSecond: spreadOf(callsPerSecond), toOne: spreadOf(toOne) };
}
