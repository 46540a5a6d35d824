/**
 * Why a Sentinel group or a Cluster cannot be reached: its client only says that a connection closed,
 * so one plain connection to the configured node is made for the reason.
 */
import { createProbe } from './client.ts';
import type { RedisOptions } from './options.ts';

/**
 * In: how to reach the store. Out: the error of a single attempt to connect, or `undefined` when it
 * succeeds. Takes at most the connection's and one command's timeout; never throws.
 */
export async function probe(options: RedisOptions): Promise<unknown> {
  const redis = createProbe(options);
  let reason: unknown;
  redis.on('error', (error: unknown) => (reason ??= error));
  try {
    await redis.connect();
    await redis.ping();
  } catch (error) {
    reason ??= error;
  } finally {
    redis.disconnect();
  }
  return reason;
}
