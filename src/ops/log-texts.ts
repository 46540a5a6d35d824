/** What each event of the log means, for people, and how serious it is. */
import type { LogEvent, LogLevel } from './log.ts';

export const LEVELS: Partial<Record<LogEvent, LogLevel>> = {
  'gateway.key_ephemeral': 'warn',
  'gateway.unknown_variable': 'warn',
  'gateway.unused_variable': 'warn',
  'gateway.few_open_files': 'warn',
  'gateway.one_worker': 'warn',
  'gateway.calls_lost': 'warn',
  'gateway.sessions_not_shared': 'warn',
  'gateway.crashed': 'fatal',
  'gateway.defect': 'error',
  'gateway.start_failed': 'fatal',
  'gateway.port_in_use': 'warn',
  'log.dropped': 'warn',
  'traces.off': 'warn',
  'traces.not_exported': 'warn',
  'config.refused': 'error',
  'config.risky': 'warn',
  'worker.ended': 'error',
  'route.legacy_refused': 'warn',
  'upstream.circuit_opened': 'warn',
  'upstream.unavailable': 'warn',
  'upstream.failed': 'warn',
  'upstream.dropped': 'warn',
  'upstream.refused': 'warn',
  'upstream.token_refused': 'warn',
  'upstream.broadcasts': 'warn',
  'upstream.one_session': 'warn',
  'upstream.only_modern': 'warn',
  'upstream.slow': 'warn',
  'upstream.held_back': 'warn',
  'session.opened': 'debug',
  'session.ended': 'debug',
  'upstream.replied': 'debug',
  'relay.hop': 'debug',
  'process.started': 'debug',
  'process.ended': 'debug',
  'process.crashed': 'warn',
  'session.no_standalone_stream': 'warn',
  'session.stream_lost': 'warn',
  'session.home_unknown': 'warn',
  'call.relayed': 'debug',
  'session.not_reused': 'warn',
  'session.replaced': 'warn',
  'call.started': 'debug',
  'call.parking_limit': 'warn',
  'request.limited': 'warn',
  'call.question_refused': 'warn',
  'call.answer_refused': 'warn',
  'call.claim_failed': 'warn',
  'call.moved': 'trace',
  'task.created': 'debug',
  'task.not_stopped': 'warn',
  'tasks.address_too_long': 'warn',
  'pointer.continuation_dropped': 'warn',
  'relay.failed': 'warn',
  'clock.skewed': 'warn',
  'clock.refused': 'warn',
  'directory.waiting': 'warn',
  'directory.down': 'warn',
  'passthrough.failed': 'warn',
  'passthrough.session_refused': 'warn',
  'pointer.refused': 'warn',
  'edge.request': 'debug',
  'identity.exchange_failed': 'warn',
  'identity.keys_unavailable': 'error',
  'edge.host_refused': 'warn',
  'edge.wrong_path': 'warn',
  'edge.connection_limit': 'warn',
  'edge.client_stalled': 'warn',
  'edge.invalid_request': 'debug',
  'edge.failed': 'error',
};

export const TEXTS: Partial<Record<LogEvent, string>> = {
  'route.legacy_client':
    'a client of a legacy revision is passed through: the server sends its requests directly to the client, and its calls are not parked',
  'route.legacy_refused':
    'a client of a legacy revision was refused. reason: stdio (there is no HTTP behind a server over stdio to pass it through to), or edge.legacyClients (reject is configured). Pin the protocol revision 2026-07-28 in the client, see docs/clients.md. Logged at most once a minute',
  'config.risky':
    'the configuration is valid, and risky in this field. Logged at start, and after a reload that changed what is risky',
  'gateway.start_failed': 'the gateway does not start: the problem says what to do',
  'gateway.port_in_use':
    'another process listens on the default port, so the gateway uses the next free one; set another with the flag',
  'gateway.crashed': 'internal error; the process exits',
  'gateway.defect':
    'internal error: the call, task or background work that met it ends, and the process continues. Please report it',
  'upstream.failed': 'a request to the legacy server failed',
  'call.result_ready': 'the server ended the call while no client was connected',
  audit: 'questions were answered',
  'audit.stopped': 'the operator cancelled a call that waited for its client',
  'call.answered_ahead':
    'a question was answered with the inputResponses of the first request of the call',
  'call.answer_refused': 'the server did not accept the answers',
  'call.parking_limit':
    'a call could not be parked, and failed: the limit is reached. Logged at most once a minute',
  'request.limited': 'requests were refused: the limit is reached. Logged at most once a minute',
  'upstream.circuit_opened':
    'the server failed several times in a row: new requests are refused until it responds',
  'upstream.circuit_closed': 'the server responds again',
  'call.question_refused': 'the server asked for something that this client or call cannot answer',
  'call.claim_failed': 'the call could not be claimed now; the client can retry',
  'pointer.continuation_dropped':
    'the state that another replica needs did not fit into the requestState',
  'task.not_stopped':
    'the server could not be told that a task is over, and may go on with its call',
  'task.taken_over': 'the replica that had the task is gone; this one goes on with it',
  'tasks.in_memory':
    'long calls become tasks for clients that support tasks. Tasks are kept in memory and end with the gateway. Configure redis to keep them, or set tasks.promote: never',
  'tasks.native_only':
    'replicas share no store: only calls that the server itself runs as tasks become tasks for clients. A task ends with its replica. Configure redis to offer more',
  'tasks.address_too_long':
    'no call becomes a task: a task id contains the address of its replica, and would exceed 200 characters. Set a shorter relay.advertise or kid in seal.keys, or configure redis',
  'pointer.refused': 'a requestState was refused',
  'passthrough.session_refused': 'a legacy client used a session id that was not sealed for it',
  'passthrough.failed': 'the server did not respond to a request that was passed through',
  'edge.failed': 'a defect of the gateway: the client got an internal error',
  'notifications.dropped':
    'notifications were dropped: they arrived faster than the client read them, on a shared stream that cannot be paused',
  'gateway.listening': 'accepts connections; /readyz says when every server responds',
  'route.listening': 'where clients reach this route',
  'gateway.unknown_variable':
    'the gateway does not read this variable, so it has no effect; "mrtr-gateway --help" lists the variables',
  'gateway.unused_variable':
    'this variable has no effect with a configuration file: set the field in the file',
  'gateway.few_open_files':
    'the limit of open files is lower than the gateway can need: raise it (ulimit -n), or set limits.* and sessions.max to what you need',
  'gateway.one_worker':
    'processes cannot share a port on this platform (SO_REUSEPORT): running one process in place of several workers',
  'log.dropped': 'stderr was blocked: more than 4 MiB of log waited, and these lines were dropped',
  'traces.off': 'the gateway does not support this configuration of traces: none are exported',
  'traces.not_exported':
    'the collector did not accept traces, and they are dropped. Logged at most once a minute',
  'worker.ended':
    'a worker ended by itself; its parked calls go on where another process can resume them',
  'config.reloaded': 'the new configuration is in effect',
  'config.refused': 'the new configuration was refused: the previous one stays in effect',
  'gateway.draining': 'draining: running calls finish or move to another replica',
  'gateway.calls_lost':
    'calls that wait for their client end with this process, since no other can continue them: drain.parked keeps them until they are answered',
  'upstream.only_modern':
    'the server offers this to modern clients only, so clients of the gateway do not see it: the gateway uses legacy sessions, since tools can ask only there. With upstream.era: modern, all requests are passed through instead',
  'upstream.slow':
    'the server took long to reply to initialize; clients that connect meanwhile wait, and some give up after 5 s',
  'upstream.unavailable': 'the legacy server does not respond, or its response is not valid MCP',
  'identity.refused': 'a caller was refused: its token, or the peer that named it, is not accepted',
  'identity.exchange_failed':
    'the token of a caller was not exchanged for one of the server (upstream.tokenExchange): the caller was refused',
  'identity.keys_unavailable':
    'the keys of identity.jwks cannot be read; the gateway keeps trying. Without keys it refuses all tokens with 503',
  'edge.host_refused':
    'the gateway listens on loopback and refused a request with another Host or Origin: if the request is legitimate, add its Host to edge.allowedHosts or its Origin to edge.allowedOrigins',
  'edge.wrong_path':
    'a client of 2026-07-28 sent a request to a path that no route has, and gets 404: give it the URL with one of these paths, without a slash at the end. Logged at most once a minute',
  'edge.connection_limit':
    'limits.maxConnections is reached: further connections are closed at once. Logged at most once a minute',
  'edge.client_stalled':
    'a client read nothing of its response for 60 s, while more of it waited: its connection was closed, and it did not get the rest. Logged at most once a minute',
  'relay.failed':
    'the replica that owns the call, or has the session of a new call, did not accept the request; the gateway tries another way, if there is one',
  'directory.waiting':
    'Redis does not respond: the gateway waits for it up to redis.startWait, then exits',
  'directory.down':
    'Redis does not respond, or refuses writes; calls of lost replicas cannot be resumed until it accepts them',
  'directory.up': 'Redis responds',
  'clock.skewed':
    'the offset of the clock from Redis changed; above 1 s the gateway uses the time of Redis',
  'clock.refused':
    'the clocks of this replica and another differ by more than a minute, so this replica refuses the requestState of the other: synchronize the clocks',
  'gateway.key_ephemeral':
    'no seal.keys configured: using a key generated for this process; parked calls do not survive a restart, and other replicas cannot resume them',
  'gateway.homes':
    'which processes share the sessions of callers: all replicas (redis), the workers of this gateway (workers), or none (nothing)',
  'gateway.sessions_not_shared':
    'replicas relay to each other, and have no Redis: each keeps a session of its own for the same caller, so state that the server keeps in a session is not available through another replica. Configure redis, or send all calls of a caller to the same replica',
  'upstream.dropped':
    'the server sent a notification or a request that is too large, and was not read. A request was refused with an error',
  'upstream.refused':
    'the server refused the gateway, and named no way to log in. It may check Host: use the name that it accepts in upstream.url or upstream.hostHeader, or allow the gateway there. Or it needs credentials, which clients can bring',
  'upstream.token_refused':
    'the server refused a token. Clients get tokens for publicUrl (the resource): let the server accept this audience. If it cannot, remove publicUrl, authorize callers in a proxy in front (identity), and set upstream.authorization: strip and upstream.headers',
  'upstream.broadcasts':
    'the server sends messages for one session to every session: the gateway now uses one session and one call at a time',
  'upstream.one_session':
    'one session at a time: calls of different callers run one at a time, and subscriptions get no notifications. configured: by sessions.max or upstream.maxProcesses; refused: the server refused a second session; crashed: it broke the connection each time that a second one was opened',
  'upstream.resumption':
    'whether the server sends results promptly on resumed streams; with parking.release: auto, parked calls are released while it does',
  'session.not_reused':
    'callers without credentials get a session for each call: what the server keeps in a session is lost, and each call costs an initialize. Configure identity, or let clients send credentials; sessions.scope: call accepts the cost and silences this line',
  'session.replaced':
    'a session that calls had used was replaced: what the server kept in it is gone. The next call that asks for log messages gets a warning',
  'session.home_unknown':
    'which replica has the session of a caller is not known: the call uses a session of this replica, which may lack the state of the caller',
  'process.crashed':
    'a process of the server exited unexpectedly, or the gateway ended it because of invalid output; the next request starts another one',
  'session.no_standalone_stream':
    'the server opened no standalone stream: questions that it does not relate to a call will not arrive',
  'upstream.held_back':
    'the server accepted a call, but the headers of its response have not arrived. The usual cause is a proxy in front of the server that holds responses back until they are complete, so that no question arrives (nginx: proxy_buffering off). A server that responds with JSON does the same while a tool is slow. Logged once for each route',
  'session.stream_lost':
    'the server ended the standalone stream of a session and does not open it again: until it does, such a session gets no changes, and no questions that it does not relate to a call',
};
