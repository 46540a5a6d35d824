/**
 * Clients for one Redis (or Valkey) server, a Sentinel group or a Cluster, and their errors. An outage is an error within a
 * known time: no command waits for a reconnect, and none is sent twice. No text of an error is passed on: a server repeats a
 * command that it does not know with its arguments, such as the password.
 */
import { Cluster, Redis, type RedisOptions as ClientOptions } from 'ioredis';
import type { Clock } from '../../lib/clock.ts';
import { credentials, database, firstNode, type RedisOptions } from './options.ts';
import { DirectoryUnavailable, type DirectoryFailure } from '../../model/store.ts';

export type RedisClient = Redis | Cluster;

/** A store is near. One that takes longer is unreachable, and a request can go on without it. */
const CONNECT_TIMEOUT_MS = 2_000;
/** Less than a lease lasts, so that an owner can try again before its lease ends. */
const COMMAND_TIMEOUT_MS = 1_000;
const FIRST_RETRY_MS = 50;
const LONGEST_RETRY_MS = 1000;

/**
 * Creates a client, which is not connected and needs an `error` listener.
 * @param random jitter for reconnects, in [0, 1)
 * @throws RedisUrlInvalid
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
        // After a failover the old master replies READONLY: ask the Sentinels again.
        reconnectOnError: isReadOnly,
        name: options.name,
        sentinels: [first, ...options.nodes],
        sentinelRetryStrategy: retryStrategy,
        sentinelCommandTimeout: COMMAND_TIMEOUT_MS,
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
          slotsRefreshTimeout: COMMAND_TIMEOUT_MS,
          // A command whose connection broke may have been executed, so it is never sent again. The other
          // delays stay, for errors that say that it was not (ASK, TRYAGAIN, CLUSTERDOWN).
          retryDelayOnFailover: 0,
          redisOptions: common,
          // A certificate is checked against the configured name, not against the address.
          ...(common.tls === undefined
            ? {}
            : { dnsLookup: (name: string, found: Found) => found(null, name) }),
        }),
      );
  }
}

/**
 * Connects to nodes before they are needed, since commands to a node fail while it connects. The first command to
 * an idle node connects and waits, so nodes connect in a later turn than the event that names them.
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

const RECONNECT_AFTER_MS = 200;

/**
 * Reconnects a client that has given up. The library gives up for good if a Sentinel reports a failover while it
 * asks where to connect.
 * @param isWanted false once the client is closed on purpose
 */
export function keepConnecting(redis: RedisClient, clock: Clock, isWanted: () => boolean): void {
  redis.on('end', () => {
    clock.setTimer(RECONNECT_AFTER_MS, () => {
      if (isWanted() && redis.status === 'end') redis.connect().catch(() => {});
    });
  });
}

/**
 * Finds out why a Sentinel group or a Cluster cannot be reached, whose client only says that a connection closed:
 * connects to the configured node once. Takes at most the timeouts of the connection and of one command.
 * @returns the error, or `undefined` if the node responds
 */
export async function probeRedis(options: RedisOptions): Promise<unknown> {
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

function createProbe(options: RedisOptions): Redis {
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
  const { url, commandTimeoutMs = COMMAND_TIMEOUT_MS } = options;
  return {
    ...credentials(url),
    db: database(options),
    lazyConnect: true,
    enableOfflineQueue: false,
    // These three belong together: a command in flight fails as soon as the connection breaks, is not repeated on
    // the next one, and does not hang if the server stops responding.
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    commandTimeout: commandTimeoutMs,
    // The connection is closed with the command that timed out: only a new one shows that Redis works again.
    socketTimeout: commandTimeoutMs,
    connectTimeout: CONNECT_TIMEOUT_MS,
    disconnectTimeout: 200,
    keepAlive: 10_000,
    connectionName: 'mrtr-gateway',
    disableClientInfo: true,
    // Every server and proxy speaks RESP2, and nothing here needs RESP3.
    protocol: 2,
    ...(url.protocol === 'rediss:' ? { tls: { ...options.tls } } : {}),
  } satisfies ClientOptions;
}

/** Doubles the delay up to a second. The jitter keeps replicas from reconnecting at the same time. */
function retryDelayMs(attempt: number, random: () => number): number {
  const delayMs = Math.min(FIRST_RETRY_MS * 2 ** Math.min(attempt - 1, 10), LONGEST_RETRY_MS);
  return Math.round(delayMs * (0.75 + random() / 2));
}

function isReadOnly(error: Error): boolean {
  return error.message.startsWith('READONLY');
}

const MEANINGS: readonly (readonly [RegExp, DirectoryFailure, string])[] = [
  [/WRONGPASS|invalid password/i, 'auth', 'refused the username or password'],
  [/NOAUTH|Authentication required/i, 'auth', 'requires a username or password'],
  [/NOPERM/, 'auth', 'denies the user a command that the gateway needs (NOPERM): check the ACL'],
  [
    /CERT|ERR_TLS|ERR_SSL|EPROTO|SELF_SIGNED|UNABLE_TO_|wrong version number/,
    'tls',
    'cannot be used: TLS handshake failed',
  ],
  [/ECONNREFUSED/, 'refused', 'refused the connection; check that Redis runs at redis.url'],
  [
    /ENOTFOUND|EAI_AGAIN/,
    'name',
    'cannot be reached: the host name cannot be resolved; check redis.url',
  ],
  [/timed out|timeout|ETIMEDOUT/i, 'timeout', 'did not respond in time'],
  [/READONLY/, 'store', 'is read-only (READONLY)'],
  [/MISCONF/, 'store', 'refuses writes (MISCONF)'],
  [/OOM/, 'store', 'is out of memory (OOM)'],
  [/LOADING/, 'store', 'is loading its data (LOADING)'],
  [/CLUSTERDOWN/, 'store', 'has a cluster that is down (CLUSTERDOWN)'],
  [/WRONGTYPE|not an integer/, 'data', 'holds a value that the gateway did not write'],
  [/CROSSSLOT|cluster support disabled/i, 'store', 'does not run in the configured mode'],
];

/**
 * Converts an error of the client to the one that the directory throws.
 * @param store the address for the message
 * @param before an earlier error, which explains a cause that says nothing (a closed connection)
 */
export function unavailable(cause: unknown, store: string, before?: unknown): DirectoryUnavailable {
  return (
    describe(cause, store) ??
    describe(before, store) ??
    new DirectoryUnavailable(
      'network',
      `Redis at ${store} cannot be reached; check that Redis runs at redis.url`,
    )
  );
}

function describe(error: unknown, store: string): DirectoryUnavailable | null {
  if (error instanceof DirectoryUnavailable) return error;
  const text = textOf(error);
  const found = MEANINGS.find(([pattern]) => pattern.test(text));
  if (found !== undefined) {
    const [, failure, meaning] = found;
    const code = failure === 'tls' ? tlsCode(text) : '';
    return new DirectoryUnavailable(failure, `Redis at ${store} ${meaning}${code}`);
  }
  if (!(error instanceof Error) || error.name !== 'ReplyError') return null;
  const word = /^[A-Z]{2,20}(?= )/.exec(error.message)?.[0] ?? 'ERR';
  return new DirectoryUnavailable('store', `Redis at ${store} responded with an error (${word})`);
}

/** Returns code and message of an error and of the one that a Cluster client wraps. For matching only. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return '';
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const inner = 'lastNodeError' in error ? textOf(error.lastNodeError) : '';
  return `${inner} ${code} ${error.message}`;
}

/** Finds the code of OpenSSL or Node for a certificate problem, which holds no secret. */
function tlsCode(text: string): string {
  const code = /\b(?:[A-Z]+_)+[A-Z]+\b/.exec(text)?.[0];
  return code === undefined ? '' : ` (${code})`;
}

/** Tells whether a command failed because there was no connection, so that Redis did not get it. */
export function wasNotSent(error: unknown): boolean {
  return error instanceof Error && error.message.includes('enableOfflineQueue');
}

/** Rounds a time: Redis counts in whole milliseconds, from 1. */
export function wholeMs(ms: number): number {
  return Math.max(1, Math.ceil(ms));
}
