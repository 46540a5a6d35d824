/** Calls released over three replicas, all of which are then replaced one after the other: what of a sample is answered afterwards. */
import { startRedis, type RedisServer } from '../../test/fixtures/redis/redis-server.ts';
import { REDIS_COMMAND } from '../../test/run/needs.ts';
import { describeRoom, fit, readRoom } from '../machine/room.ts';
import { askForOpenFiles } from '../machine/open-files.ts';
import { holdings } from '../parked/parked.ts';
import { whyOf } from '../parked/parking.ts';
import { startGateway, type GatewayProcess } from '../processes/gateway-process.ts';
import { startUpstreams, type Upstreams } from '../processes/upstreams.ts';
import type { RollingOptions } from '../sizes.ts';
import { answerAll, parkOver, type Answers } from './clients.ts';

export interface RollingResult {
  /** The limits of this machine, in a sentence each. */
  readonly limits: readonly string[];
  readonly withRedis: boolean;
  readonly wanted: number;
  /** How many were to be parked after the limits of the machine were heeded, and what those are. */
  readonly tried: number;
  readonly loweredBy: readonly string[];
  readonly parked: number;
  /** Why fewer were parked than were tried. */
  readonly failure: string | null;
  readonly parkMs: number;
  /** Of all replicas together, for one call. */
  readonly rssBytesEach: number;
  /** From the signal to the first 200 of `/readyz` of the next process, for each replica. */
  readonly replacedMs: readonly number[];
  readonly answers: Answers;
  /** How many of the answers resumed the stream of their call. */
  readonly resumed: number;
}

const REPLICAS = 3;
const UPSTREAMS = 3;
/** Parked before anything counts, so that loaded code and filled pools do not. */
const WARM_UP = 300;
/** One of so many calls is answered, but at least so many calls. */
const SAMPLED = 100;
const LEAST_SAMPLE = 100;
/** For connections of clients, replicas and upstreams. */
const OPEN_FILES = 4_000;

/** With 60,000 calls the replicas took 3.6 KiB for each and the upstreams 2 KiB. More is garbage for a while. */
const BYTES_EACH = 12 * 1_024;

/** How many of so many parked calls are answered, evenly chosen. */
export function sampleOf(parked: number): number {
  return Math.min(parked, Math.max(LEAST_SAMPLE, Math.ceil(parked / SAMPLED)));
}

export async function measureRolling(
  folder: string,
  { count: wanted, parkMs: mostMs }: RollingOptions,
  done: (share: number) => void,
): Promise<RollingResult> {
  const room = readRoom(askForOpenFiles(OPEN_FILES));
  const processes = { gateways: REPLICAS, upstreams: UPSTREAMS };
  const plan = { calls: wanted, ...processes, isReleased: true, bytesEach: BYTES_EACH };
  const { calls: tried, why: loweredBy } = fit(plan, room);
  const upstreams = await startUpstreams(UPSTREAMS);
  const redis = REDIS_COMMAND === undefined ? null : await startRedis();
  const replicas: GatewayProcess[] = [];
  try {
    const start = () => startReplica(upstreams, folder, redis);
    while (replicas.length < REPLICAS) replicas.push(await start());
    const origins = () => replicas.map(({ origin }) => origin);
    await parkOver(origins(), UPSTREAMS, { count: WARM_UP, sample: 0 });
    const before = await rssOf(replicas);
    const startedAt = performance.now();
    const { parked, kept, failure } = await parkOver(origins(), UPSTREAMS, {
      count: tried,
      sample: sampleOf(tried),
      first: WARM_UP + 1,
      until: startedAt + mostMs,
      onParked: (count) => done((0.8 * count) / tried),
    });
    const parkMs = performance.now() - startedAt;
    const rssBytesEach = ((await rssOf(replicas)) - before) / parked;
    const replacedMs: number[] = [];
    for (const [index, replica] of replicas.entries()) {
      const signalledAt = performance.now();
      await replica.child.terminate();
      replicas[index] = await start();
      replacedMs.push(performance.now() - signalledAt);
    }
    done(0.85);
    const answers = await answerAll(kept, origins());
    const recovered = await Promise.all(replicas.map(({ resumes }) => resumes('reattach')));
    return {
      limits: describeRoom(room),
      withRedis: redis !== null,
      ...{ wanted, tried, loweredBy, parked, failure, parkMs, rssBytesEach, replacedMs, answers },
      resumed: recovered.reduce((sum, resumed) => sum + resumed, 0),
    };
  } catch (error) {
    throw new Error(whyOf(error), { cause: error });
  } finally {
    await Promise.all(replicas.map(({ child }) => child.stop()));
    await redis?.stop();
    await upstreams.stop();
  }
}

function startReplica(
  { origins: [first, ...others] }: Upstreams,
  folder: string,
  redis: RedisServer | null,
): Promise<GatewayProcess> {
  return startGateway({
    folder,
    upstreamUrl: `${first}/kept`,
    moreUpstreamUrls: others.map((origin) => `${origin}/kept`),
    releases: true,
    relays: true,
    // The first calls must not expire while the last ones are made.
    parkedFor: '24h',
    // A million calls would write gigabytes.
    logLevel: 'warn',
    ...(redis === null ? {} : { redis: redis.url }),
  });
}

async function rssOf(replicas: readonly GatewayProcess[]): Promise<number> {
  const all = await Promise.all(replicas.map(({ child }) => holdings(child)));
  return all.reduce((sum, { rssBytes }) => sum + rssBytes, 0);
}
