/**
 * A client for one Redis (or Valkey) server, a Sentinel group or a Cluster, set up so that an outage
 * is an error within a known time: nothing waits for the store to return, and nothing is sent twice.
 */
import type { ConnectionOptions } from 'node:tls';
import type { Clock } from '../../lib/clock.ts';
import { Cluster, Redis, type RedisOptions as ClientOptions } from 'ioredis';
import { credentials, database, firstNode, type RedisOptions, type RedisTls } from './options.ts';

export type RedisClient = Redis | Cluster;

const FIRST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 1000;

/**
 * In: how to reach the store, and a source of jitter in [0, 1). Out: a client that is not connected
 * yet. It needs an `error` listener. Throws `RedisUrlInvalid`.
 */
export function createRedis(options: RedisOptions, random: () => number): RedisClient {
  const first = firstNode(options);
  const retryStrategy = (attempt: number) => retryDelayMs(attempt, random);
  const common = commonOptions(options);
  switch (options.mode) {
    case 'single':
      return new Redis({ ...common, ...first, retryStrategy, reconnectOnError: isReadOnly });
    case 'sentinel':
      return new Redis({
        ...common,
        retryStrategy,
        // After a failover the old master answers READONLY: ask the Sentinels anew.
        reconnectOnError: isReadOnly,
        name: options.name,
        sentinels: [first, ...options.nodes],
        sentinelRetryStrategy: retryStrategy,
        sentinelCommandTimeout: options.commandTimeoutMs,
        failoverDetector: true,
        ...(options.sentinelUsername === undefined
          ? {}
          : { sentinelUsername: options.sentinelUsername }),
        ...(options.sentinelPassword === undefined
          ? {}
          : { sentinelPassword: options.sentinelPassword }),
        ...(common.tls === undefined
          ? {}
          : { sentinelTLS: common.tls, enableTLSForSentinelMode: true }),
      });
    case 'cluster':
      return connectingEarly(
        new Cluster([first, ...options.nodes], {
          lazyConnect: true,
          enableOfflineQueue: false,
          clusterRetryStrategy: retryStrategy,
          slotsRefreshTimeout: options.commandTimeoutMs,
          // A command whose connection broke may have been carried out: never send it again. The other
          // delays stay, for answers that say that it was not (ASK, TRYAGAIN, CLUSTERDOWN).
          retryDelayOnFailover: 0,
          redisOptions: common,
          // A certificate is checked against the name that was configured, not against its address.
          ...(common.tls === undefined
            ? {}
            : { dnsLookup: (name: string, found: Found) => found(null, name) }),
        }),
      );
  }
}

/**
 * Connects to nodes before they are needed: while a node is being connected to, commands to it fail.
 * The first command to a node makes the connection and waits for it, so none is made under its nose.
 */
function connectingEarly(cluster: Cluster): Cluster {
  const connect = () => {
    if (cluster.status !== 'ready') return;
    for (const node of cluster.nodes()) {
      if (node.status === 'wait') node.connect().catch(() => {});
    }
  };
  return cluster.on('ready', () => setImmediate(connect)).on('+node', () => setImmediate(connect));
}

const BACK_AFTER_MS = 200;

/**
 * Brings a client back that has given up. The library does so for good when a Sentinel tells of a
 * failover just while it asks where to connect.
 * @param isWanted false once the client was closed on purpose
 */
export function neverGiveUp(redis: RedisClient, clock: Clock, isWanted: () => boolean): void {
  redis.on('end', () => {
    clock.setTimer(BACK_AFTER_MS, () => {
      if (isWanted() && redis.status === 'end') redis.connect().catch(() => {});
    });
  });
}

/** In: as for `createRedis`. Out: a client for the URL's node alone, which tries to connect only once. */
export function createProbe(options: RedisOptions): Redis {
  const login =
    options.mode === 'sentinel'
      ? { username: options.sentinelUsername, password: options.sentinelPassword, db: 0 }
      : {};
  return new Redis({
    ...commonOptions(options),
    ...firstNode(options),
    ...login,
    enableReadyCheck: false,
    retryStrategy: null,
  });
}

type Found = (error: Error | null, address: string) => void;

function commonOptions(options: RedisOptions) {
  const { url, connectTimeoutMs, commandTimeoutMs } = options;
  return {
    ...credentials(url),
    db: database(options),
    lazyConnect: true,
    enableOfflineQueue: false,
    // The three belong together: what was under way when a connection broke is rejected at once, is
    // not repeated on the next one, and nothing hangs when the server just falls silent.
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    commandTimeout: commandTimeoutMs,
    // A silent connection is given up with its command; only a new one shows that all is well again.
    socketTimeout: commandTimeoutMs,
    connectTimeout: connectTimeoutMs,
    disconnectTimeout: 200,
    keepAlive: 10_000,
    connectionName: 'mrtr-gateway',
    disableClientInfo: true,
    // Nothing here needs RESP3, and RESP2 is what every server and proxy speaks.
    protocol: 2,
    ...(url.protocol === 'rediss:' ? { tls: tlsOptions(options.tls) } : {}),
  } satisfies ClientOptions;
}

function tlsOptions({ ca, cert, key, servername }: RedisTls = {}): ConnectionOptions {
  return {
    ...(ca === undefined ? {} : { ca }),
    ...(cert === undefined ? {} : { cert }),
    ...(key === undefined ? {} : { key }),
    ...(servername === undefined ? {} : { servername }),
  };
}

/** Doubles up to a second and goes on for ever; the jitter keeps a fleet from returning in step. */
function retryDelayMs(attempt: number, random: () => number): number {
  const delayMs = Math.min(FIRST_RETRY_MS * 2 ** Math.min(attempt - 1, 10), LONGEST_RETRY_MS);
  return Math.round(delayMs * (0.75 + random() / 2));
}

function isReadOnly(error: Error): boolean {
  return error.message.startsWith('READONLY');
}
