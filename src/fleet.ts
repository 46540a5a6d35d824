/**
 * This process among the others of its fleet: its name, the listener on which it takes retries from
 * them, its way to them, and the store that they share.
 */
import { randomBytes } from 'node:crypto';
import type { FastifyInstance } from 'fastify';
import type { CallAnswer, EdgeRequest, Leg } from './bridge/leg.ts';
import type { Clock } from './clock.ts';
import type { Config } from './config/config.ts';
import { listen } from './listen.ts';
import { DirectoryUnavailable, type Directory } from './lot/directory.ts';
import { createRedisDirectory } from './lot/redis-directory.ts';
import type { OpenAnswers } from './open-answers.ts';
import type { Log } from './ops/log.ts';
import { RelayClient } from './relay/relay-client.ts';
import { createRelayServer } from './relay/relay-server.ts';
import { createKeyRing, type KeyRing } from './seal/key-ring.ts';
import type { PointerOwner } from './seal/pointer.ts';
import { StartFailure } from './start-failure.ts';

export interface Replica {
  readonly owner: PointerOwner;
  readonly directory: Directory | null;
  /** The way from a route to the same route of the other replicas; `null` where there is none. */
  relayOf(route: string): RelayClient | null;
  close(): Promise<void>;
}

/** Serves a retry that landed on another replica; `null` when the route or the call is not here. */
export type RelayedRetry = (
  route: string,
  request: EdgeRequest,
  leg: Leg,
) => Promise<{ answer: Promise<CallAnswer> } | null>;

interface Surroundings {
  readonly openAnswers: OpenAnswers;
  readonly clock: Clock;
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
  retry: RelayedRetry,
  { openAnswers, clock, log }: Surroundings,
): Promise<Replica> {
  const name = { id: randomId(), boot: randomId() };
  const ring = await relayRing(config);
  const server =
    ring === null ? null : relayServer(config, ring, name.boot, retry, { openAnswers, clock });
  const clients: RelayClient[] = [];
  let directory: Directory | null = null;
  const close = async () => {
    await Promise.all([server?.close(), ...clients.map((client) => client.close())]);
    await directory?.close();
  };
  try {
    const owner = { ...name, ...(await address(config, server, log)) };
    directory = await openDirectory(config, owner, { clock, log });
    return {
      owner,
      directory,
      relayOf: (route) => {
        if (ring === null) return null;
        const client = new RelayClient({ ring, route, maxAnswerBytes: MAX_ANSWER_BYTES, clock });
        clients.push(client);
        return client;
      },
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

const MAX_ANSWER_BYTES = 32 * 1024 * 1024;

/** Without keys that all replicas have, none could tell another one from a stranger. */
async function relayRing({ relay, seal }: Config): Promise<KeyRing<'relay'> | null> {
  if (relay === null || seal.keys.length === 0) return null;
  const keys = seal.keys.map(({ kid, key }) => ({ kid, secret: Buffer.from(key, 'base64url') }));
  return createKeyRing(keys, 'relay');
}

function relayServer(
  { limits }: Config,
  ring: KeyRing<'relay'>,
  boot: string,
  retry: RelayedRetry,
  { openAnswers, clock }: Pick<Surroundings, 'openAnswers' | 'clock'>,
): FastifyInstance {
  const maxBodyBytes = limits.maxBodyBytes + RELAY_OVERHEAD_BYTES;
  return createRelayServer({ ring, boot, maxBodyBytes, openAnswers, clock, retry });
}

async function address(
  { relay }: Config,
  server: FastifyInstance | null,
  log: Log,
): Promise<{ address?: string }> {
  if (relay === null || server === null) return {};
  const origin = await listen(server, relay.listen, 'relay.listen');
  const url = relay.advertise?.origin ?? origin;
  log.event('relay.listening', { url });
  return { address: url };
}

async function openDirectory(
  { redis, seal }: Config,
  owner: PointerOwner,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): Promise<Directory | null> {
  if (redis === null) return null;
  const { audience } = seal;
  const directory = createRedisDirectory({ redis, audience, owner, clock, random: Math.random });
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

function randomId(): string {
  return randomBytes(16).toString('base64url');
}
