/** What follows from a configuration, and from the settings of its routes. It loads nothing of what serves them. */
import type { Config, RouteConfig } from '../config/schema.ts';
import type { Log } from '../ops/log.ts';
import { generateKey, type SecretKey } from '../seal/key-ring.ts';

/** Names the server of a route without its query or its arguments, which can contain a key. */
export function nameOfServer({ url, process }: RouteConfig['upstream']): string {
  return process === null ? `${url.origin}${url.pathname}` : `the command ${process.command}`;
}

/** True if any call of the route can become a task. */
export function promotesAny({
  promote,
  tools,
}: Pick<RouteConfig['tasks'], 'promote' | 'tools'>): boolean {
  return [promote, ...Object.values(tools)].some((policy) => policy !== 'never');
}

/** A call can be parked for as long as it may before it becomes a task, and lives a little longer than that. */
export function longestCallMs({ parking, tasks }: RouteConfig): number {
  const ofTasks = promotesAny(tasks) ? tasks.afterMs + tasks.ttlMs + 60_000 : 0;
  return parking.callTtlMs + ofTasks;
}

/** Returns the claims of tokens that rules of any route name. */
export function claimsNamedIn({ routes }: Config): string[] {
  const rules = routes.flatMap(({ tools, prompts, resources }) =>
    [tools, prompts, resources].flatMap((kind) => kind.rules ?? []),
  );
  return [...new Set(rules.flatMap(({ claims }) => Object.keys(claims)))];
}

/** Returns the sealing keys that all replicas share, as they are configured. */
export function configuredKeys({ seal }: Config): SecretKey[] {
  return seal.keys.map(readKey);
}

export function readKey({ kid, key }: Config['seal']['keys'][number]): SecretKey {
  return { kid, secret: Buffer.from(key, 'base64url') };
}

/** Generates a sealing key for a gateway that has none configured, and logs it, unless no parked call could outlive the process anyway. */
export function generateSealKey({ routes }: Config, log: Log): SecretKey {
  if (routes.some(({ upstream }) => upstream.process === null)) {
    log.event('gateway.key_ephemeral', {});
  }
  return generateKey();
}

/** Returns how long a client can have a pointer to a call, or a task, in ms. */
export function longestLife(...configs: readonly (Config | undefined)[]): number {
  return Math.max(...configs.flatMap((config) => config?.routes.map(longestCallMs) ?? []));
}
