/**
 * The server of a route, over HTTP or over stdio, with its sessions, and with what the log says of both. Settings that concern
 * neither can change without it.
 */
import type { RouteConfig, HttpUpstreamConfig } from '../config/schema.ts';
import type { Relay } from '../model/relay.ts';
import { HomePlacement } from '../sessions/placement.ts';
import { SessionPool } from '../sessions/session-pool.ts';
import { Availability } from '../upstream/discovery/availability.ts';
import type { Attributes } from '../ops/tracing.ts';
import type {
  Greeting,
  LegacyServer,
  ServerKind,
  SessionCapacityOptions,
} from '../upstream/legacy-server.ts';
import { inBackground } from '../lib/background.ts';
import type { Clock } from '../lib/clock.ts';
import { ownGreetingOf, type OwnGreeting } from './own-greeting.ts';
import type { SharedServices } from './shared-services.ts';
import { maxSessions, nameOfServer } from './settings.ts';
import { VERSION } from '../lib/program.ts';
import type { Log } from '../ops/log.ts';
import { CircuitBreaker, type CircuitBreakerOptions } from '../limits/admission.ts';
import type { DetectionCause } from '../upstream/discovery/detection.ts';
import {
  asUpstreamFailure,
  beginningOf,
  isOutOfFiles,
  type UpstreamFailure,
} from '../model/upstream-failure.ts';
import { failureOfStatus } from '../upstream/http/error-response.ts';
import type { Session } from '../upstream/session/session.ts';
import type { Transport } from '../upstream/transport/transport.ts';
import { StdioUpstream, type ProcessEvent } from '../upstream/stdio-upstream.ts';
import { Upstream } from '../upstream/upstream.ts';

export interface RouteServer {
  readonly upstream: LegacyServer;
  /** The server as one over HTTP; `null` for one over stdio. */
  readonly http: HttpServer | null;
  readonly pool: SessionPool;
  readonly availability: Availability;
  /** What the server said to the gateway itself. */
  readonly ownGreeting: OwnGreeting;
  /** Called with the method of each change that the server tells. */
  readonly listeners: Set<(method: string) => void>;
  /** Puts settings of its route in force that concern its sessions, and that can change without them. */
  use(config: Pick<RouteConfig, 'parking'>): void;
  /** Claims the homes of callers again, since the store may have lost them. */
  readonly claimHomesAgain: () => void;
}

/** How long the claim of a home outlives a process that does not renew it, in ms. */
const MIN_HOME_TTL_MS = 600_000;

/** Creates the server of a route. Nothing is sent to it yet. */
export function createRouteServer(config: RouteConfig, shared: SharedServices): RouteServer {
  const { clock, log } = shared;
  const route = config.id;
  const listeners: RouteServer['listeners'] = new Set();
  const max = maxSessions(config);
  let leftForMs = config.parking.ttlMs;
  const ownGreeting = ownGreetingOf(route, nameOfServer(config.upstream), shared);
  const { server: upstream, http } = createLegacyServer(config, shared, {
    onGreeted: (greeting) => ownGreeting.note(greeting),
    hasOneSession: max === 1,
    reserveOnlySession: () => pool.reserveOnlySession(),
    onChange: (method) => {
      for (const listener of listeners) listener(method);
    },
  });
  const placement = placementOf(config, shared.replica.relayOf(route), shared);
  const pool = new SessionPool(
    upstream,
    {
      ...config.sessions,
      max,
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
  const claimHomesAgain = () => inBackground(placement?.claimAgain());
  return { upstream, http, pool, availability, ownGreeting, listeners, use, claimHomesAgain };
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
  { id, sessions }: RouteConfig,
  relay: Relay | null,
  { config, replica, sealKeys, clock }: SharedServices,
): HomePlacement | null {
  const store = replica.homes;
  if (store === null || relay === null) return null;
  const ttlMs = Math.max(sessions.idleTimeoutMs, MIN_HOME_TTL_MS);
  const { hasSuccessor } = replica;
  const ring = sealKeys.ring('home');
  const { audience } = config.seal;
  return new HomePlacement({ store, ring, audience, route: id, ttlMs, hasSuccessor, clock });
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

function createLegacyServer(
  { id: route, upstream: config }: RouteConfig,
  { clock, log, hasSiblings, writes, messageBudget }: SharedServices,
  fromRoute: FromRoute,
): { readonly server: LegacyServer; readonly http: HttpServer | null } {
  const logOneSession = (cause: string) => log.event('upstream.one_session', { route, cause });
  if (fromRoute.hasOneSession === true) logOneSession('configured');
  const options = {
    gatewayInfo: { name: 'mrtr-gateway', version: VERSION },
    ...fromRoute,
    holdBytes: () => messageBudget.open(route),
    onDetected: (kind: ServerKind, cause: DetectionCause) =>
      log.event('upstream.detected', { route, kind, cause }),
    onDropped: (kind: string, method: string, problem: string) =>
      log.event('upstream.dropped', { route, kind, method: beginningOf(method), problem }),
    onSession: sessionLog(route, clock, log),
  };
  if (config.process !== null) {
    const onProcess = (event: ProcessEvent) => logProcess(route, event, log);
    const server = new StdioUpstream({ ...config, ...options, onProcess }, clock);
    return { server, http: null };
  }
  const circuit = createCircuit(route, config, clock, log);
  const onOutcome: HttpServer['onOutcome'] = (outcome) => {
    if (!isOutOfFiles(outcome)) circuit.ended(outcome);
  };
  let isStreamLossLogged = false;
  let isHoldingBackLogged = false;
  const upstream = new Upstream(
    {
      ...config,
      ...options,
      random: Math.random,
      hasSiblings,
      writes,
      onOutcome,
      onStreamLost: ({ code, message: problem }) => {
        if (!isStreamLossLogged) log.event('session.stream_lost', { route, code, problem });
        isStreamLossLogged = true;
      },
      onHeldBack: (ms) => {
        if (!isHoldingBackLogged) log.event('upstream.held_back', { route, ms });
        isHoldingBackLogged = true;
      },
      onOnlyModern: (offerings) => {
        for (const { what, names } of offerings) {
          log.event('upstream.only_modern', { route, what, names: names.join(', ') });
        }
      },
      onSlow: (ms) => log.event('upstream.slow', { route, ms: Math.round(ms) }),
      onOneSession: logOneSession,
      onResumption: (delivers, cause) =>
        log.event('upstream.resumption', { route, delivers, cause }),
      onBroadcast: () => log.event('upstream.broadcasts', { route }),
    },
    clock,
  );
  return { server: upstream, http: { config, upstream, circuit, onOutcome } };
}

/** Creates a function to call with each session that is opened. It logs the session, and its end. */
function sessionLog(route: string, clock: Clock, log: Log) {
  let isNoStreamLogged = false;
  return (session: Session, transport: Transport['kind']) => {
    const { protocolVersion: revision } = session.initializeResult;
    const standalone = session.canPush;
    log.event('session.opened', { route, revision, transport, standalone });
    const openedAtMs = clock.elapsed();
    session.onOver = () =>
      log.event('session.ended', { route, ms: Math.round(clock.elapsed() - openedAtMs) });
    // Once for each server, since anonymous callers get a session for each call.
    if (standalone || isNoStreamLogged || !session.interactive) return;
    if (transport === 'streamable-http') log.event('session.no_standalone_stream', { route });
    isNoStreamLogged = true;
  };
}

function createCircuit(
  route: string,
  config: HttpUpstreamConfig,
  clock: Clock,
  log: Log,
): CircuitBreaker {
  const options: CircuitBreakerOptions = {
    ...config.circuitBreaker,
    random: Math.random,
    onOpened: (outcome) => {
      const { code, message: problem } =
        typeof outcome === 'number' ? failureOf(outcome) : asUpstreamFailure(outcome, true);
      const url = nameOfServer(config);
      log.event('upstream.circuit_opened', { route, url, code, problem });
    },
    onClosed: () => log.event('upstream.circuit_closed', { route }),
  };
  return new CircuitBreaker(options, clock);
}

/** Describes a status as the log does where the request of a client gets it. The words of the server can repeat what it was sent. */
function failureOf(status: number): UpstreamFailure {
  return failureOfStatus({ status, headers: {}, mediaType: '' }, '', false, 0);
}

function logProcess(route: string, event: ProcessEvent, log: Log): void {
  const { session } = event;
  switch (event.type) {
    case 'started':
      return log.event('process.started', { route, session, pid: event.pid });
    case 'wrote': {
      const { stream, line, dropped } = event;
      return log.event('process.wrote', { route, session, stream, line, dropped });
    }
    case 'ended': {
      const { problem, dropped, isCrash } = event;
      const name = isCrash ? 'process.crashed' : 'process.ended';
      return log.event(name, { route, session, problem, dropped });
    }
  }
}
