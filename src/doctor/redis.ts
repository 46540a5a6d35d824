/** Redis: whether it can be reached, how its clock differs from ours, and whether it forgets what it should keep. */
import { Cluster } from 'ioredis';
import type { RedisConfig } from '../config/schema/replicas.ts';
import { createRedis, probeRedis, unavailable } from '../fleet/redis/client.ts';
import { addressOf } from '../fleet/redis/options.ts';
import { readClock } from '../fleet/store/fleet-clock.ts';
import { sleep, type Clock } from '../lib/clock.ts';
import { finder, type Finding } from './finding.ts';
import { differenceOf } from './machine.ts';

/** As far as replicas may differ before the gateway corrects its clock, in ms. */
const TOLERATED_MS = 1_000;
/** The client of a Sentinel group tries for ever. */
const CONNECT_MS = 5_000;

/** What a node says of itself in reply to INFO. */
interface NodeFacts {
  readonly version: string;
  readonly policy: string;
  readonly isLimited: boolean;
}

/** Looks at Redis with four commands. Takes at most the timeouts of its client for each. */
export async function checkRedis(options: RedisConfig, clock: Clock): Promise<Finding> {
  const { ok, warning, failed } = finder('redis');
  const address = addressOf(options);
  const redis = createRedis(options, Math.random);
  let last: unknown;
  redis.on('error', (error: unknown) => (last = error));
  redis.on('node error', (error: unknown) => (last ??= error));
  try {
    const late = sleep(clock, CONNECT_MS).then(() => Promise.reject(new Error('timed out')));
    await Promise.race([redis.connect(), late]);
    const { storeMs, sentAtMs, receivedAtMs } = await readClock(redis, clock);
    const aheadMs = Math.round((sentAtMs + receivedAtMs) / 2 - storeMs);
    const nodes = redis instanceof Cluster ? redis.nodes('master') : [redis];
    const facts = await Promise.all(
      nodes.map(async (node) => factsIn(await node.info('server', 'memory'))),
    ).catch(() => null);
    const clocks = `the clock of this machine is ${differenceOf(aheadMs)} Redis`;
    if (facts === null) {
      return warning(
        `${address} is reachable, ${clocks}; its version and eviction policy are unknown: allow this user INFO to see them`,
      );
    }
    const [{ version } = { version: 'unknown' }] = facts;
    const text = `Redis ${version} at ${address}, ${clocks}`;
    const evicting = facts.find(({ isLimited, policy }) => isLimited && policy !== 'noeviction');
    if (evicting !== undefined) {
      return warning(
        `${text}; with maxmemory-policy ${evicting.policy} it can drop claims and parked calls when memory is short: set noeviction`,
      );
    }
    if (Math.abs(aheadMs) > TOLERATED_MS) {
      return warning(
        `${text}: replicas go by the clock of Redis; set the clocks with NTP, since tokens and logs go by that of each machine`,
      );
    }
    return ok(
      `${text}, ${facts.some(({ isLimited }) => isLimited) ? 'noeviction' : 'no maxmemory'}`,
    );
  } catch (error) {
    const cause = unavailable(error, address, last);
    // The client of a Cluster or a Sentinel group only says that a connection closed.
    const why =
      cause.failure === 'network' ? unavailable(await probeRedis(options), address) : cause;
    return failed(why.message);
  } finally {
    redis.disconnect();
  }
}

function factsIn(info: string): NodeFacts {
  const field = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1];
  return {
    version: field('valkey_version') ?? field('redis_version') ?? 'unknown',
    policy: field('maxmemory_policy') ?? 'unknown',
    isLimited: Number(field('maxmemory') ?? 0) > 0,
  };
}
