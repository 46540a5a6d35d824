/** This process as one of several replicas: its name, the relay to and from the others, and the Redis that they share. */
import type { Relay, RelayOutcome, ServeRelayed } from '../model/relay.ts';
import type { Replica } from '../model/replica.ts';
import type { Config } from '../config/schema.ts';
import type { ListenAddress } from '../lib/address.ts';
import { listenAt } from '../lib/listen.ts';
import { DirectoryUnavailable, type Store } from '../model/store.ts';
import type { FleetClock } from '../fleet/store/fleet-clock.ts';
import type { LocalCounts } from '../lib/counts.ts';
import { inBackground } from '../lib/background.ts';
import type { OpenResponses } from '../lib/http.ts';
import type { Log } from '../ops/log.ts';
import { randomId } from '../lib/crypto.ts';
import { DirectRelay } from '../fleet/relay/direct/direct-relay.ts';
import type { Arrival } from '../fleet/relay/direct/handshake.ts';
import { Ownership } from '../fleet/ownership.ts';
import { createRelayServer } from '../fleet/relay/relay-server.ts';
import { OwnerActivity } from '../fleet/relay/liveness.ts';
import type { SecretKey } from '../seal/key-ring.ts';
import type { SealKeys } from '../seal/seal-keys.ts';
import type { PointerOwner } from '../seal/pointer.ts';
import { StartFailure } from '../lib/program.ts';
import type { Clock } from '../lib/clock.ts';

/** This process among its replicas, as the process itself needs it. */
export interface JoinedReplica extends Replica {
  /** Where the other workers of this gateway relay to this process; `null` if it is the only one. */
  readonly siblingAddress: string | null;
  /** Takes a connection of another replica that the primary passed on. */
  accept(arrival: Arrival): void;
  close(): Promise<void>;
}

/** The other workers of this gateway: replicas on the same machine, whose end is known at once. */
export interface Siblings {
  /** The address of this gateway's one relay listener, for other gateways; `null` if there is none. */
  readonly gatewayAddress: string | null;
  /** How many workers there are, with this one. */
  readonly count: number;
  /** Returns where a process takes retries from its siblings; `null` if it is none of them. */
  addressOf(instance: string): string | null;
  hasEnded(instance: string): boolean;
  /** Calls the listener with the instance id of each sibling that ends. */
  onEnd(listener: (instance: string) => void): void;
  /** What the workers share where there is no Redis. */
  readonly store: Store;
}

/** What a worker shares with the other workers of its gateway. */
export interface WorkerShares {
  readonly counts: LocalCounts;
  readonly siblings: Siblings;
  /** The key that the primary generated; `null` if keys are configured. */
  readonly generatedKey: SecretKey | null;
  /** Whether the gateway was ready before the worker started. */
  readonly wasReady: boolean;
}

export interface ReplicaServices {
  /** What replicas seal with; the configured keys, or one that was generated at start. */
  readonly sealKeys: SealKeys;
  /** `null` if this process is the only worker. */
  readonly siblings: Siblings | null;
  readonly openResponses: OpenResponses;
  /** `null` without Redis. */
  readonly fleetClock: FleetClock | null;
  readonly clock: Clock;
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
  serveRelayed: ServeRelayed,
  services: ReplicaServices,
): Promise<JoinedReplica> {
  const name = { id: randomId(), instance: randomId() };
  const { siblings, log } = services;
  const options = relayOptions(config, name.instance, serveRelayed, services);
  const inner = siblings && createDirectRelay(LOOPBACK, options);
  // Workers have one relay listener together, that of their primary.
  const isOne = inner !== null && config.relay?.via === 'http';
  const outer = isOne ? inner : await createOuterRelay(config, options, log);
  let directory: Replica['directory'] = null;
  const close = async () => {
    await Promise.all([inner?.close(), outer.close()]);
    await directory?.close();
  };
  try {
    const siblingAddress = (await inner?.start()) ?? null;
    const address = isOne ? siblings?.gatewayAddress : await outer.start();
    const owner = address ? { ...name, address } : name;
    directory = await openDirectory(config, owner, services);
    siblings?.onEnd((instance) => inBackground(directory?.endLease(instance).catch(() => {})));
    const store = directory ?? siblings?.store ?? null;
    return {
      owner,
      siblingAddress,
      directory,
      ownership: store && new Ownership(store, services.clock, name.instance),
      hasSuccessor: directory !== null,
      relayOf: (route) => {
        if (inner === null || siblings === null) return outer.relayOf(route);
        const toSiblings = inner.relayOf(route);
        return siblingRelay(siblings, toSiblings, isOne ? toSiblings : outer.relayOf(route));
      },
      accept: (inner ?? outer).accept,
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

/** A reply of the largest message that `upstream.maxEvent` can allow. */
const MAX_REPLY_BYTES = 257 * 1024 * 1024;
const LOOPBACK: ListenAddress = { host: '127.0.0.1', port: 0 };

/** The relay in both directions. */
interface RelayTransport {
  /** Starts to listen. @returns the address of this process for other replicas; `null` if it has none */
  start(): Promise<string | null>;
  relayOf(route: string): Relay | null;
  accept(arrival: Arrival): void;
  close(): Promise<void>;
}

const NO_RELAY: RelayTransport = {
  start: async () => null,
  relayOf: () => null,
  accept: ({ socket }) => socket.destroy(),
  close: async () => {},
};

/** Creates the relay to replicas on other machines. */
async function createOuterRelay(
  { relay, redis, seal }: Config,
  options: RelayOptions,
  log: Log,
): Promise<RelayTransport> {
  // Without shared keys, a replica could not tell another one from a stranger.
  if (relay === null || seal.keys.length === 0) return NO_RELAY;
  if (relay.via === 'http') {
    const direct = createDirectRelay(relay.listen, options);
    const start = async () => {
      const address = await direct.start();
      const advertised = relay.advertise?.origin ?? address;
      if (advertised !== null) log.event('relay.listening', { url: advertised });
      return advertised;
    };
    return { ...direct, start };
  }
  if (redis === null) return NO_RELAY;
  const { instance, clock, audience } = options;
  const { MessageQueue, RedisRelay } = await redisModules();
  const queue = new MessageQueue({ redis, audience, instance, clock, random: Math.random });
  const redisRelay = new RedisRelay({ ...options, queue });
  return {
    ...NO_RELAY,
    relayOf: (route) => redisRelay.for(route),
    close: () => redisRelay.close(),
  };
}

type RelayOptions = ReturnType<typeof relayOptions>;

function relayOptions(
  { seal, limits }: Config,
  instance: string,
  serveRelayed: ServeRelayed,
  { sealKeys, openResponses, clock }: ReplicaServices,
) {
  return {
    instance,
    serveRelayed,
    owners: new OwnerActivity(clock),
    ring: sealKeys.ring('relay'),
    frames: sealKeys.ring('frames'),
    audience: seal.audience,
    maxBodyBytes: limits.maxBodyBytes + RELAY_OVERHEAD_BYTES,
    maxReplyBytes: MAX_REPLY_BYTES,
    openResponses,
    clock,
  };
}

/** @param at where it listens, if it does */
function createDirectRelay(
  at: ListenAddress | null,
  options: RelayOptions,
): Omit<RelayTransport, 'relayOf'> & { relayOf(route: string): Relay } {
  const direct = new DirectRelay({ ...options, ring: options.frames });
  const server = createRelayServer((arrival) => direct.accept(arrival));
  return {
    start: async () => (at === null ? null : listenAt(server, at, 'relay.listen')),
    relayOf: (route) => direct.for(route),
    accept: (arrival) => direct.accept(arrival),
    close: async () => {
      server.close();
      server.closeAllConnections();
      await direct.close();
    },
  };
}

const NO_ADDRESS: RelayOutcome = { type: 'gone', problem: 'it has no address' };
const WORKER_ENDED: RelayOutcome = { type: 'gone', problem: 'its worker has ended' };

/** Relays to the other workers of this gateway at their own addresses, and to all others as configured. */
function siblingRelay(siblings: Siblings, toSiblings: Relay, toOthers: Relay | null): Relay {
  return {
    relay: async (owner, request, waiter) => {
      const { instance } = owner;
      const address = siblings.addressOf(instance);
      if (address !== null) return toSiblings.relay({ ...owner, address }, request, waiter);
      if (siblings.hasEnded(instance)) return WORKER_ENDED;
      return toOthers === null ? NO_ADDRESS : toOthers.relay(owner, request, waiter);
    },
    sendClientsBack: () => {
      toSiblings.sendClientsBack();
      if (toOthers !== toSiblings) toOthers?.sendClientsBack();
    },
  };
}

/** Loads what speaks to Redis. Without Redis it would be a tenth of the time to start. */
async function redisModules() {
  const [directory, queue, relay] = await Promise.all([
    import('../fleet/store/redis-store.ts'),
    import('../fleet/relay/redis-queue.ts'),
    import('../fleet/relay/redis-relay.ts'),
  ]);
  return { ...directory, ...queue, ...relay };
}

/** A start that takes longer than this says what it waits for. */
const SILENT_WAIT_MS = 500;

async function openDirectory(
  { redis, seal }: Config,
  owner: PointerOwner,
  { sealKeys, fleetClock, clock, log }: ReplicaServices,
): Promise<Replica['directory']> {
  if (redis === null) return null;
  const { audience } = seal;
  const { RedisStore } = await redisModules();
  const directory = new RedisStore({
    redis,
    audience,
    ring: sealKeys.ring('lease'),
    owner,
    clock,
    random: Math.random,
    onClockSample: (sample) => fleetClock?.sample(sample),
  });
  fleetClock?.onSkew((aheadMs) => {
    log.event('clock.skewed', { aheadSeconds: Math.round(aheadMs / 1000) });
  });
  directory.onChange((up) => up && log.event('redis.up', {}));
  directory.outage.onCause((problem) => log.event('redis.down', { problem }));
  const { startWaitMs } = redis;
  const waiting = clock.setTimer(SILENT_WAIT_MS, () => log.event('redis.waiting', { startWaitMs }));
  try {
    await directory.start(startWaitMs);
    return directory;
  } catch (error) {
    await directory.close();
    if (!(error instanceof DirectoryUnavailable)) throw error;
    throw new StartFailure('redis_unavailable', `redis.url: ${error.message}`);
  } finally {
    waiting.cancel();
  }
}
