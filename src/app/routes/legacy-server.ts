/** Creates the legacy server of a route, over HTTP or over stdio, with what the log says of it. */
import type { HttpUpstreamConfig, RouteConfig } from '../../config/schema.ts';
import type { Clock } from '../../lib/clock.ts';
import { VERSION } from '../../lib/program.ts';
import type { Log } from '../../ops/log.ts';
import { CircuitBreaker } from '../../limits/admission.ts';
import type { DetectionCause } from '../../upstream/discovery/detection.ts';
import type {
  LegacyServer,
  ServerKind,
  SessionCapacityOptions,
} from '../../upstream/legacy-server.ts';
import type { Session } from '../../upstream/session/session.ts';
import type { Transport } from '../../upstream/transport/transport.ts';
import { StdioUpstream, type ProcessEvent } from '../../upstream/stdio-upstream.ts';
import { Upstream } from '../../upstream/upstream.ts';

export interface HttpServer {
  readonly config: HttpUpstreamConfig;
  readonly upstream: Upstream;
  readonly circuit: CircuitBreaker;
}

interface FromRoute extends SessionCapacityOptions {
  /** Called with the method of each change that the server tells. */
  readonly onChange: (method: string) => void;
}

interface ServerServices {
  readonly clock: Clock;
  readonly log: Log;
  /** Whether other processes can use the same server. */
  readonly hasSiblings: boolean;
}

export function createLegacyServer(
  { id: route, upstream: config }: RouteConfig,
  { clock, log, hasSiblings }: ServerServices,
  fromRoute: FromRoute,
): { readonly server: LegacyServer; readonly http: HttpServer | null } {
  const logOneSession = (cause: string) => log.event('upstream.one_session', { route, cause });
  if (fromRoute.hasOneSession === true) logOneSession('configured');
  let isNoStreamLogged = false;
  const options = {
    gatewayInfo: { name: 'mrtr-gateway', version: VERSION },
    ...fromRoute,
    onDetected: (kind: ServerKind, cause: DetectionCause) =>
      log.event('upstream.detected', { route, kind, cause }),
    onSession: (session: Session, transport: Transport['kind']) => {
      const { protocolVersion: revision } = session.initializeResult;
      const standalone = session.standaloneStreamOpen;
      log.event('session.opened', { route, revision, transport, standalone });
      const openedAtMs = clock.elapsed();
      session.onOver = () =>
        log.event('session.ended', { route, ms: clock.elapsed() - openedAtMs });
      // Once for each server, since anonymous callers get a session for each call.
      if (standalone || isNoStreamLogged || !session.interactive) return;
      if (transport === 'streamable-http') log.event('session.no_standalone_stream', { route });
      isNoStreamLogged = true;
    },
  };
  if (config.process !== null) {
    const onProcess = (event: ProcessEvent) => logProcess(route, event, log);
    const server = new StdioUpstream({ ...config, ...options, onProcess }, clock);
    return { server, http: null };
  }
  const circuit = new CircuitBreaker(
    {
      ...config.circuitBreaker,
      random: Math.random,
      onChange: (isOpen) =>
        log.event(isOpen ? 'upstream.circuit_opened' : 'upstream.circuit_closed', { route }),
    },
    clock,
  );
  const upstream = new Upstream(
    {
      ...config,
      ...options,
      hasSiblings,
      onOutcome: circuit.ended,
      onOnlyModern: (offerings) => {
        for (const { what, names } of offerings) {
          log.event('upstream.only_modern', { route, what, names: names.join(', ') });
        }
      },
      onSlow: (ms) => log.event('upstream.slow', { route, ms }),
      onOneSession: logOneSession,
      onResumption: (delivers, cause) =>
        log.event('upstream.resumption', { route, delivers, cause }),
      onBroadcast: () => log.event('upstream.broadcasts', { route }),
    },
    clock,
  );
  return { server: upstream, http: { config, upstream, circuit } };
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
