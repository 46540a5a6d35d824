/** How to reach Redis, and the parts of its URL. */

export interface RedisNode {
  readonly host: string;
  readonly port: number;
}

export interface RedisTls {
  /** PEM. The default are the authorities of the system. */
  readonly ca?: string;
  readonly cert?: string;
  readonly key?: string;
}

interface RedisCommonOptions {
  /**
   * `redis:` or `rediss:` (TLS), with username, password and database number. Names the server, or the first
   * Sentinel or Cluster node to ask.
   */
  readonly url: URL;
  readonly tls?: RedisTls;
  /** How long a command can take, if it is one that waits. */
  readonly commandTimeoutMs?: number;
}

interface RedisSentinelOptions {
  readonly mode: 'sentinel';
  /** The name of the monitored group. */
  readonly name: string;
  /** Sentinels beside the one in the URL. */
  readonly nodes: readonly RedisNode[];
  /** The login for the Sentinels. That of the URL is for the servers. */
  readonly sentinelUsername?: string;
  readonly sentinelPassword?: string;
}

interface RedisClusterOptions {
  readonly mode: 'cluster';
  /** Cluster nodes beside the one in the URL. */
  readonly nodes: readonly RedisNode[];
}

export type RedisOptions = RedisCommonOptions &
  ({ readonly mode: 'single' } | RedisSentinelOptions | RedisClusterOptions);

/** Thrown for an unusable URL. The message does not contain its credentials. */
export class RedisUrlInvalid extends Error {
  readonly code = 'redis_url_invalid';

  constructor(message: string) {
    super(message);
    this.name = 'RedisUrlInvalid';
  }
}

const DEFAULT_PORT = 6379;
const DEFAULT_SENTINEL_PORT = 26_379;

/** @throws RedisUrlInvalid for a URL that can never be connected to */
export function checkRedisUrl(options: RedisOptions): void {
  firstNode(options);
  credentials(options.url);
  database(options);
}

/** Returns the address for messages: scheme, host and port of the URL, without its credentials. */
export function addressOf({ url }: Pick<RedisOptions, 'url'>): string {
  return `${url.protocol}//${url.host}`;
}

/** Reads the node, with the default port of the mode. @throws RedisUrlInvalid */
export function firstNode({ url, mode }: RedisOptions): RedisNode {
  if (url.protocol !== 'redis:' && url.protocol !== 'rediss:') {
    throw new RedisUrlInvalid(`a Redis URL starts with redis: or rediss:, not ${url.protocol}`);
  }
  if (url.hostname === '') throw new RedisUrlInvalid('the Redis URL names no host');
  const port = mode === 'sentinel' ? DEFAULT_SENTINEL_PORT : DEFAULT_PORT;
  return {
    host: url.hostname.replace(/^\[(.*)\]$/, '$1'),
    port: url.port === '' ? port : Number(url.port),
  };
}

/** Reads the login. @throws RedisUrlInvalid */
export function credentials(url: URL): { username?: string; password?: string } {
  try {
    return {
      ...(url.username === '' ? {} : { username: decodeURIComponent(url.username) }),
      ...(url.password === '' ? {} : { password: decodeURIComponent(url.password) }),
    };
  } catch {
    throw new RedisUrlInvalid('the credentials of the Redis URL are not percent-encoded');
  }
}

/** Reads the number of the database. @throws RedisUrlInvalid */
export function database({ url, mode }: RedisOptions): number {
  const path = url.pathname.replace(/^\//, '');
  if (!/^\d{0,5}$/.test(path)) {
    throw new RedisUrlInvalid('the path of a Redis URL is the number of a database');
  }
  const number = Number(path);
  if (mode === 'cluster' && number !== 0) {
    throw new RedisUrlInvalid('a Redis Cluster has only database 0');
  }
  return number;
}
