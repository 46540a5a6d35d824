/** Turns a parsed file into the finished configuration, whose names carry their units. */
import type { Config, RedisConfig, RouteConfig } from '../config.ts';
import type { ParsedFile } from './schema.ts';

type ParsedRoute = ParsedFile['routes'][number];

export function finish(file: ParsedFile): Config {
  const { edge, limits, drain } = file;
  return {
    listen: file.listen,
    admin: file.admin,
    routes: file.routes.map(finishRoute),
    identity: file.identity,
    seal: file.seal,
    relay:
      file.relay === undefined
        ? null
        : {
            via: file.relay.via,
            listen: file.relay.listen ?? null,
            advertise: file.relay.advertise ?? null,
          },
    redis: file.redis === undefined ? null : finishRedis(file.redis),
    edge: {
      allowedOrigins: edge.allowedOrigins,
      allowedHosts: edge.allowedHosts,
      trustedProxies: edge.trustedProxies,
      legacyClients: edge.legacyClients,
      commitAfterMs: edge.commitAfter,
      keepAliveMs: edge.keepAlive,
    },
    limits: {
      maxBodyBytes: limits.maxBody,
      maxJsonDepth: limits.maxJsonDepth,
      maxRunningCalls: limits.maxRunningCalls,
      maxParkedCalls: limits.maxParkedCalls,
      maxParkedCallsPerPrincipal: limits.maxParkedCallsPerPrincipal,
      maxConnections: limits.maxConnections,
    },
    drain: { delayMs: drain.delay, timeoutMs: drain.timeout },
    log: file.log,
  };
}

function finishRoute(route: ParsedRoute): RouteConfig {
  const { upstream, sessions, calls, parking, questions, caching } = route;
  return {
    id: route.id ?? idFromPath(route.path),
    path: route.path,
    upstream: {
      url: upstream.url,
      transport: upstream.transport,
      headers: upstream.headers,
      authorization: upstream.authorization,
      connectTimeoutMs: upstream.connectTimeout,
      headersTimeoutMs: upstream.headersTimeout,
      maxBodyBytes: upstream.maxBody,
      maxEventBytes: upstream.maxEvent,
      pingIntervalMs: upstream.pingInterval,
      statefulWithoutSessionId: upstream.statefulWithoutSessionId,
    },
    sessions: {
      scope: sessions.scope ?? null,
      idleTimeoutMs: sessions.idleTimeout,
      maxIdle: sessions.maxIdle,
    },
    calls: { maxDurationMs: calls.maxDuration, maxHoldMs: calls.maxHold },
    parking: {
      ttlMs: parking.ttl,
      callTtlMs: parking.callTtl,
      maxRounds: parking.maxRounds,
      redeliverMs: parking.redeliver,
      release: parking.release,
    },
    continuation: route.continuation,
    questions: {
      keyNames: questions.keyNames,
      keysFromStringIds: questions.keysFromStringIds,
      strictCapabilities: questions.strictCapabilities,
      urlVisitWaitMs: questions.urlVisitWait,
    },
    tools: route.tools,
    caching: {
      listTtlMs: caching.listTtl,
      resourceTtlMs: caching.resourceTtl,
      scope: caching.scope,
      serveLists: caching.serveLists,
    },
  };
}

function finishRedis(redis: NonNullable<ParsedFile['redis']>): RedisConfig {
  const { url, mode, nodes, sentinel, connectTimeout, commandTimeout, startWait } = redis;
  const common = {
    url,
    ...(redis.tls === undefined ? {} : { tls: withoutUndefined(redis.tls) }),
    connectTimeoutMs: connectTimeout,
    commandTimeoutMs: commandTimeout,
    startWaitMs: startWait,
  };
  switch (mode) {
    case 'single':
      return { ...common, mode };
    case 'cluster':
      return { ...common, mode, nodes };
    case 'sentinel': {
      const { username: sentinelUsername, password: sentinelPassword } = sentinel ?? {};
      const login = withoutUndefined({ sentinelUsername, sentinelPassword });
      return { ...common, mode, nodes, name: sentinel?.name ?? '', ...login };
    }
  }
}

type WithoutUndefined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

function withoutUndefined<T extends object>(members: T): WithoutUndefined<T> {
  const defined = Object.entries(members).filter(([, value]) => value !== undefined);
  return Object.fromEntries(defined) as WithoutUndefined<T>;
}

/** `/teams/a/mcp` is `teams-a-mcp`; a path that leaves nothing is `root`. */
function idFromPath(path: string): string {
  const name = path.replace(/[^A-Za-z0-9_]+/g, '-').replace(/^-+|-+$/g, '');
  return name === '' ? 'root' : name.slice(0, 64);
}
