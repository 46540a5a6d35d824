/** What it costs that a call is a task while its tool reports its progress often, and the call has large arguments: its record is kept in Redis. */
import { setTimeout as pause } from 'node:timers/promises';
import { REDIS_COMMAND } from '../../test/run/needs.ts';
import { startRedis } from '../../test/fixtures/redis/redis-server.ts';
import { rotated } from '../calls/calls.ts';
import { Connection } from '../clients/load.ts';
import {
  argumentsOf,
  KNOWS_TASKS,
  markOf,
  modernRequest,
  taskRequest,
} from '../clients/messages.ts';
import { cpuTimeMs } from '../processes/cpu-time.ts';
import { startGateway, type GatewayProcess } from '../processes/gateway-process.ts';
import { median, ratio } from '../report/statistics.ts';
import type { ProgressOptions } from '../sizes.ts';

export interface ProgressResult {
  /** Why nothing was run; `null` if it was. */
  readonly problem: string | null;
  /** Processor time of the gateway for one call, in ms; `null` if it was not run, or cannot be read. */
  readonly callCpuMs: number | null;
  readonly taskCpuMs: number | null;
  readonly taskToCall: number | null;
  readonly workMs: number;
}

const ARGUMENT_BYTES = 1_000_000;
/** As the gateway suggests. */
const POLL_EVERY_MS = 1_000;
/** Calls of each kind at once: a single one takes little beside what an idle process does. */
const AT_ONCE = 4;
/** What is still to be done for a call when its client has the result. */
const SETTLE_MS = 500;
const LARGE = { text: 'x'.repeat(ARGUMENT_BYTES) };

/** Makes a call, and waits for its result. @throws Error if it is not that of the call, or no progress came */
type Make = (connection: Connection, callNumber: number) => Promise<void>;

export async function measureProgress(
  upstream: string,
  folder: string,
  options: ProgressOptions,
): Promise<ProgressResult> {
  const { workMs } = options;
  const nothing = { callCpuMs: null, taskCpuMs: null, taskToCall: null, workMs };
  if (REDIS_COMMAND === undefined) return { ...nothing, problem: 'there is no redis-server' };
  const redis = await startRedis();
  try {
    const gateway = await startGateway({
      ...{ upstreamUrl: `${upstream}/mcp`, folder, redis: redis.url },
      ...{ relays: true, promotes: 'always' },
    });
    try {
      const [callCpuMs, taskCpuMs] = await cpuOfBoth(gateway, options);
      const taskToCall = ratio(taskCpuMs, callCpuMs);
      return { problem: null, callCpuMs, taskCpuMs, taskToCall, workMs };
    } finally {
      await gateway.child.stop();
    }
  } finally {
    await redis.stop();
  }
}

/** @returns the processor time of a call without a task, and of one that is a task, in ms */
async function cpuOfBoth(
  { child, origin }: GatewayProcess,
  { rounds, workMs }: ProgressOptions,
): Promise<[number | null, number | null]> {
  const connections = Array.from({ length: AT_ONCE }, () => new Connection(origin, '/mcp'));
  const kinds = [
    { make: plainCall(workMs), cpuMs: [] as number[] },
    { make: task(workMs), cpuMs: [] as number[] },
  ] as const;
  let calls = 0;
  // The first round warms up.
  for (let round = 0; round <= rounds; round += 1) {
    for (const { make, cpuMs } of rotated(kinds, round)) {
      const before = cpuTimeMs(child.pid) ?? NaN;
      await Promise.all(connections.map((connection) => make(connection, (calls += 1))));
      await pause(SETTLE_MS);
      const after = cpuTimeMs(child.pid) ?? NaN;
      if (round > 0) cpuMs.push((after - before) / AT_ONCE);
    }
  }
  await Promise.all(connections.map((connection) => connection.close()));
  const middle = (cpuMs: readonly number[]) => (cpuMs.some(Number.isNaN) ? null : median(cpuMs));
  return [middle(kinds[0].cpuMs), middle(kinds[1].cpuMs)];
}

/** The client reads the progress from the stream of its response. */
function plainCall(workMs: number): Make {
  return async (connection, callNumber) => {
    const text = await connection.send(reportingCall(callNumber, workMs, {}));
    if (!text.includes('notifications/progress')) throw new Error('no progress came');
    check(callNumber, text);
  };
}

/** The client reads the progress when it polls. */
function task(workMs: number): Make {
  return async (connection, callNumber) => {
    const text = await connection.send(reportingCall(callNumber, workMs, KNOWS_TASKS));
    const { result } = JSON.parse(text) as { result?: { taskId?: string } };
    if (result?.taskId === undefined) throw new Error(`not a task: ${text.slice(0, 200)}`);
    const of = { taskId: result.taskId };
    const messages = new Set<string | undefined>();
    for (;;) {
      await pause(POLL_EVERY_MS);
      const polled = await connection.send(taskRequest('tasks/get', callNumber, of));
      messages.add(/"statusMessage":"(step \d+)"/.exec(polled)?.[1]);
      if (polled.includes('"status":"working"')) continue;
      if (messages.size < 2) throw new Error('no progress came');
      return check(callNumber, polled);
    }
  };
}

function reportingCall(callNumber: number, workMs: number, declared: object) {
  const args = { ...argumentsOf(callNumber), ...LARGE, workMs };
  const params = { name: 'report', arguments: args };
  const meta = { ...declared, progressToken: callNumber };
  return modernRequest('tools/call', callNumber, params, { name: 'report', meta });
}

function check(callNumber: number, text: string): void {
  if (text.includes('"content":[') && text.includes(markOf(callNumber))) return;
  throw new Error(`not the result of call ${callNumber}: ${text.slice(-300)}`);
}
