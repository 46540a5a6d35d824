/** The server of a route with its sessions. Settings that concern neither can change without it. */
import type { RouteConfig } from '../../config/schema.ts';
import type { Relay } from '../../model/relay.ts';
import { HomePlacement } from '../../sessions/placement.ts';
import { SessionPool } from '../../sessions/session-pool.ts';
import { Availability } from '../../upstream/discovery/availability.ts';
import type { Attributes } from '../../ops/tracing.ts';
import type { LegacyServer } from '../../upstream/legacy-server.ts';
import type { SharedServices } from '../shared-services.ts';
import { createLegacyServer, type HttpServer } from './legacy-server.ts';
import { maxSessions, nameOfServer } from '../settings.ts';

export interface RouteServer {
  readonly upstream: LegacyServer;
  /** The server as one over HTTP; `null` for one over stdio. */
  readonly http: HttpServer | null;
  readonly pool: SessionPool;
  readonly availability: Availability;
  /** Called with the method of each change that the server tells. */
  readonly listeners: Set<(method: string) => void>;
}

/** How long the claim of a home outlives a process that does not renew it, in ms. */
const MIN_HOME_TTL_MS = 600_000;

/** Creates the server of a route. Nothing is sent to it yet. */
export function createRouteServer(config: RouteConfig, shared: SharedServices): RouteServer {
  const { clock, log } = shared;
  const route = config.id;
  const listeners: RouteServer['listeners'] = new Set();
  const max = maxSessions(config);
  const { server: upstream, http } = createLegacyServer(config, shared, {
    hasOneSession: max === 1,
    reserveOnlySession: () => pool.reserveOnlySession(),
    onChange: (method) => {
      for (const listener of listeners) listener(method);
    },
  });
  const pool = new SessionPool(
    upstream,
    {
      ...config.sessions,
      max,
      leftForMs: config.parking.ttlMs,
      counts: shared.counts,
      name: route,
      placement: placementOf(config, shared.replica.relayOf(route), shared),
      onReplaced: (reason) => log.event('session.replaced', { route, reason }),
    },
    clock,
  );
  const availability = new Availability({
    route,
    server: nameOfServer(config.upstream),
    upstream,
    takesCredentials: takesCredentials(config),
    secrets: secretsOf(config),
    clock,
    log,
  });
  return { upstream, http, pool, availability, listeners };
}

/** Returns what the operator gives to the server that can be a secret. */
function secretsOf({ upstream: { url, process, headers } }: RouteConfig): string[] {
  const given = Object.values(headers);
  if (process !== null) return [...given, ...Object.values(process.env)];
  return [...given, url.search, ...url.searchParams.values()];
}

/** Tells whether clients' credentials reach the server. The operator's `Authorization` replaces the client's. */
function takesCredentials({ upstream: { process, authorization, headers } }: RouteConfig): boolean {
  if (process !== null) return false;
  return authorization === 'forward' && headers['authorization'] === undefined;
}

/** What spans say of the server of a route, by the conventions of OpenTelemetry. */
export function peerOf({ upstream: { url, process } }: RouteConfig): Attributes {
  if (process !== null) return { 'network.transport': 'pipe' };
  const port = url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port);
  return {
    'network.transport': 'tcp',
    'network.protocol.name': 'http',
    'server.address': url.hostname,
    'server.port': port,
  };
}

/** @returns where homes are; `null` if no other process can be asked, or reached */
function placementOf(
  { id, sessions }: RouteConfig,
  relay: Relay | null,
  { replica, sealKeys, clock }: SharedServices,
): HomePlacement | null {
  const store = replica.homes;
  if (store === null || relay === null) return null;
  const ttlMs = Math.max(sessions.idleTimeoutMs, MIN_HOME_TTL_MS);
  const { hasSuccessor } = replica;
  const ring = sealKeys.ring('home');
  return new HomePlacement({ store, ring, route: id, ttlMs, hasSuccessor, clock });
}
