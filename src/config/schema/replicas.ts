/** The keys that let several replicas work as one. */
import { z } from 'zod';
import type { RedisOptions } from '../../fleet/redis/options.ts';
import { address, choice, duration, list, orNull, parsed, section, text } from './fields.ts';

/** How to reach the store, and how long the start waits for it, in ms. */
export type RedisConfig = RedisOptions & { readonly startWaitMs: number };

const FROM_FILE = 'Can be a `file:/path` reference.';

function parseHttpOrigin(written: string): URL | null {
  const url = URL.parse(written);
  return url?.protocol === 'http:' && url.href === `${url.origin}/` ? url : null;
}

export const relay = orNull(
  section(
    {
      via: choice(
        ['http', 'redis'],
        'http',
        'How retries are relayed: directly, or through `redis` if replicas cannot reach each other.',
      ),
      listen: orNull(
        address().describe(
          'The address on which other replicas relay retries to this one. Required for `http`. Keep it private.',
        ),
      ),
      advertise: orNull(
        parsed(parseHttpOrigin, 'an http URL of a host and a port', 'URL').describe(
          'The URL at which other replicas reach this one, such as `http://${POD_IP}:8081`. Default: `relay.listen`.',
        ),
      ),
    },
    'a map with listen or via',
  ).describe(
    'How a retry that arrives at another replica reaches the one that holds the call. Needs `seal.keys`.',
  ),
);

const node = address('an address such as redis-2:6379');

const login = (whose: string) =>
  z.string({ error: 'text' }).meta({ title: 'text' }).optional().describe(`${whose} ${FROM_FILE}`);

const tls = section({
  ca: login('The trusted certificate authorities, as PEM. Default: those of the system.'),
  cert: login("The gateway's certificate, as PEM."),
  key: login('The private key of the certificate, as PEM.'),
})
  .optional()
  .describe('TLS options, for a `rediss` URL.');

const redisSection = section(
  {
    url: parsed(parseRedisUrl, 'a redis:// or rediss:// URL with a host', 'URL').describe(
      `The server, or the first Sentinel or Cluster node, such as \`rediss://user:password@redis:6379/0\`. ${FROM_FILE}`,
    ),
    mode: choice(['single', 'sentinel', 'cluster'], 'single', 'What the URL points to.'),
    nodes: list('addresses', node, 'Further Sentinels or Cluster nodes.', 100),
    sentinel: section(
      {
        name: text(/^[\x21-\x7e]{1,128}$/, 'the name of a Sentinel group', 'name').describe(
          'The name of the group that the Sentinels monitor.',
        ),
        username: login('The credentials for the Sentinels.'),
        password: login('The credentials for the Sentinels.'),
      },
      'a map with at least name',
    )
      .optional()
      .describe('Required if `redis.mode` is `sentinel`.'),
    tls,
    startWait: duration('10s', '0s', '10m', 'How long the start waits for the store.'),
  },
  'a map with at least url',
);

export const redis = orNull(
  redisSection
    .describe(
      'The store that replicas share: who has which call and session, outcomes for repeated retries, tasks, and rates. Without it replicas relay retries, but resume and replay calls without a claim.',
    )
    .transform(connectionOptions),
);

type RedisSection = z.output<typeof redisSection>;

/** Separates the options of one mode from those of all modes. */
function connectionOptions({ mode, nodes, sentinel, tls, ...common }: RedisSection): RedisConfig {
  const shared = { ...common, ...(tls === undefined ? {} : { tls: withoutUndefined(tls) }) };
  switch (mode) {
    case 'single':
      return { ...shared, mode };
    case 'cluster':
      return { ...shared, mode, nodes };
    case 'sentinel': {
      const { username: sentinelUsername, password: sentinelPassword } = sentinel ?? {};
      const login = withoutUndefined({ sentinelUsername, sentinelPassword });
      return { ...shared, mode, nodes, name: sentinel?.name ?? '', ...login };
    }
  }
}

type WithoutUndefined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

function withoutUndefined<T extends object>(members: T): WithoutUndefined<T> {
  const defined = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(defined) as WithoutUndefined<T>;
}

function parseRedisUrl(written: string): URL | null {
  const url = URL.parse(written);
  return url !== null && /^rediss?:$/.test(url.protocol) && url.hostname !== '' ? url : null;
}
