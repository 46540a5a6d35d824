/**
 * This process among the others of its fleet: its name, the listener on which it takes retries from
 * them, its way to them, and the store that they share.
 */
import type { Relay, ServeRelayedRetry } from '../model/relay.ts';
import type { Config } from '../config/config.ts';
import { listen } from './listen.ts';
import { DirectoryUnavailable, type Directory } from '../model/directory.ts';
import type { FleetClock } from '../replicas/directory/fleet-clock.ts';
import { createRedisDirectory } from '../replicas/directory/redis-directory.ts';
import type { OpenResponses } from '../lib/open-responses.ts';
import type { Log } from '../ops/log.ts';
import { randomId } from '../lib/random-id.ts';
import { OwnerActivity } from '../replicas/relay/liveness.ts';
import { HttpRelay } from '../replicas/relay/http-relay.ts';
import { MessageQueue } from '../replicas/relay/redis-queue.ts';
import { RedisRelay } from '../replicas/relay/redis-relay.ts';
import { createRelayServer, type RelayServerOptions } from '../replicas/relay/server.ts';
import { UNREAD_TIMEOUT_MS } from '../replicas/relay/liveness.ts';
import { createKeyRing } from '../seal/key-ring.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import { StartFailure } from '../lib/start-failure.ts';

export interface Replica {
  readonly owner: PointerOwner;
  readonly directory: Directory | null;
  /** The way from a route to the same route of the other replicas; `null` where there is none. */
  relayOf(route: string): Relay | null;
  close(): Promise<void>;
}

interface ReplicaServices {
  readonly openResponses: OpenResponses;
  readonly clock: FleetClock;
  readonly log: Log;
}

/** Beside the client's request there are its headers and what the edge read from it. */
const RELAY_OVERHEAD_BYTES = 256 * 1024;

/**
 * Joins the fleet: listens for relays and waits for the shared store, as far as configured.
 * @throws StartFailure when it cannot listen, or when the store does not answer in time
 */
export async function joinFleet(
  config: Config,
  retry: ServeRelayedRetry,
  surroundings: ReplicaServices,
): Promise<Replica> {
  const name = { id: randomId(), boot: randomId() };
  const way = relayWay(config, name.boot, retry, surroundings);
  let directory: Directory | null = null;
  const close = async () => {
    await way.close();
    await directory?.close();
  };
  try {
    const owner = { ...name, ...(await way.start()) };
    directory = await openDirectory(config, owner, surroundings);
    return { owner, directory, relayOf: way.relayOf, close };
  } catch (error) {
    await close();
    throw error;
  }
}

const MAX_ANSWER_BYTES = 32 * 1024 * 1024;

/** How retries come from other replicas and go to them. */
interface RelayTransport {
  /** Out: what pointers have to say of this process, so that others find it. */
  start(): Promise<{ address?: string }>;
  relayOf(route: string): Relay | null;
  close(): Promise<void>;
}

const NO_WAY: RelayTransport = {
  start: async () => ({}),
  relayOf: () => null,
  close: async () => {},
};

function relayWay(
  config: Config,
  boot: string,
  retry: ServeRelayedRetry,
  surroundings: ReplicaServices,
): RelayTransport {
  const { relay, redis, seal, limits } = config;
  // Without keys that all replicas have, none could tell another one from a stranger.
  if (relay === null || seal.keys.length === 0) return NO_WAY;
  const keys = seal.keys.map(({ kid, key }) => ({ kid, secret: Buffer.from(key, 'base64url') }));
  const ring = createKeyRing(keys, 'relay');
  const maxBodyBytes = limits.maxBodyBytes + RELAY_OVERHEAD_BYTES;
  if (relay.via === 'http') {
    const writeStallMs = UNREAD_TIMEOUT_MS;
    return httpWay(relay, { ring, boot, maxBodyBytes, writeStallMs, retry }, surroundings);
  }
  if (redis === null) return NO_WAY;
  const { openResponses, clock } = surroundings;
  const owners = new OwnerActivity(clock);
  const { audience } = seal;
  const queue = new MessageQueue({ redis, audience, boot, clock, random: Math.random });
  const through = new RedisRelay({
    ...{ ring, queue, boot, maxBodyBytes, maxAnswerBytes: MAX_ANSWER_BYTES },
    ...{ owners, openResponses, clock, retry },
  });
  return {
    start: async () => ({}),
    relayOf: (route) => through.for(route),
    close: () => through.close(),
  };
}

function httpWay(
  { listen: at, advertise }: NonNullable<Config['relay']>,
  options: Omit<RelayServerOptions, keyof ReplicaServices>,
  surroundings: ReplicaServices,
): RelayTransport {
  const { openResponses, clock, log } = surroundings;
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
  const directory = createRedisDirectory({
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
