/** Turns a parsed file into the finished configuration, whose names carry their units. */
import type { Config, RouteConfig } from './config.ts';
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
    edge: {
      allowedOrigins: edge.allowedOrigins,
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
  const { upstream, sessions, parking } = route;
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
    parking: {
      ttlMs: parking.ttl,
      callTtlMs: parking.callTtl,
      maxDurationMs: parking.maxDuration,
      maxRounds: parking.maxRounds,
      redeliverMs: parking.redeliver,
    },
    questions: route.questions,
  };
}

/** `/teams/a/mcp` is `teams-a-mcp`; a path that leaves nothing is `root`. */
function idFromPath(path: string): string {
  const name = path.replace(/[^A-Za-z0-9_]+/g, '-').replace(/^-+|-+$/g, '');
  return name === '' ? 'root' : name.slice(0, 64);
}
