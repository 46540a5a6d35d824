/** Where replicas count requests together, so that a limit holds for all of them. */
import type { Config } from '../config/schema.ts';
import type { Clock } from '../lib/clock.ts';
import type { RateStore } from '../limits/rates.ts';

export interface OpenRateStore extends RateStore {
  close(): void;
}

/**
 * Connects to the Redis in which replicas count requests. Until it responds, and while it is away, each counts for itself.
 * @returns `null` if there is no Redis, or no route limits a rate
 */
export async function openRateStore(
  { redis, routes, seal }: Config,
  clock: Clock,
): Promise<OpenRateStore | null> {
  const isLimited = routes.some(({ limits: { tools, ...all } }) =>
    [all, ...Object.values(tools)].some(
      (one) => one.rate !== null || one.ratePerPrincipal !== null,
    ),
  );
  if (redis === null || !isLimited) return null;
  const { createRedis, keepConnecting } = await import('../replicas/redis/client.ts');
  let isClosed = false;
  const client = createRedis(redis, Math.random);
  // The directory has a connection of its own, and logs that Redis is away.
  client.on('error', () => {});
  keepConnecting(client, clock, () => !isClosed);
  client.connect().catch(() => {});
  return {
    client,
    prefix: `mrtr:${encodeURIComponent(seal.audience)}:rate:`,
    close: () => {
      isClosed = true;
      client.disconnect();
    },
  };
}
