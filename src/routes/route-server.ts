/**
 * The server of a route, over HTTP or over stdio, with its sessions, and with what the log says of both. Settings that concern
 * neither can change without it.
 */
import type { RouteConfig, HttpUpstreamConfig } from '../config/schema.ts';
import {
  withoutPermit,
  type Channel,
  type ChannelServer,
  type PermittedChannel,
  type SessionListener,
} from '../model/channel.ts';
import type { ModernServer } from '../model/modern-server.ts';
import type { Relay } from '../model/relay.ts';
import { inBackground } from '../lib/background.ts';
import { randomId } from '../lib/crypto.ts';
import { HomePlacement } from '../sessions/placement.ts';
import { SessionPool } from '../sessions/session-pool.ts';
import { Availability } from '../upstream/discovery/availability.ts';
import type { Attributes } from '../ops/tracing.ts';
import type { Greeting, LegacyServer, SessionCapacityOptions } from '../upstream/legacy-server.ts';
import type { Clock } from '../lib/clock.ts';
import { OwnGreeting } from './own-greeting.ts';
import type { SharedServices } from './shared-services.ts';
import { nameOfServer } from './settings.ts';
import { VERSION } from '../lib/program.ts';
import { routeLog, type RouteLog } from '../ops/route-log.ts';
import { CircuitBreaker, type CircuitBreakerOptions } from '../limits/admission.ts';
import { asUpstreamFailure, isOutOfFiles, UpstreamFailure } from '../model/upstream-failure.ts';
import { failureOfStatus } from '../upstream/http/error-response.ts';
import { ModernChannel } from '../upstream/modern/channel.ts';
import { ModernProcesses } from '../upstream/modern/processes.ts';
import { StdioUpstream } from '../upstream/stdio-upstream.ts';
import { Upstream } from '../upstream/upstream.ts';

export interface RouteServer {
  readonly upstream: LegacyServer;
  /** The server as one over HTTP; `null` for one over stdio. */
  readonly http: HttpServer | null;
  readonly pool: SessionPool;
  readonly availability: Availability;
  /** Sessions of legacy clients with a server over stdio, or with one that speaks 2026-07-28. Others legacy clients reach themselves. */
  readonly channels: ChannelServer;
  /** The processes of a server over stdio that speaks 2026-07-28; `null` for one over HTTP. */
  readonly processes: ModernProcesses | null;
  /** What the server said to the gateway itself. */
  readonly ownGreeting: OwnGreeting;
  /** Called with the method of each change that the server tells. */
  readonly listeners: Set<(method: string) => void>;
  /** Puts settings of its route in force that concern its sessions, and that can change without them. */
  use(config: Pick<RouteConfig, 'parking'>): void;
}

/** The most calls that wait in one session, and for a session. Callers beyond them would wait in vain. */
const MAX_QUEUED_CALLS = 100;

/** Creates the server of a route. Nothing is sent to it yet. */
export function createRouteServer(config: RouteConfig, shared: SharedServices): RouteServer {
  const { clock, log } = shared;
  const route = config.id;
  const listeners: RouteServer['listeners'] = new Set();
  let leftForMs = config.parking.ttlMs;
  const ownGreeting = new OwnGreeting(route, nameOfServer(config.upstream), shared);
  const created = createLegacyServer(config, shared, {
    onGreeted: (greeting) => ownGreeting.note(greeting),
    hasOneSession: config.sessions.max === 1,
    reserveOnlySession: () => pool.reserveOnlySession(),
    onChange: (method) => {
      for (const listener of listeners) listener(method);
    },
  });
  const { server: upstream, http } = created;
  const placement = placementOf(config, shared.replica.relayOf(route), shared);
  const pool = new SessionPool(
    upstream,
    {
      ...config.sessions,
      queue: { length: MAX_QUEUED_CALLS, waitMs: config.sessions.queue.waitMs },
      leftForMs: () => leftForMs,
      counts: shared.counts,
      name: route,
      placement,
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
  const use: RouteServer['use'] = ({ parking }) => void (leftForMs = parking.ttlMs);
  const { channels, processes } =
    created.stdio === null
      ? { channels: httpChannels(config, created.http, pool, clock), processes: null }
      : overStdio(config, created.stdio, pool, clock);
  const parts = { upstream, http, pool, channels, processes, availability };
  return { ...parts, ownGreeting, listeners, use };
}

function overStdio(config: RouteConfig, stdio: StdioUpstream, pool: SessionPool, clock: Clock) {
  const processes = processesOf(config, stdio, pool, clock);
  return { processes, channels: processChannels(config, stdio, processes, pool, clock) };
}

/** Opens processes for the requests of modern clients, in the limits of the route. */
function processesOf(
  { sessions: { idleTimeoutMs }, upstream: { headersTimeoutMs } }: RouteConfig,
  stdio: StdioUpstream,
  pool: SessionPool,
  clock: Clock,
): ModernProcesses {
  return new ModernProcesses({
    ...{ clock, idleTimeoutMs, startTimeoutMs: headersTimeoutMs },
    gatewayInfo: { ...GATEWAY_INFO },
    open: ({ principal, principalKey }, listener, end) =>
      inPermit(pool, principal === null ? null : principalKey, end, () =>
        stdio.openChannel(randomId().slice(0, 8), principalKey, listener),
      ),
    onDiscovered: (result) => stdio.noteDiscovered(result),
    onSilent: () => inBackground(stdio.askEraAgain()),
    discovered: () => stdio.discovered,
  });
}

const GATEWAY_INFO = { name: 'mrtr-gateway', version: VERSION };

/** Opens sessions for legacy clients with a server over HTTP, for the time that it speaks 2026-07-28. */
function httpChannels(
  config: RouteConfig,
  { upstream }: HttpServer,
  pool: SessionPool,
  clock: Clock,
): ChannelServer {
  const onDoubt = () => void upstream.doubt();
  return {
    ...lifeOf(config),
    keepsNothing: true,
    hasChanged: async () => false,
    // These folders are of another machine, or the server knows whose they are.
    learnsRoots: true,
    open: ({ principal }, listener, end) =>
      inPermit(pool, principal, end, async () =>
        modernChannel(config, upstream.modern, clock, listener, onDoubt),
      ),
  };
}

/** Opens sessions for legacy clients with a server over stdio: each has a process, unless the server speaks 2026-07-28. */
function processChannels(
  config: RouteConfig,
  stdio: StdioUpstream,
  processes: ModernProcesses,
  pool: SessionPool,
  clock: Clock,
): ChannelServer {
  return {
    ...lifeOf(config),
    get keepsNothing() {
      return stdio.knownKind === 'modern-stdio';
    },
    learnsRoots: config.upstream.roots === 'caller',
    open: async (owner, listener, end) => {
      const { name, principal, principalKey } = owner;
      if (stdio.knownKind !== 'modern-stdio') {
        return inPermit(pool, principal, end, () =>
          stdio.openChannel(name, principalKey, listener),
        );
      }
      const server = processes.serverOf(owner);
      // The process has the permit, and serves all sessions of its caller.
      const channel = withoutPermit(modernChannel(config, server, clock, listener, () => {}));
      // There is nothing to translate for a server that is legacy again: its clients begin anew.
      const tell = () => listener.ended(LEGACY_AGAIN);
      stdio.legacyAgain.add(tell);
      return {
        ...channel,
        end: () => {
          stdio.legacyAgain.delete(tell);
          return channel.end();
        },
      };
    },
    hasChanged: async (keptNothing) => {
      if (!keptNothing && stdio.knownKind === 'stdio') await stdio.askEraAgain();
      return keptNothing !== (stdio.knownKind === 'modern-stdio');
    },
  };
}

const LEGACY_AGAIN = new UpstreamFailure('session_gone', 'the server speaks another revision now', {
  mayHaveActed: false,
});

function lifeOf({ id: route, sessions, upstream }: RouteConfig) {
  const { idleTimeoutMs } = sessions;
  return { route, idleTimeoutMs, initializeTimeoutMs: upstream.headersTimeoutMs };
}

function modernChannel(
  { calls, upstream }: RouteConfig,
  server: ModernServer,
  clock: Clock,
  listener: SessionListener,
  onDoubt: () => void,
): ModernChannel {
  const { headersTimeoutMs: requestTimeoutMs } = upstream;
  const options = { server, clock, maxCallMs: calls.maxDurationMs, requestTimeoutMs, onDoubt };
  return new ModernChannel(listener, options);
}

/**
 * Opens a channel in a permit of the route.
 * @param end called if it has to end for another one
 * @throws UpstreamFailure
 */
async function inPermit(
  pool: SessionPool,
  principal: string | null,
  end: () => void,
  open: () => Promise<Channel>,
): Promise<PermittedChannel> {
  const permit = await pool.takePermit(principal);
  try {
    const channel = await open();
    return {
      send: (line, headers) => channel.send(line, headers),
      renew: (headers) => channel.renew(headers),
      pause: () => channel.pause(),
      resume: () => channel.resume(),
      end: () => channel.end().finally(permit.free),
      use: (use) => (use === 'request' ? permit.used() : permit.idle(end, use === 'stream')),
    };
  } catch (error) {
    permit.free();
    throw error;
  }
}

/** Returns what the operator gives to the server that can be a secret. */
function secretsOf({ upstream: { url, process, headers } }: RouteConfig): string[] {
  const given = Object.values(headers);
  if (process !== null) return [...given, ...Object.values(process.env)];
  return [...given, url.search, ...url.searchParams.values()];
}

/**
 * Tells whether credentials of clients reach the server, or tokens that are got for them. The operator's headers replace the
 * clients'.
 */
function takesCredentials({ upstream }: RouteConfig): boolean {
  if (upstream.process !== null) return false;
  const { authorization, forwardHeaders, headers } = upstream;
  const forwarded =
    authorization === 'strip' ? forwardHeaders : ['authorization', ...forwardHeaders];
  return forwarded.some((name) => headers[name] === undefined);
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
  { id }: RouteConfig,
  relay: Relay | null,
  { config, replica, sealKeys, clock }: SharedServices,
): HomePlacement | null {
  const { ownership, hasSuccessor } = replica;
  if (ownership === null || relay === null) return null;
  const ring = sealKeys.ring('home');
  const { audience } = config.seal;
  return new HomePlacement({ ownership, ring, audience, route: id, hasSuccessor, clock });
}

export interface HttpServer {
  readonly config: HttpUpstreamConfig;
  readonly upstream: Upstream;
  readonly circuit: CircuitBreaker;
  /** To be called with what became of a request. */
  readonly onOutcome: CircuitBreaker['ended'];
}

interface FromRoute extends SessionCapacityOptions {
  readonly onGreeted: (greeting: Greeting) => void;
  /** Called with the method of each change that the server tells. */
  readonly onChange: (method: string) => void;
}

type CreatedServer = { readonly server: LegacyServer } & (
  | { readonly http: HttpServer; readonly stdio: null }
  | { readonly http: null; readonly stdio: StdioUpstream }
);

function createLegacyServer(
  { id: route, sessions, upstream: config }: RouteConfig,
  { clock, log: ofProcess, hasSiblings, writes, messageBudget }: SharedServices,
  fromRoute: FromRoute,
): CreatedServer {
  const log = routeLog(ofProcess, route);
  if (fromRoute.hasOneSession === true) log.event('upstream.one_session', { cause: 'configured' });
  const options = {
    gatewayInfo: GATEWAY_INFO,
    ...fromRoute,
    // In a session that all callers share, one would choose for the others.
    rootsHabit:
      config.roots === 'caller' && sessions.scope !== 'shared'
        ? { isIndifferent: false }
        : undefined,
    holdBytes: () => messageBudget.open(route),
    log,
  };
  if (config.process !== null) {
    const stdio = new StdioUpstream({ ...config, ...options, maxProcesses: sessions.max }, clock);
    return { server: stdio, http: null, stdio };
  }
  const circuit = createCircuit(config, clock, log);
  const onOutcome: HttpServer['onOutcome'] = (outcome) => {
    if (!isOutOfFiles(outcome)) circuit.ended(outcome);
  };
  const upstream = new Upstream(
    { ...config, ...options, random: Math.random, hasSiblings, writes, onOutcome },
    clock,
  );
  return { server: upstream, http: { config, upstream, circuit, onOutcome }, stdio: null };
}

function createCircuit(config: HttpUpstreamConfig, clock: Clock, log: RouteLog): CircuitBreaker {
  const options: CircuitBreakerOptions = {
    ...config.circuitBreaker,
    random: Math.random,
    onOpened: (outcome) => {
      // A status is described as where the request of a client gets it. The words of the server can repeat what it was sent.
      const { code, message: problem } =
        typeof outcome === 'number'
          ? failureOfStatus({ status: outcome, headers: {}, mediaType: '' }, '', false, 0)
          : asUpstreamFailure(outcome, true);
      const url = nameOfServer(config);
      log.event('upstream.circuit_opened', { url, code, problem });
    },
    onClosed: () => log.event('upstream.circuit_closed', {}),
  };
  return new CircuitBreaker(options, clock);
}
