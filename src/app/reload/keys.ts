/** The sealing keys of configurations, and how long former ones are needed. */
import type { Config } from '../../config/schema.ts';
import type { Log } from '../../ops/log.ts';
import { generateKey, type SecretKey } from '../../seal/key-ring.ts';
import { longestCallMs } from '../routes/route-settings.ts';

/** Returns the keys that all replicas share, as they are configured. */
export function configuredKeys({ seal }: Config): SecretKey[] {
  return seal.keys.map(({ kid, key }) => ({ kid, secret: Buffer.from(key, 'base64url') }));
}

/** Generates a key for a gateway that has none configured, and logs it. */
export function generateSealKey(log: Log): SecretKey {
  log.event('gateway.key_ephemeral', {});
  return generateKey();
}

/** Returns how long a client can have a pointer to a call, or a task, in ms. */
export function longestLife(...configs: readonly (Config | undefined)[]): number {
  return Math.max(...configs.flatMap((config) => config?.routes.map(longestCallMs) ?? []));
}
