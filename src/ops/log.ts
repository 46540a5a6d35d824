/** Logging as typed events: all that there are, with their fields. An event is one line of JSON, or pretty text on a terminal. */
import {
  debug,
  error,
  fatal,
  info,
  warn,
  type EventKind,
  type LogLevel,
  type OfRoute,
} from './event-kinds.ts';
import { REQUEST_EVENTS } from './request-events.ts';

export const EVENTS = {
  /** `url` of the first route. */
  'gateway.listening': info<{ url: string; admin: string | null; upstreams: string }>(
    'accepts connections; /readyz says when every server responds',
  ),
  /** One of several routes. */
  'route.listening': info<OfRoute & { url: string; upstream: string }>(
    'where clients reach this route',
  ),
  'gateway.key_ephemeral': warn(
    'no seal.keys configured: using a key generated for this process; parked calls do not survive a restart, and other replicas cannot resume them',
  ),
  /** `nearest`: the variable that may be meant. */
  'gateway.unknown_variable': warn<{ name: string; nearest: string | null }>(
    'the gateway does not read this variable, so it has no effect; "mrtr-gateway --help" lists the variables',
  ),
  /** `field`: what says the same in a configuration file. */
  'gateway.unused_variable': warn<{ name: string; field: string }>(
    'this variable has no effect with a file: set the field in a configuration file',
  ),
  'gateway.few_open_files': warn<{ limit: number; needed: number }>(
    'the limit of open files is lower than the gateway can need: raise it (ulimit -n), or set limits.* and sessions.max to what you need',
  ),
  'gateway.one_worker': warn(
    'processes cannot share a port on this platform (SO_REUSEPORT): running one process in place of several workers',
  ),
  /** `shared`: what leads a call to the session of its caller. */
  'gateway.homes': debug<{ shared: 'redis' | 'workers' | 'nothing' }>(
    'which processes share the sessions of callers: all replicas (redis), the workers of this gateway (workers), or none (nothing)',
  ),
  'gateway.sessions_not_shared': warn(
    'replicas relay to each other, and have no Redis: each keeps a session of its own for the same caller, so state that the server keeps in a session is not available through another replica. Configure redis, or send all calls of a caller to the same replica',
  ),
  /** The names of the routes, and of the other settings that changed. */
  'config.reloaded': info<{ added: string; changed: string; removed: string; settings: string }>(
    'the new configuration is in effect',
  ),
  'config.refused': error<{ problem: string }>(
    'the new configuration was refused: the previous one stays in effect',
  ),
  /** What is valid, and risky. `field`: its place in the configuration. */
  'config.risky': warn<{ field: string; problem: string }>(
    'the configuration is valid, and risky in this field. Logged at start, and after a reload that changed what is risky',
  ),
  'gateway.draining': info<{ running: number; parked: number }>(
    'draining: running calls finish or move to another replica',
  ),
  /** `calls`: that wait for their client, and that no other process can continue. */
  'gateway.calls_kept': info<{ calls: number; forMs: number }>(
    'these calls wait for their client, and no other process can continue them: they are kept until they are answered, or drain.parked is over. A second signal (Ctrl-C) ends the gateway at once',
  ),
  /** `calls`: that waited for their client when a drain ended, and that no other process can continue. */
  'gateway.calls_lost': warn<{ calls: number }>(
    'calls that wait for their client end with this process, since no other can continue them: drain.parked keeps them until they are answered',
  ),
  'gateway.stopped': info<{ code: number }>(),
  'gateway.crashed': fatal<{ problem: string }>('internal error; the process exits'),
  'gateway.defect': error<{ route?: string; call?: string; problem: string }>(
    'internal error: the call, task or background work that met it ends, and the process continues. Please report it',
  ),
  'gateway.start_failed': fatal<{ code: string; problem: string }>(
    'the gateway does not start: the problem says what to do',
  ),
  'gateway.port_in_use': warn<{ flag: string; port: number; instead: number }>(
    'another process listens on the default port, so the gateway uses the next free one; set another with the flag',
  ),
  /** `lines`: how many were not written, since the reader of the log was behind. */
  'log.dropped': warn<{ lines: number }>(
    'stderr was blocked: more than 4 MiB of log waited, and these lines were dropped',
  ),
  'traces.off': warn<{ problem: string }>(
    'the gateway does not support this configuration of traces: none are exported',
  ),
  'traces.not_exported': warn<{ spans: number; problem: string }>(
    'the collector did not accept traces, and they are dropped. Logged at most once a minute',
  ),
  'worker.started': info<{ worker: number; pid: number }>(),
  'worker.ended': error<{ worker: number; pid: number; problem: string; restartMs: number | null }>(
    'a worker ended by itself; its parked calls go on where another process can resume them',
  ),
  /** A legacy client called the bridged route for the first time, and is passed through. */
  'route.legacy_client': info<OfRoute>(
    'a client of a legacy revision is passed through: the server sends its requests directly to the client, and its calls are not parked',
  ),
  /**
   * A legacy client was refused. `reason`: the server is one over stdio, or the key of the configuration. `client`: the address of
   * the latest, if it is known. `requests`: how many since the last line.
   */
  'route.legacy_refused': warn<OfRoute & { client?: string; requests: number }>(
    'a client of a legacy revision was refused, since edge.legacyClients is reject. Pin the protocol revision 2026-07-28 in the client, see docs/clients.md. Logged at most once a minute',
  ),
  /** `cause`: why the server is spoken to as it is. */
  'upstream.detected': info<OfRoute & { kind: string; cause: string }>(),
  'upstream.slow': warn<OfRoute & { ms: number }>(
    'the server took long to reply to initialize; clients that connect meanwhile wait, and some give up after 5 s',
  ),
  'upstream.only_modern': warn<OfRoute & { what: string; names: string }>(
    'the server offers this to modern clients only, so clients of the gateway do not see it: the gateway uses legacy sessions, since tools can ask only there. With upstream.era: modern, all requests are passed through instead',
  ),
  /** `code` and `problem`: the last failure. */
  'upstream.circuit_opened': warn<OfRoute & { url: string; code: string; problem: string }>(
    'the server failed several times in a row: new requests are refused until it responds',
  ),
  'upstream.circuit_closed': info<OfRoute>('the server responds again'),
  'upstream.unavailable': warn<OfRoute & { url: string; code: string; problem: string }>(
    'the legacy server does not respond, or its response is not valid MCP',
  ),
  'upstream.failed': warn<
    OfRoute & { call: string | null; method: string; code: string; problem: string }
  >('a request to the legacy server failed'),
  /** A notification or a request of the server was too large. */
  'upstream.dropped': warn<OfRoute & { kind: string; method: string; problem: string }>(
    'the server sent a notification or a request that is too large, and was not read. A request was refused with an error',
  ),
  /** A request that can ask nothing was replied to. */
  'upstream.replied': debug<OfRoute & { method: string; errorType: string | null; ms: number }>(),
  /** `said`: the beginning of what the server said. */
  'upstream.refused': warn<OfRoute & { status: number; said: string }>(
    'the server refused the gateway, and named no way to log in. It may check Host: use the name that it accepts in upstream.url or upstream.hostHeader, or allow the gateway there. Or it needs credentials, which clients can bring',
  ),
  /** `error`: the error code of the challenge. */
  'upstream.token_refused': warn<OfRoute & { resource: string; error: string | null }>(
    'the server refused a token. Clients get tokens for publicUrl (the resource): let the server accept this audience. If it cannot, remove publicUrl, authorize callers in a proxy in front (identity), and set upstream.authorization: strip and upstream.headers',
  ),
  'upstream.broadcasts': warn<OfRoute>(
    'the server sends messages for one session to every session: the gateway now uses one session and one call at a time',
  ),
  /** `cause`: `configured`, or how the server showed it. */
  'upstream.one_session': warn<OfRoute & { cause: string }>(
    'one session at a time: calls of different callers run one at a time, and subscriptions get no notifications. configured: by sessions.max; refused: the server refused a second session; crashed: it broke the connection each time that a second one was opened',
  ),
  /** `cause`: what became of the last stream that was resumed. */
  'upstream.resumption': info<OfRoute & { delivers: boolean; cause: string }>(
    'whether the server sends results promptly on resumed streams; with parking.release: auto, parked calls are released while it does',
  ),
  'session.opened': debug<OfRoute & { revision: string; transport: string; standalone: boolean }>(),
  'session.ended': debug<OfRoute & { ms: number }>(),
  'session.no_standalone_stream': warn<OfRoute>(
    'the server opened no standalone stream: questions that it does not relate to a call will not arrive',
  ),
  'upstream.held_back': warn<OfRoute & { ms: number }>(
    'the server accepted a call, but the headers of its response have not arrived. The usual cause is a proxy in front of the server that holds responses back until they are complete, so that no question arrives (nginx: proxy_buffering off). A server that responds with JSON does the same while a tool is slow. Logged once for each route',
  ),
  'session.stream_lost': warn<OfRoute & { code: string; problem: string }>(
    'the server ended the standalone stream of a session and does not open it again: until it does, such a session gets no changes, and no questions that it does not relate to a call',
  ),
  /** `session`: the name that the gateway gives to a process of a server over stdio. */
  'process.started': debug<OfRoute & { session: string; pid: number }>(),
  /** `dropped`: lines of its output that were not logged, because there were too many. */
  'process.ended': debug<OfRoute & { session: string; problem: string; dropped?: number }>(),
  'process.crashed': warn<OfRoute & { session: string; problem: string; dropped?: number }>(
    'a process of the server exited unexpectedly, or the gateway ended it because of invalid output; the next request starts another one',
  ),
  /** A line of standard error, or one of standard output that is not a message. */
  'process.wrote': info<
    OfRoute & { session: string; stream: 'stdout' | 'stderr'; line: string; dropped?: number }
  >(),
  /** Sessions of legacy clients in front of a server over stdio. */
  'legacy_session.opened': debug<OfRoute & { session: string; revision: string }>(),
  'legacy_session.ended': debug<OfRoute & { session: string }>(),
  /** `requests`: how many since the last line. */
  'legacy_session.refused': warn<OfRoute & { problem: string; requests: number }>(
    'a legacy client got no session of a server over stdio: its initialize got an error. Logged at most once a minute',
  ),
  /** `what`: names no content. */
  'legacy_session.lost': debug<OfRoute & { session: string; what: string }>(
    'no client could get this message of the server',
  ),
  'session.not_reused': warn<OfRoute & { reason: string }>(
    'callers without credentials get a session for each call: what the server keeps in a session is lost, and each call costs an initialize. Configure identity, or let clients send credentials; sessions.scope: call accepts the cost and silences this line',
  ),
  'session.replaced': warn<OfRoute & { reason: string }>(
    'a session that calls had used was replaced: what the server kept in it is gone. The next call that asks for log messages gets a warning',
  ),
  'session.home_unknown': warn<OfRoute & { problem: string }>(
    'which replica has the session of a caller is not known: the call uses a session of this replica, which may lack the state of the caller',
  ),
  ...REQUEST_EVENTS,
};

export type LogEvent = keyof typeof EVENTS;
/** The fields of each event. */
export type LogEvents = {
  readonly [Name in LogEvent]: (typeof EVENTS)[Name] extends EventKind<infer Fields>
    ? Fields
    : never;
};

/** What every event about a request can have beside its own fields. */
export interface OfRequest {
  /** The id of the trace that the request belongs to. */
  readonly trace?: string;
}

export interface Log {
  event<Name extends LogEvent>(name: Name, fields: LogEvents[Name] & OfRequest): void;
  /** Tells whether anybody takes such an event now: the fields of one that nobody takes need not be collected. */
  takes(name: LogEvent): boolean;
  /** Logs events of this level and above from here on. */
  readonly setLevel?: (level: LogLevel) => void;
}
