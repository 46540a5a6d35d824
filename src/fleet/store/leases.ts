/** Who has a lease in Redis now. Nobody needs that to serve calls: it is looked for when somebody asks. */
import { Cluster } from 'ioredis';
import type { PointerOwner } from '../../seal/pointer.ts';
import type { RedisClient } from '../redis/client.ts';
import { readLease, type LeaseSeal } from './lease-record.ts';

/** @param prefix of the keys of the deployment */
export const leaseKey = (prefix: string, instance: string) =>
  `${prefix}{${encodeURIComponent(instance)}}:lease`;

/** How many keys one step looks at, and how many steps there are at each node. */
const KEYS_A_STEP = 1_000;
const MAX_STEPS = 100;
const MAX_REPLICAS = 100;

/**
 * Finds the replicas that have a lease, among 100 000 keys of each node at most.
 * @param prefix of the keys of the deployment
 * @throws Error of the Redis client, also if the user may not call SCAN
 */
export async function findLeases(
  redis: RedisClient,
  prefix: string,
  seal: LeaseSeal,
): Promise<PointerOwner[]> {
  const pattern = `${prefix.replace(/[*?[\]\\]/g, '\\$&')}{*}:lease`;
  const nodes = redis instanceof Cluster ? redis.nodes('master') : [redis];
  const keys = new Set<string>();
  for (const node of nodes) {
    let cursor = '0';
    for (let steps = 0; steps < MAX_STEPS; steps += 1) {
      const [next, found] = await node.scan(cursor, 'MATCH', pattern, 'COUNT', KEYS_A_STEP);
      for (const key of found) keys.add(key);
      cursor = next;
      if (cursor === '0') break;
    }
  }
  const shown = [...keys].slice(0, MAX_REPLICAS);
  // Somebody else can have written what is no lease.
  const owners = await Promise.all(shown.map((key) => redis.get(key).catch(() => null)));
  return owners.flatMap((text) => (text === null ? [] : (readLease(text, seal) ?? [])));
}
