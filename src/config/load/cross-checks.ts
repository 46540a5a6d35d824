/** Rules between several fields of a configuration. */
import { namedRoute } from '../../identity/protected-resource.ts';
import { dialectPaths, type Config, type RouteConfig } from '../schema.ts';
import { isLoopbackHost } from '../../lib/http.ts';
import { formatAddress, type ListenAddress } from '../../lib/address.ts';
import { formatDuration } from '../units.ts';
import { checkRedisUrl, RedisUrlInvalid, type RedisOptions } from '../../fleet/redis/options.ts';
import type { Problem } from './problem.ts';

/** Paths of health checks and scrapers. No MCP endpoint may use them. */
const RESERVED_PATHS = new Set(['/healthz', '/livez', '/readyz', '/metrics']);
/** Headers that have another meaning, or that clients control. */
const NO_IDENTITY = /^(?:authorization|cookie|host|connection|origin|accept|content-.*|mcp-.*)$/i;

type Problems = Iterable<Problem>;

/** Checks rules between fields whose values are valid. @returns all problems */
export function crossCheck(config: Config): Problem[] {
  return [...allProblems(config)];
}

function* allProblems(config: Config): Problems {
  yield* checkListeners(config);
  yield* checkPaths(config);
  for (const [index, route] of config.routes.entries()) {
    yield* checkUniqueness(route, index, config.routes.slice(0, index));
    yield* checkForwardedHeaders(route.upstream, index);
    yield* checkParking(route, index);
    yield* checkEra(route.upstream, index);
    yield* checkLoop(route, index, config.listen);
    yield* checkCallers(route, index, config);
    yield* checkTokenExchange(route, index, config);
    yield* checkRights(route, index, config);
  }
  yield* checkKeys(config);
  yield* checkReplicas(config);
  yield* checkIdentity(config);
  yield* checkPublicUrls(config);
  yield* checkLimits(config);
}

function* checkListeners({ listen, admin, relay }: Config): Problems {
  const listeners = [
    { name: 'listen', path: ['listen'], address: listen },
    { name: 'admin', path: ['admin'], address: admin },
    { name: 'relay.listen', path: ['relay', 'listen'], address: relay?.listen ?? null },
  ];
  for (const [index, { path, address }] of listeners.entries()) {
    const other = listeners.slice(0, index).find((one) => collide(one.address, address));
    if (address === null || other?.address === undefined || other.address === null) continue;
    const text = `expected a port other than that of ${other.name} (${formatAddress(other.address)}), got ${formatAddress(address)}`;
    yield { path, text, reads: [other.path] };
  }
}

function collide(one: ListenAddress | null, other: ListenAddress | null): boolean {
  if (one === null || other === null || one.port === 0 || one.port !== other.port) return false;
  return one.host === other.host || isWildcard(one.host) || isWildcard(other.host);
}

/** Checks what several replicas need: they recognise each other and each other's pointers by shared keys. */
function* checkReplicas({ relay, redis, seal }: Config): Problems {
  const shares = relay !== null ? 'relay' : redis !== null ? 'redis' : null;
  if (shares !== null && seal.keys.length === 0) {
    const text = `expected a key that all replicas share, since ${shares} needs one ("mrtr-gateway keygen" prints one), got none`;
    yield { path: ['seal', 'keys'], text, reads: [['relay'], ['redis']] };
  }
  if (relay !== null) yield* checkRelay(relay, redis !== null);
  if (redis === null) return;
  if (redis.mode === 'sentinel' && redis.name === '') {
    const text = 'expected the name of the group that the Sentinels watch, got nothing';
    yield { path: ['redis', 'sentinel', 'name'], text };
  }
  const problem = redisUrlProblem(redis);
  if (problem !== null) yield { path: ['redis', 'url'], text: problem };
}

function* checkRelay(
  { via, listen, advertise }: NonNullable<Config['relay']>,
  hasRedis: boolean,
): Problems {
  if (via === 'redis') {
    const text = 'expected http, since there is no redis, got "redis"';
    if (!hasRedis) yield { path: ['relay', 'via'], text };
  } else if (listen === null) {
    const text = 'expected an address such as 127.0.0.1:8081, since relay.via is http, got nothing';
    yield { path: ['relay', 'listen'], text };
  } else if (advertise === null && isWildcard(listen.host)) {
    const text = `expected the URL at which other replicas reach ${formatAddress(listen)}, such as http://\${POD_IP}:${listen.port}, got nothing`;
    yield { path: ['relay', 'advertise'], text };
  }
}

function redisUrlProblem(redis: RedisOptions): string | null {
  try {
    checkRedisUrl(redis);
    return null;
  } catch (error) {
    if (error instanceof RedisUrlInvalid) return error.message;
    throw error;
  }
}

function* checkUniqueness(
  { id, path, publicUrl }: RouteConfig,
  index: number,
  earlier: readonly RouteConfig[],
): Problems {
  const isPathUnique = earlier.every((other) => other.path !== path);
  const sameId = earlier.findIndex((other) => other.id === id);
  if (isPathUnique && sameId !== -1) {
    const text = `expected a unique id, got ${JSON.stringify(id)}, which routes[${sameId}] has, too`;
    const path = ['routes', index, 'path'];
    yield { path: ['routes', index, 'id'], text, reads: [path, ['routes', sameId]] };
  }
  const sameUrl = earlier.findIndex((other) => other.publicUrl?.href === publicUrl?.href);
  if (publicUrl !== null && sameUrl !== -1) {
    const text = `expected a unique URL, got ${JSON.stringify(publicUrl.href)}, which routes[${sameUrl}] has, too`;
    yield { path: ['routes', index, 'publicUrl'], text };
  }
}

function* checkForwardedHeaders(
  { headers, forwardHeaders }: RouteConfig['upstream'],
  index: number,
): Problems {
  const path = ['routes', index, 'upstream'];
  for (const [at, name] of forwardHeaders.entries()) {
    if (headers[name] === undefined) continue;
    const text = `expected another header, since upstream.headers sets ${name}, got ${JSON.stringify(name)}`;
    yield { path: [...path, 'forwardHeaders', at], text, reads: [[...path, 'headers']] };
  }
}

function* checkParking({ parking, continuation }: RouteConfig, index: number): Problems {
  const { ttlMs, callTtlMs, release } = parking;
  const path = ['routes', index, 'parking'];
  if (ttlMs > callTtlMs) {
    const text = `expected at most parking.callTtl (${formatDuration(callTtlMs)}), got ${formatDuration(ttlMs)}`;
    yield { path: [...path, 'ttl'], text, reads: [[...path, 'callTtl']] };
  }
  if (release !== 'never' && !continuation.reattach) {
    const text = `expected never, since continuation.reattach is false, got ${release}`;
    const reads = [['routes', index, 'continuation', 'reattach']];
    yield { path: [...path, 'release'], text, reads };
  }
}

function* checkEra({ era, transport }: RouteConfig['upstream'], index: number): Problems {
  if (era !== 'modern' || transport !== 'http-sse') return;
  const path = ['routes', index, 'upstream'];
  const text = 'expected streamable-http or auto, since upstream.era is modern, got "http-sse"';
  yield { path: [...path, 'transport'], text, reads: [[...path, 'era']] };
}

/** Checks that no two routes and dialects share a path, and that none takes a path that has another use. */
function* checkPaths({ routes }: Config): Problems {
  const all = routes.flatMap((route, index) => [
    { at: ['routes', index, 'path'], name: `routes[${index}]`, path: route.path },
    ...dialectPaths(route).map(([dialect, path]) => ({
      at: ['routes', index, 'dialects', dialect],
      name: `routes[${index}].dialects.${dialect}`,
      path,
    })),
  ]);
  for (const [index, { at, path }] of all.entries()) {
    if (RESERVED_PATHS.has(path) || path.startsWith('/.well-known')) {
      const text = `path ${JSON.stringify(path)} is reserved; use another, such as /mcp`;
      yield { path: at, text };
    }
    const same = all.slice(0, index).find((other) => other.path === path);
    if (same !== undefined) {
      const text = `expected a unique path, got ${JSON.stringify(path)}, which ${same.name} has, too`;
      yield { path: at, text, reads: [same.at] };
    }
  }
}

function* checkLoop(route: RouteConfig, index: number, listen: ListenAddress): Problems {
  const { url } = route.upstream;
  if (url === null) return;
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
  const here = isLoopbackHost(listen.host) || isWildcard(listen.host);
  if (!here || !isLoopbackHost(url.hostname) || port !== listen.port) return;
  const text = `expected the address of the legacy server, got that of the gateway itself (${formatAddress(listen)})`;
  yield { path: ['routes', index, 'upstream', 'url'], text, reads: [['listen']] };
}

/**
 * Checks that the callers of a server over stdio can be told apart: each of them has a process, and nothing behind the
 * gateway checks credentials.
 */
function* checkCallers(
  { upstream, sessions, publicUrl }: RouteConfig,
  index: number,
  { listen, identity }: Config,
): Problems {
  if (upstream.process === null) return;
  if (publicUrl !== null) {
    const text =
      'expected no publicUrl, since a server over stdio (upstream.command) takes no tokens';
    yield { path: ['routes', index, 'publicUrl'], text };
    return;
  }
  const isOpen = !isLoopbackHost(listen.host) && identity.source === 'none';
  if (!isOpen || sessions.scope === 'shared') return;
  const text = `expected shared, or an identity, since upstream.command runs a process for each caller and callers on ${formatAddress(listen)} cannot be told apart (or listen on loopback), got ${sessions.scope ?? 'nothing'}`;
  yield { path: ['routes', index, 'sessions', 'scope'], text };
}

/** Checks that tokens are exchanged where they can be: only a token that was verified is sent to be exchanged. */
function* checkTokenExchange(
  { upstream }: RouteConfig,
  index: number,
  { identity }: Config,
): Problems {
  if (upstream.process !== null) return;
  const { authorization, tokenExchange, headers } = upstream;
  const path = ['routes', index, 'upstream'];
  if (tokenExchange === null) {
    if (authorization !== 'exchange') return;
    const text =
      'expected a map with tokenEndpoint, clientId and clientSecret, since authorization is exchange, got nothing';
    yield { path: [...path, 'tokenExchange'], text, reads: [[...path, 'authorization']] };
    return;
  }
  const reads = [[...path, 'tokenExchange']];
  if (authorization !== 'exchange') {
    const text = `expected exchange, since there is a tokenExchange, got ${authorization}`;
    yield { path: [...path, 'authorization'], text, reads };
  } else if (headers['authorization'] !== undefined) {
    const text = 'expected no Authorization, since tokenExchange sets it';
    yield { path: [...path, 'headers'], text, reads };
  } else if (identity.source !== 'jwt') {
    const text = 'expected identity.source: jwt, since only verified tokens are exchanged';
    yield { path: [...path, 'tokenExchange'], text, reads: [['identity']] };
  }
}

/** Checks that rules are about what is verified: only tokens have scopes and claims. */
function* checkRights(route: RouteConfig, index: number, { identity }: Config): Problems {
  if (identity.source === 'jwt') return;
  for (const key of ['tools', 'prompts', 'resources'] as const) {
    if (route[key].rules === null) continue;
    const path = ['routes', index, key, 'rules'];
    const text = `expected identity.source: jwt, since only tokens have scopes and claims, got ${identity.source}`;
    yield { path, text, reads: [['identity']] };
  }
}

function* checkKeys({ seal: { keys } }: Config): Problems {
  for (const [index, { kid, key }] of keys.entries()) {
    const earlier = keys.slice(0, index);
    const path = ['seal', 'keys', index];
    if (earlier.some((other) => other.kid === kid)) {
      yield { path: [...path, 'kid'], text: 'expected a unique kid, got that of an earlier key' };
    }
    const bytes = Buffer.from(key, 'base64url');
    if (earlier.some((other) => Buffer.from(other.key, 'base64url').equals(bytes))) {
      const text =
        'expected a new key ("mrtr-gateway keygen" prints one), got the bytes of an earlier one';
      yield { path: [...path, 'key'], text };
    }
  }
}

/** Checks that the tokens of clients, which are for the server, reach it, and that one document names the resource. */
function* checkPublicUrls({ identity, routes }: Config): Problems {
  const isOwn = identity.source === 'jwt' && identity.resourceMetadata !== null;
  for (const [index, { publicUrl, upstream }] of routes.entries()) {
    const { authorization, headers } = upstream;
    const strips = authorization !== 'forward' || headers['authorization'] !== undefined;
    const reason = isOwn
      ? 'identity.resourceMetadata names the gateway as the protected resource'
      : 'the server does not get the tokens of clients (upstream.authorization, upstream.headers)';
    if (publicUrl === null || !(isOwn || strips)) continue;
    const text = `expected no publicUrl, since ${reason}, got ${JSON.stringify(publicUrl.href)}`;
    yield { path: ['routes', index, 'publicUrl'], text };
  }
}

function* checkIdentity({ identity, routes }: Config): Problems {
  if (identity.source === 'jwt') {
    const { resource } = identity.resourceMetadata ?? {};
    const paths = routes.map(({ path }) => path);
    const isClear = resource === undefined || paths.length === 1;
    if (isClear || namedRoute(resource, paths) !== null) return;
    const text = `expected a URL that ends with the path of a route (${paths.slice(0, 3).join(', ')}), got ${JSON.stringify(resource)}`;
    yield { path: ['identity', 'resourceMetadata', 'resource'], text, reads: [['routes']] };
  }
  if (identity.source !== 'header') return;
  const path = ['identity', 'header'];
  const at = identity.credentialHeaders.indexOf(identity.header.toLowerCase());
  if (at >= 0) {
    const text = 'expected a header other than identity.header, which names the principal';
    yield { path: ['identity', 'credentialHeaders', at], text, reads: [path] };
  }
  if (!NO_IDENTITY.test(identity.header)) return;
  const text = `expected a header that only a trusted proxy sets, got ${JSON.stringify(identity.header)}`;
  yield { path, text };
}

function* checkLimits({ limits }: Config): Problems {
  const { maxParkedCalls, maxParkedCallsPerPrincipal } = limits;
  if (maxParkedCallsPerPrincipal <= maxParkedCalls) return;
  const text = `expected at most limits.maxParkedCalls (${maxParkedCalls}), got ${maxParkedCallsPerPrincipal}`;
  const reads = [['limits', 'maxParkedCalls']];
  yield { path: ['limits', 'maxParkedCallsPerPrincipal'], text, reads };
}

function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || host === '::';
}
