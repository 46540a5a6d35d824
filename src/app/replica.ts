/** This process as one of several replicas: its name, the relay to and from the others, and the Redis that they share. */
import type { Relay, ServeRelayedRetry } from '../model/relay.ts';
import type { Config } from '../config/config.ts';
import { listen } from './listen.ts';
import { DirectoryUnavailable, type Directory } from '../model/directory.ts';
import type { FleetClock } from '../replicas/directory/fleet-clock.ts';
import { RedisDirectory } from '../replicas/directory/redis-directory.ts';
import type { OpenResponses } from '../lib/responses.ts';
import type { Log } from '../ops/log.ts';
import { randomId } from '../lib/random-id.ts';
import { HttpRelay } from '../replicas/relay/http-relay.ts';
import { MessageQueue } from '../replicas/relay/redis-queue.ts';
import { RedisRelay } from '../replicas/relay/redis-relay.ts';
import { createRelayServer, type RelayServerOptions } from '../replicas/relay/server.ts';
import { OwnerActivity, UNREAD_TIMEOUT_MS } from '../replicas/relay/liveness.ts';
import { createKeyRing, type SecretKey } from '../seal/key-ring.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import { StartFailure } from '../lib/start-failure.ts';

export interface Replica {
  readonly owner: PointerOwner;
  readonly directory: Directory | null;
  /** Returns the relay from a route to the same route of the other replicas; `null` if there is none. */
  relayOf(route: string): Relay | null;
  close(): Promise<void>;
}

interface ReplicaServices {
  readonly openResponses: OpenResponses;
  readonly clock: FleetClock;
  readonly log: Log;
}

/** Besides the client's request, a message holds its headers and what the edge read from it. */
const RELAY_OVERHEAD_BYTES = 256 * 1024;

/**
 * Joins the other replicas: listens for relayed retries and waits for Redis, as configured.
 * @throws StartFailure if it cannot listen, or if Redis does not respond in time
 */
export async function joinReplicas(
  config: Config,
  serveRelayed: ServeRelayedRetry,
  services: ReplicaServices,
): Promise<Replica> {
  const name = { id: randomId(), boot: randomId() };
  const relay = createRelay(config, name.boot, serveRelayed, services);
  let directory: Directory | null = null;
  const close = async () => {
    await relay.close();
    await directory?.close();
  };
  try {
    const owner = { ...name, ...(await relay.start()) };
    directory = await openDirectory(config, owner, services);
    return { owner, directory, relayOf: relay.relayOf, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Returns the keys that all replicas share, as they are configured. */
export function configuredKeys({ seal }: Config): SecretKey[] {
  return seal.keys.map(({ kid, key }) => ({ kid, secret: Buffer.from(key, 'base64url') }));
}

const MAX_ANSWER_BYTES = 32 * 1024 * 1024;

/** The relay in both directions. */
interface RelayTransport {
  /** Starts to listen. @returns the address of this process for pointers */
  start(): Promise<{ address?: string }>;
  relayOf(route: string): Relay | null;
  close(): Promise<void>;
}

const NO_RELAY: RelayTransport = {
  start: async () => ({}),
  relayOf: () => null,
  close: async () => {},
};

function createRelay(
  config: Config,
  boot: string,
  serveRelayed: ServeRelayedRetry,
  services: ReplicaServices,
): RelayTransport {
  const { relay, redis, seal, limits } = config;
  // Without shared keys, a replica could not tell another one from a stranger.
  if (relay === null || seal.keys.length === 0) return NO_RELAY;
  const ring = createKeyRing(configuredKeys(config), 'relay');
  const maxBodyBytes = limits.maxBodyBytes + RELAY_OVERHEAD_BYTES;
  if (relay.via === 'http') {
    const writeStallMs = UNREAD_TIMEOUT_MS;
    return createHttpRelay(
      relay,
      { ring, boot, maxBodyBytes, writeStallMs, serveRelayed },
      services,
    );
  }
  if (redis === null) return NO_RELAY;
  const { openResponses, clock } = services;
  const owners = new OwnerActivity(clock);
  const { audience } = seal;
  const queue = new MessageQueue({ redis, audience, boot, clock, random: Math.random });
  const redisRelay = new RedisRelay({
    ...{ ring, queue, boot, maxBodyBytes, maxAnswerBytes: MAX_ANSWER_BYTES },
    ...{ owners, openResponses, clock, serveRelayed },
  });
  return {
    start: async () => ({}),
    relayOf: (route) => redisRelay.for(route),
    close: () => redisRelay.close(),
  };
}

function createHttpRelay(
  { listen: at, advertise }: NonNullable<Config['relay']>,
  options: Omit<RelayServerOptions, keyof ReplicaServices>,
  services: ReplicaServices,
): RelayTransport {
  const { openResponses, clock, log } = services;
  const owners = new OwnerActivity(clock);
  const server = createRelayServer({ ...options, openResponses, clock });
  const clients: HttpRelay[] = [];
  return {
    start: async () => {
      if (at === null) return {};
      const origin = await listen(server, at, 'relay.listen');
      const address = advertise?.origin ?? origin;
      log.event('relay.listening', { url: address });
      return { address };
    },
    relayOf: (route) => {
      const { ring, boot } = options;
      const client = new HttpRelay({
        ring,
        boot,
        route,
        maxAnswerBytes: MAX_ANSWER_BYTES,
        owners,
        clock,
      });
      clients.push(client);
      return client;
    },
    close: async () => {
      await Promise.all([server.close(), ...clients.map((client) => client.close())]);
    },
  };
}

async function openDirectory(
  { redis, seal }: Config,
  owner: PointerOwner,
  { clock, log }: { readonly clock: FleetClock; readonly log: Log },
): Promise<Directory | null> {
  if (redis === null) return null;
  const { audience } = seal;
  const directory = new RedisDirectory({
    ...{ redis, audience, owner, clock, random: Math.random },
    onClockSample: (sample) => clock.sample(sample),
  });
  clock.onSkew((aheadMs) => {
    log.event('clock.skewed', { aheadSeconds: Math.round(aheadMs / 1000) });
  });
  directory.onChange((up) => log.event(up ? 'directory.up' : 'directory.down', {}));
  try {
    await directory.start(redis.startWaitMs);
    return directory;
  } catch (error) {
    await directory.close();
    if (!(error instanceof DirectoryUnavailable)) throw error;
    throw new StartFailure('redis_unavailable', `redis.url: ${error.message}`);
  }
}
