/**
 * Logging as typed events. Each event lists its fields, so that no argument, answer, token or sealed pointer
 * can get into a line. An event is one line of JSON, or pretty text on a terminal.
 */

/** The ways to serve a retry. */
export const RECOVERIES = ['here', 'relay', 'outcome', 'reattach', 'replay'] as const;
/** How a retry was served. */
export type Recovery = (typeof RECOVERIES)[number];

/** What is refused when the clocks of two replicas differ. */
export const CLOCK_REFUSALS = ['pointer'] as const;
export type ClockRefusal = (typeof CLOCK_REFUSALS)[number];

/** All events of the log, with their fields. */
export interface LogEvents {
  /** `url` of the first route. */
  'gateway.listening': { url: string; admin: string | null; upstreams: string };
  /** One of several routes. */
  'route.listening': { route: string; url: string; upstream: string };
  'gateway.key_ephemeral': object;
  /** `nearest`: the variable that may be meant. */
  'gateway.unknown_variable': { name: string; nearest: string | null };
  /** `field`: what says the same in a configuration file. */
  'gateway.unused_variable': { name: string; field: string };
  'gateway.few_open_files': { limit: number; needed: number };
  'gateway.one_worker': object;
  /** `shared`: what leads a call to the session of its caller. */
  'gateway.homes': { shared: 'redis' | 'workers' | 'nothing' };
  'gateway.sessions_not_shared': object;
  /** The names of the routes, and of the other settings that changed. */
  'config.reloaded': { added: string; changed: string; removed: string; settings: string };
  'config.refused': { problem: string };
  /** What is valid, and risky. `field`: its place in the configuration. */
  'config.risky': { field: string; problem: string };
  'gateway.draining': { running: number; parked: number };
  /** `calls`: that waited for their client when a drain ended, and that no other process can continue. */
  'gateway.calls_lost': { calls: number };
  'gateway.stopped': { code: number };
  'gateway.crashed': { problem: string };
  'gateway.defect': { route?: string; call?: string; problem: string };
  'gateway.start_failed': { code: string; problem: string };
  'gateway.port_in_use': { flag: string; port: number; instead: number };
  /** `lines`: how many were not written, since the reader of the log was behind. */
  'log.dropped': { lines: number };
  'traces.off': { problem: string };
  'traces.not_exported': { spans: number; problem: string };
  'worker.started': { worker: number; pid: number };
  'worker.ended': { worker: number; pid: number; problem: string; restartMs: number | null };
  /** A legacy client called the bridged route for the first time, and is passed through. */
  'route.legacy_client': { route: string };
  /**
   * A legacy client was refused. `reason`: the server is one over stdio, or the key of the configuration. `client`: the address of
   * the latest, if it is known. `requests`: how many since the last line.
   */
  'route.legacy_refused': {
    route: string;
    reason: 'stdio' | 'edge.legacyClients';
    client?: string;
    requests: number;
  };
  /** `cause`: why the server is spoken to as it is. */
  'upstream.detected': { route: string; kind: string; cause: string };
  'upstream.slow': { route: string; ms: number };
  'upstream.only_modern': { route: string; what: string; names: string };
  /** `code` and `problem`: the last failure. */
  'upstream.circuit_opened': { route: string; url: string; code: string; problem: string };
  'upstream.circuit_closed': { route: string };
  'upstream.unavailable': { route: string; url: string; code: string; problem: string };
  'upstream.failed': {
    route: string;
    call: string | null;
    method: string;
    code: string;
    problem: string;
  };
  /** A notification or a request of the server was too large. */
  'upstream.dropped': { route: string; kind: string; method: string; problem: string };
  /** A request that can ask nothing was replied to. */
  'upstream.replied': { route: string; method: string; errorType: string | null; ms: number };
  /** `said`: the beginning of what the server said. */
  'upstream.refused': { route: string; status: number; said: string };
  /** `error`: the error code of the challenge. */
  'upstream.token_refused': { route: string; resource: string; error: string | null };
  'upstream.broadcasts': { route: string };
  /** `cause`: `configured`, or how the server showed it. */
  'upstream.one_session': { route: string; cause: string };
  /** `cause`: what became of the last stream that was resumed. */
  'upstream.resumption': { route: string; delivers: boolean; cause: string };
  'session.opened': { route: string; revision: string; transport: string; standalone: boolean };
  'session.ended': { route: string; ms: number };
  'session.no_standalone_stream': { route: string };
  'upstream.held_back': { route: string; ms: number };
  'session.stream_lost': { route: string; code: string; problem: string };
  /** `session`: the name that the gateway gives to a process of a server over stdio. */
  'process.started': { route: string; session: string; pid: number };
  /** `dropped`: lines of its output that were not logged, because there were too many. */
  'process.ended': { route: string; session: string; problem: string; dropped: number };
  'process.crashed': { route: string; session: string; problem: string; dropped: number };
  /** A line of standard error, or one of standard output that is not a message. */
  'process.wrote': {
    route: string;
    session: string;
    stream: 'stdout' | 'stderr';
    line: string;
    dropped: number;
  };
  /** `reason`: why anonymous callers are not the local user. */
  'session.not_reused': { route: string; reason: string };
  'session.replaced': { route: string; reason: string };
  'session.home_unknown': { route: string; problem: string };
  /** `holder`: the replica that has the home of the caller. */
  'call.relayed': { route: string; holder: string };
  'call.started': { route: string; call: string; method: string; target: string };
  'call.parked': { route: string; call: string; round: number; questions: number };
  /** `waitedMs`: from the question to the answer, if the call here goes on with one. */
  'call.resumed': {
    route: string;
    call: string;
    round: number;
    recoveredBy: Recovery;
    waitedMs?: number;
  };
  'call.claim_failed': { route: string; call: string; problem: string };
  'task.created': { route: string; status: string };
  'task.taken_over': { route: string; status: string };
  'task.not_stopped': { route: string };
  'tasks.in_memory': object;
  'tasks.native_only': object;
  'tasks.address_too_long': { route: string; address: string };
  'pointer.continuation_dropped': { route: string; call: string; problem: string };
  'relay.failed': {
    route: string;
    call: string | null;
    owner: string;
    state: 'unknown' | 'gone' | 'silent' | 'unreachable' | 'left' | 'released';
    problem: string;
  };
  'relay.listening': { url: string };
  'relay.hop': { route: string; replica: string; outcome: string; ms: number };
  /** `aheadSeconds`: how far the clock of this machine is ahead; negative if it is behind. */
  'clock.skewed': { aheadSeconds: number };
  /** `aheadSeconds`: how far the clock of this machine is ahead of the other replica's. */
  'clock.refused': {
    route: string;
    call: string;
    of: ClockRefusal;
    replica: string;
    aheadSeconds: number;
  };
  'directory.waiting': { startWaitMs: number };
  'directory.up': object;
  'directory.down': { problem: string };
  'passthrough.session_refused': { route: string };
  'passthrough.failed': { route: string; status: number; problem: string };
  'call.result_ready': { route: string; call: string; round: number };
  'call.ended': {
    route: string;
    call: string;
    method: string;
    target: string;
    round: number;
    end: string;
    /** The code of an error, or a word; `null` for a success. */
    errorType: string | null;
    ms: number;
    /** Of that, the time that the server took in this process: without the time of people. */
    workMs: number;
  };
  /** No retry of a released call came here in time. */
  'call.release_expired': { route: string; call: string };
  'call.parking_limit': { limit: string; refused: number };
  /** `refused`: how many requests were refused since the last line. */
  'request.limited': { route: string; limit: string; refused: number };
  'call.question_refused': { route: string; call: string; method: string; reason: string };
  'call.answered_ahead': { route: string; call: string; kind: string };
  /**
   * What was answered in a round: how many questions were accepted, declined, cancelled, or failed at the client.
   * `who`: the start of a keyed digest of the principal, or `anonymous` or `local-user`. `waitedMs`: as in `call.resumed`.
   */
  audit: {
    route: string;
    call: string;
    round: number;
    who: string;
    client: string | null;
    address: string | null;
    method: string;
    target: string;
    recoveredBy: Recovery | 'ahead';
    waitedMs: number;
    accepted: number;
    declined: number;
    cancelled: number;
    failed: number;
  };
  /** The operator cancelled a call that waited for its client. `who`: as in `audit`. `by`: the operator's address. */
  'audit.stopped': {
    route: string;
    call: string;
    round: number;
    who: string;
    method: string;
    target: string;
    by: string | null;
  };
  'call.answer_refused': {
    route: string;
    call: string;
    round: number;
    cause: string;
    problem: string;
  };
  'notifications.dropped': {
    route: string;
    call: string | null;
    progress: number;
    messages: number;
  };
  'call.moved': { route: string; call: string; rule: string; from: string; to: string };
  'pointer.refused': { route: string; reason: string; call: string | null; problem?: string };
  'edge.request': {
    route: string;
    method: string;
    status: number;
    code: number | null;
    ms: number;
  };
  /** `expected`: the key that decides, with its value. `requests`: how many since the last line. */
  'identity.refused': { problem: string; expected: string; requests: number };
  'identity.exchange_failed': { route: string; problem: string };
  'identity.keys_unavailable': { problem: string };
  'edge.host_refused': { header: 'Host' | 'Origin'; value: string };
  /** `paths`: those of the routes. `requests`: how many since the last line. */
  'edge.wrong_path': { path: string; paths: string; requests: number };
  /** `refused`: how many connections since the last line. `client`: the address of the latest, if it is known. */
  'edge.connection_limit': { refused: number; client?: string };
  /** `requests`: how many since the last line. `client`: the address of the latest, if it is known. */
  'edge.client_stalled': { path: string; client?: string; requests: number };
  /** `client`: its address, if it is known. */
  'edge.invalid_request': {
    method: string;
    path: string;
    status: number;
    problem: string;
    client?: string;
  };
  'edge.failed': { route: string; problem: string };
}
export type LogEvent = keyof LogEvents;

/** What every event about a request can have beside its own fields. */
export interface OfRequest {
  /** The id of the trace that the request belongs to. */
  readonly trace?: string;
}
export type LogLevel = 'trace' | 'debug' | 'info' | 'warn' | 'error' | 'fatal';

export interface Log {
  event<Name extends LogEvent>(name: Name, fields: LogEvents[Name] & OfRequest): void;
  /** Tells whether anybody takes such an event now: the fields of one that nobody takes need not be collected. */
  takes(name: LogEvent): boolean;
  /** Logs events of this level and above from here on. */
  readonly setLevel?: (level: LogLevel) => void;
}
