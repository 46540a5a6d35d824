/**
 * What plain calls of one caller cost over three replicas that share Redis, beside one replica: two thirds of them reach a replica that
 * does not have the home of the caller, and take one hop. Both are loaded in turns.
 */
import { REDIS_COMMAND } from '../../test/run/needs.ts';
import { startRedis } from '../../test/fixtures/redis/redis-server.ts';
import { rotated } from '../calls/calls.ts';
import { Connection, load, type Caller } from '../clients/load.ts';
import { modernCall } from '../clients/messages.ts';
import { cpuTimeMs } from '../processes/cpu-time.ts';
import { startGateway, type GatewayProcess } from '../processes/gateway-process.ts';
import { median, percentile, ratio, spreadOf, type Spread } from '../report/statistics.ts';
import type { ReplicasOptions } from '../sizes.ts';

export interface ReplicasResult {
  /** Why nothing was run; `null` if it was. */
  readonly problem: string | null;
  readonly rows: readonly ReplicasRow[];
}

export interface ReplicasRow {
  readonly replicas: number;
  readonly callers: number;
  readonly callsPerSecond: Spread;
  readonly medianMs: number;
  readonly p99Ms: number;
  /** Processor time of all replicas for one call; `null` where it cannot be read. */
  readonly cpuMsPerCall: number | null;
  /** As ratios to one replica: of the calls of the same round, and over all. */
  readonly callsPerSecondToOne: Spread;
  readonly medianToOne: number | null;
  readonly cpuToOne: number | null;
}

interface Fleet {
  readonly gateways: readonly GatewayProcess[];
  readonly connections: readonly Connection[];
}

interface Samples {
  readonly callsPerSecond: number[];
  readonly latenciesMs: number[];
  cpuMs: number;
}

const SIZES = [1, 3];

export async function measureReplicas(
  upstream: string,
  folder: string,
  { warmUpMs, rounds, runMs, callers }: ReplicasOptions,
  done: (share: number) => void,
): Promise<ReplicasResult> {
  if (REDIS_COMMAND === undefined) return { problem: 'there is no redis-server', rows: [] };
  const redis = await startRedis();
  const fleets: Fleet[] = [];
  try {
    for (const size of SIZES) {
      const options = { upstreamUrl: `${upstream}/mcp`, folder, relays: true, redis: redis.url };
      const gateways = await Promise.all(Array.from({ length: size }, () => startGateway(options)));
      fleets.push({ gateways, connections: gateways.flatMap((one) => connect(one, callers)) });
    }
    const rows: ReplicasRow[] = [];
    for (const count of [1, callers]) {
      const samples = fleets.map((): Samples => ({
        callsPerSecond: [],
        latenciesMs: [],
        cpuMs: 0,
      }));
      const turn = async (round: number, counts: boolean) => {
        for (const at of rotated([...fleets.keys()], round)) {
          const fleet = fleets[at]!;
          const loops = inTurns(fleet, count, callers);
          const cpuBefore = cpuOf(fleet);
          const { callsPerSecond, latenciesMs } = await load(loops, runMs);
          if (!counts) continue;
          samples[at]!.callsPerSecond.push(callsPerSecond);
          samples[at]!.latenciesMs.push(...latenciesMs);
          samples[at]!.cpuMs += cpuOf(fleet) - cpuBefore;
        }
      };
      for (let round = 0; round * runMs < warmUpMs; round += 1) await turn(round, false);
      for (let round = 0; round < rounds; round += 1) await turn(round, true);
      rows.push(...SIZES.map((size, at) => rowOf(size, count, samples[at]!, samples[0]!)));
      done(rows.length / (2 * SIZES.length));
    }
    return { problem: null, rows };
  } finally {
    for (const { gateways, connections } of fleets) {
      await Promise.all(connections.map((one) => one.close()));
      await Promise.all(gateways.map(({ child }) => child.stop()));
    }
    await redis.stop();
  }
}

/** All of one caller. */
function connect({ origin }: GatewayProcess, count: number): Connection[] {
  const call = (id: number) => modernCall('echo', id);
  return Array.from({ length: count }, () => new Connection(origin, '/mcp', call));
}

/** Callers whose calls go to the replicas in turns, as a load balancer sends them. */
function inTurns({ gateways, connections }: Fleet, count: number, perGateway: number): Caller[] {
  return Array.from({ length: count }, (_, loop) => {
    const ways = gateways.map((_gateway, at) => connections[at * perGateway + loop]!);
    let turn = loop;
    const caller: Caller = {
      next: () => ways[(turn += 1) % ways.length]!.next(),
      fresh: () => caller,
      close: async () => {},
    };
    return caller;
  });
}

function cpuOf({ gateways }: Fleet): number {
  return gateways.reduce((sum, { child }) => sum + (cpuTimeMs(child.pid) ?? NaN), 0);
}

function rowOf(replicas: number, callers: number, own: Samples, one: Samples): ReplicasRow {
  const cpuOfCall = ({ cpuMs, latenciesMs }: Samples) => cpuMs / latenciesMs.length;
  const cpu = cpuOfCall(own);
  const toOne = own.callsPerSecond.map((rate, round) => rate / (one.callsPerSecond[round] ?? NaN));
  return {
    replicas,
    callers,
    callsPerSecond: spreadOf(own.callsPerSecond),
    medianMs: median(own.latenciesMs),
    p99Ms: percentile(own.latenciesMs, 0.99),
    cpuMsPerCall: Number.isNaN(cpu) ? null : cpu,
    callsPerSecondToOne: spreadOf(toOne),
    medianToOne: ratio(median(own.latenciesMs), median(one.latenciesMs)),
    cpuToOne: Number.isNaN(cpu) ? null : ratio(cpu, cpuOfCall(one)),
  };
}
