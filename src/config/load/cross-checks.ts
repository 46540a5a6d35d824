/** Rules between several fields of a configuration. */
import { namedRoute } from '../../identity/protected-resource.ts';
import { dialectPaths, type Config, type RouteConfig } from '../schema.ts';
import { isLoopbackHost } from '../../lib/http.ts';
import { formatAddress, type ListenAddress } from '../../lib/address.ts';
import { formatDuration } from '../units.ts';
import { checkRedisUrl, RedisUrlInvalid, type RedisOptions } from '../../replicas/redis/options.ts';
import type { Problem } from './problem.ts';

type SealKey = Config['seal']['keys'][number];

/** Paths of health checks and scrapers. No MCP endpoint may use them. */
const RESERVED_PATHS = new Set(['/healthz', '/livez', '/readyz', '/metrics']);
/** Headers that have another meaning, or that clients control. */
const NO_IDENTITY = /^(?:authorization|cookie|host|connection|origin|accept|content-.*|mcp-.*)$/i;

/** Checks rules between fields whose values are valid. @returns all problems */
export function crossCheck(config: Config): Problem[] {
  return [
    ...checkListeners(config),
    ...checkPaths(config),
    ...config.routes.flatMap((route, index) => [
      ...checkRoute(route, index, config.routes.slice(0, index)),
      ...checkLoop(route, index, config.listen),
      ...checkCallers(route, index, config),
      ...checkTokenExchange(route, index, config),
    ]),
    ...config.seal.keys.flatMap((key, index) =>
      checkKey(key, index, config.seal.keys.slice(0, index)),
    ),
    ...checkReplicas(config),
    ...checkIdentity(config),
    ...checkPublicUrls(config),
    ...checkLimits(config),
  ];
}

function checkListeners({ listen, admin, relay }: Config): Problem[] {
  const listeners = [
    { name: 'listen', path: ['listen'], address: listen },
    { name: 'admin', path: ['admin'], address: admin },
    { name: 'relay.listen', path: ['relay', 'listen'], address: relay?.listen ?? null },
  ];
  return listeners.flatMap(({ path, address }, index) => {
    const other = listeners.slice(0, index).find((one) => collide(one.address, address));
    if (address === null || other?.address === undefined || other.address === null) return [];
    const text = `expected a port other than that of ${other.name} (${formatAddress(other.address)}), got ${formatAddress(address)}`;
    return [{ path, text, reads: [other.path] }];
  });
}

function collide(one: ListenAddress | null, other: ListenAddress | null): boolean {
  if (one === null || other === null || one.port === 0 || one.port !== other.port) return false;
  return one.host === other.host || isWildcard(one.host) || isWildcard(other.host);
}

/** Checks what several replicas need: they recognise each other and each other's pointers by shared keys. */
function checkReplicas({ relay, redis, seal }: Config): Problem[] {
  const problems: Problem[] = [];
  const shares = relay !== null ? 'relay' : redis !== null ? 'redis' : null;
  if (shares !== null && seal.keys.length === 0) {
    const text = `expected a key that all replicas share, since ${shares} needs one ("mrtr-gateway keygen" prints one), got none`;
    problems.push({ path: ['seal', 'keys'], text, reads: [['relay'], ['redis']] });
  }
  if (relay !== null) problems.push(...checkRelay(relay, redis !== null));
  if (redis === null) return problems;
  if (redis.mode === 'sentinel' && redis.name === '') {
    const text = 'expected the name of the group that the Sentinels watch, got nothing';
    problems.push({ path: ['redis', 'sentinel', 'name'], text });
  }
  const problem = redisUrlProblem(redis);
  if (problem !== null) problems.push({ path: ['redis', 'url'], text: problem });
  return problems;
}

function checkRelay(
  { via, listen, advertise }: NonNullable<Config['relay']>,
  hasRedis: boolean,
): Problem[] {
  if (via === 'redis') {
    if (hasRedis) return [];
    return [
      { path: ['relay', 'via'], text: 'expected http, since there is no redis, got "redis"' },
    ];
  }
  if (listen === null) {
    const text = 'expected an address such as 127.0.0.1:8081, since relay.via is http, got nothing';
    return [{ path: ['relay', 'listen'], text }];
  }
  if (advertise !== null || !isWildcard(listen.host)) return [];
  const text = `expected the URL at which other replicas reach ${formatAddress(listen)}, such as http://\${POD_IP}:${listen.port}, got nothing`;
  return [{ path: ['relay', 'advertise'], text }];
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

function checkRoute(route: RouteConfig, index: number, earlier: readonly RouteConfig[]): Problem[] {
  return [
    ...checkUniqueness(route, index, earlier),
    ...checkForwardedHeaders(route.upstream, index),
    ...checkParking(route, index),
    ...checkEra(route.upstream, index),
  ];
}

function checkUniqueness(
  { id, path, publicUrl }: RouteConfig,
  index: number,
  earlier: readonly RouteConfig[],
): Problem[] {
  const problems: Problem[] = [];
  const isPathUnique = earlier.every((other) => other.path !== path);
  const sameId = earlier.findIndex((other) => other.id === id);
  if (isPathUnique && sameId !== -1) {
    problems.push({
      path: ['routes', index, 'id'],
      reads: [
        ['routes', index, 'path'],
        ['routes', sameId],
      ],
      text: `expected a unique id, got ${JSON.stringify(id)}, which routes[${sameId}] has, too`,
    });
  }
  const sameUrl = earlier.findIndex((other) => other.publicUrl?.href === publicUrl?.href);
  if (publicUrl !== null && sameUrl !== -1) {
    const text = `expected a unique URL, got ${JSON.stringify(publicUrl.href)}, which routes[${sameUrl}] has, too`;
    problems.push({ path: ['routes', index, 'publicUrl'], text });
  }
  return problems;
}

function checkForwardedHeaders(
  { headers, forwardHeaders }: RouteConfig['upstream'],
  index: number,
): Problem[] {
  const path = ['routes', index, 'upstream'];
  return forwardHeaders.flatMap((name, at) => {
    if (headers[name] === undefined) return [];
    const text = `expected another header, since upstream.headers sets ${name}, got ${JSON.stringify(name)}`;
    return [{ path: [...path, 'forwardHeaders', at], text, reads: [[...path, 'headers']] }];
  });
}

function checkParking({ parking, continuation }: RouteConfig, index: number): Problem[] {
  const { ttlMs, callTtlMs, release } = parking;
  const problems: Problem[] = [];
  if (ttlMs > callTtlMs) {
    problems.push({
      path: ['routes', index, 'parking', 'ttl'],
      reads: [['routes', index, 'parking', 'callTtl']],
      text: `expected at most parking.callTtl (${formatDuration(callTtlMs)}), got ${formatDuration(ttlMs)}`,
    });
  }
  if (release !== 'never' && !continuation.reattach) {
    problems.push({
      path: ['routes', index, 'parking', 'release'],
      reads: [['routes', index, 'continuation', 'reattach']],
      text: `expected never, since continuation.reattach is false, got ${release}`,
    });
  }
  return problems;
}

function checkEra({ era, transport }: RouteConfig['upstream'], index: number): Problem[] {
  if (era !== 'modern' || transport !== 'http-sse') return [];
  const path = ['routes', index, 'upstream'];
  const text = 'expected streamable-http or auto, since upstream.era is modern, got "http-sse"';
  return [{ path: [...path, 'transport'], text, reads: [[...path, 'era']] }];
}

/** Checks that no two routes and dialects share a path, and that none takes a path that has another use. */
function checkPaths({ routes }: Config): Problem[] {
  const all = routes.flatMap((route, index) => [
    { at: ['routes', index, 'path'], name: `routes[${index}]`, path: route.path },
    ...dialectPaths(route).map(([dialect, path]) => ({
      at: ['routes', index, 'dialects', dialect],
      name: `routes[${index}].dialects.${dialect}`,
      path,
    })),
  ]);
  return all.flatMap(({ at, path }, index) => {
    const problems: Problem[] = [];
    if (RESERVED_PATHS.has(path) || path.startsWith('/.well-known')) {
      const text = `path ${JSON.stringify(path)} is reserved; use another, such as /mcp`;
      problems.push({ path: at, text });
    }
    const same = all.slice(0, index).find((other) => other.path === path);
    if (same !== undefined) {
      const text = `expected a unique path, got ${JSON.stringify(path)}, which ${same.name} has, too`;
      problems.push({ path: at, text, reads: [same.at] });
    }
    return problems;
  });
}

function checkLoop(route: RouteConfig, index: number, listen: ListenAddress): Problem[] {
  const { url } = route.upstream;
  if (url === null) return [];
  const port = Number(url.port || (url.protocol === 'https:' ? 443 : 80));
  const here = isLoopbackHost(listen.host) || isWildcard(listen.host);
  if (!here || !isLoopbackHost(url.hostname) || port !== listen.port) return [];
  const text = `expected the address of the legacy server, got that of the gateway itself (${formatAddress(listen)})`;
  return [{ path: ['routes', index, 'upstream', 'url'], text, reads: [['listen']] }];
}

/**
 * Checks that the callers of a server over stdio can be told apart: each of them has a process, and nothing behind the
 * gateway checks credentials.
 */
function checkCallers(
  { upstream, sessions, publicUrl }: RouteConfig,
  index: number,
  { listen, identity }: Config,
): Problem[] {
  if (upstream.process !== null && publicUrl !== null) {
    const text =
      'expected no publicUrl, since a server over stdio (upstream.command) takes no tokens';
    return [{ path: ['routes', index, 'publicUrl'], text }];
  }
  const isOpen = !isLoopbackHost(listen.host) && identity.source === 'none';
  if (upstream.process === null || !isOpen || sessions.scope === 'shared') return [];
  const text = `expected shared, or an identity, since upstream.command runs a process for each caller and callers on ${formatAddress(listen)} cannot be told apart (or listen on loopback), got ${sessions.scope ?? 'nothing'}`;
  return [{ path: ['routes', index, 'sessions', 'scope'], text }];
}

/** Checks that tokens are exchanged where they can be: only a token that was verified is sent to be exchanged. */
function checkTokenExchange(
  { upstream }: RouteConfig,
  index: number,
  { identity }: Config,
): Problem[] {
  if (upstream.process !== null) return [];
  const { authorization, tokenExchange, headers } = upstream;
  const path = ['routes', index, 'upstream'];
  if (tokenExchange === null) {
    if (authorization !== 'exchange') return [];
    const text =
      'expected a map with tokenEndpoint, clientId and clientSecret, since authorization is exchange, got nothing';
    return [{ path: [...path, 'tokenExchange'], text, reads: [[...path, 'authorization']] }];
  }
  const reads = [[...path, 'tokenExchange']];
  if (authorization !== 'exchange') {
    const text = `expected exchange, since there is a tokenExchange, got ${authorization}`;
    return [{ path: [...path, 'authorization'], text, reads }];
  }
  if (headers['authorization'] !== undefined) {
    const text = 'expected no Authorization, since tokenExchange sets it';
    return [{ path: [...path, 'headers'], text, reads }];
  }
  if (identity.source === 'jwt') return [];
  const text = 'expected identity.source: jwt, since only verified tokens are exchanged';
  return [{ path: [...path, 'tokenExchange'], text, reads: [['identity']] }];
}

function checkKey({ kid, key }: SealKey, index: number, earlier: readonly SealKey[]): Problem[] {
  const problems: Problem[] = [];
  if (earlier.some((other) => other.kid === kid)) {
    const text = 'expected a unique kid, got that of an earlier key';
    problems.push({ path: ['seal', 'keys', index, 'kid'], text });
  }
  const bytes = Buffer.from(key, 'base64url');
  if (earlier.some((other) => Buffer.from(other.key, 'base64url').equals(bytes))) {
    const text =
      'expected a new key ("mrtr-gateway keygen" prints one), got the bytes of an earlier one';
    problems.push({ path: ['seal', 'keys', index, 'key'], text });
  }
  return problems;
}

/** Checks that the tokens of clients, which are for the server, reach it, and that one document names the resource. */
function checkPublicUrls({ identity, routes }: Config): Problem[] {
  const isOwn = identity.source === 'jwt' && identity.resourceMetadata !== null;
  return routes.flatMap(({ publicUrl, upstream: { authorization, headers } }, index) => {
    const strips = authorization !== 'forward' || headers['authorization'] !== undefined;
    const reason = isOwn
      ? 'identity.resourceMetadata names the gateway as the protected resource'
      : 'the server does not get the tokens of clients (upstream.authorization, upstream.headers)';
    if (publicUrl === null || !(isOwn || strips)) return [];
    const text = `expected no publicUrl, since ${reason}, got ${JSON.stringify(publicUrl.href)}`;
    return [{ path: ['routes', index, 'publicUrl'], text }];
  });
}

function checkIdentity({ identity, routes }: Config): Problem[] {
  if (identity.source === 'none') return [];
  if (identity.source === 'jwt') {
    const { resource } = identity.resourceMetadata ?? {};
    const paths = routes.map(({ path }) => path);
    const isClear = resource === undefined || paths.length === 1;
    if (isClear || namedRoute(resource, paths) !== null) return [];
    const text = `expected a URL that ends with the path of a route (${paths.slice(0, 3).join(', ')}), got ${JSON.stringify(resource)}`;
    return [{ path: ['identity', 'resourceMetadata', 'resource'], text, reads: [['routes']] }];
  }
  const problems: Problem[] = [];
  const at = identity.credentialHeaders.indexOf(identity.header.toLowerCase());
  if (at >= 0) {
    const text = 'expected a header other than identity.header, which names the principal';
    problems.push({
      path: ['identity', 'credentialHeaders', at],
      text,
      reads: [['identity', 'header']],
    });
  }
  if (!NO_IDENTITY.test(identity.header)) return problems;
  const text = `expected a header that only a trusted proxy sets, got ${JSON.stringify(identity.header)}`;
  return [...problems, { path: ['identity', 'header'], text }];
}

function checkLimits({ limits }: Config): Problem[] {
  const { maxParkedCalls, maxParkedCallsPerPrincipal } = limits;
  if (maxParkedCallsPerPrincipal <= maxParkedCalls) return [];
  const text = `expected at most limits.maxParkedCalls (${maxParkedCalls}), got ${maxParkedCallsPerPrincipal}`;
  const reads = [['limits', 'maxParkedCalls']];
  return [{ path: ['limits', 'maxParkedCallsPerPrincipal'], text, reads }];
}

function isWildcard(host: string): boolean {
  return host === '0.0.0.0' || host === '::';
}
