/** The events of the log about requests: calls and tasks, how replicas pass them on, and what is refused. */
import { debug, error, info, trace, warn, type OfRoute } from './event-kinds.ts';

/** The ways to serve a retry. */
export const RECOVERIES = ['here', 'relay', 'outcome', 'reattach', 'replay'] as const;
/** How a retry was served. */
export type Recovery = (typeof RECOVERIES)[number];

/** What is refused when the clocks of two replicas differ. */
export const CLOCK_REFUSALS = ['pointer'] as const;
export type ClockRefusal = (typeof CLOCK_REFUSALS)[number];

/** Why a caller may not send a message, by the rules of a route. */
export const DENIALS = ['hidden', 'lacks-scopes', 'unclear', 'unknown-method'] as const;
export type DenialReason = (typeof DENIALS)[number];

interface OfCall extends OfRoute {
  readonly call: string;
}
interface OfRound extends OfCall {
  readonly round: number;
}

export const REQUEST_EVENTS = {
  /** `holder`: the replica that has the home of the caller. */
  'call.relayed': debug<OfRoute & { holder: string }>(),
  'call.started': debug<OfCall & { method: string; target: string }>(),
  'call.parked': info<OfRound & { questions: number }>(),
  /** `waitedMs`: from the question to the answer, if the call here goes on with one. */
  'call.resumed': info<OfRound & { recoveredBy: Recovery; waitedMs?: number }>(),
  'call.claim_failed': warn<OfCall & { problem: string }>(
    'the call could not be claimed now; the client can retry',
  ),
  'task.created': debug<OfRoute & { status: string }>(),
  'task.taken_over': info<OfRoute & { status: string }>(
    'the replica that had the task is gone; this one goes on with it',
  ),
  'task.not_stopped': warn<OfRoute>(
    'the server could not be told that a task is over, and may go on with its call',
  ),
  'tasks.in_memory': debug(
    'long calls become tasks for clients that support tasks. Tasks are kept in memory and end with the gateway. Configure redis to keep them, or set tasks.promote: never',
  ),
  'tasks.legacy_only': info(
    'replicas share no store: only calls that the server itself runs as tasks become tasks for clients. A task ends with its replica. Configure redis to offer more',
  ),
  'tasks.address_too_long': warn<OfRoute & { address: string }>(
    'no call becomes a task: a task id contains the address of its replica, and would exceed 200 characters. Set a shorter relay.advertise or kid in seal.keys, or configure redis',
  ),
  'pointer.continuation_dropped': warn<OfCall & { problem: string }>(
    'the state that another replica needs did not fit into the requestState',
  ),
  'relay.failed': warn<
    OfRoute & {
      call: string | null;
      owner: string;
      state: 'unknown' | 'gone' | 'silent' | 'unreachable' | 'left' | 'released';
      problem: string;
    }
  >(
    'the replica that owns the call, or has the session of a new call, did not accept the request; the gateway tries another way, if there is one',
  ),
  'relay.listening': info<{ url: string }>(),
  'relay.hop': debug<OfRoute & { replica: string; outcome: string; ms: number }>(),
  /** `aheadSeconds`: how far the clock of this machine is ahead; negative if it is behind. */
  'clock.skewed': warn<{ aheadSeconds: number }>(
    'the offset of the clock from Redis changed; above 1 s the gateway uses the time of Redis',
  ),
  /** `aheadSeconds`: how far the clock of this machine is ahead of the other replica's. */
  'clock.refused': warn<OfCall & { of: ClockRefusal; replica: string; aheadSeconds: number }>(
    'the clocks of this replica and another differ by more than a minute, so this replica refuses the requestState of the other: synchronize the clocks',
  ),
  'redis.waiting': warn<{ startWaitMs: number }>(
    'Redis does not respond: the gateway waits for it up to redis.startWait, then exits',
  ),
  'redis.up': info('Redis responds'),
  'redis.down': warn<{ problem: string }>(
    'Redis does not respond, or refuses writes; calls of lost replicas cannot be resumed until it accepts them',
  ),
  'passthrough.session_refused': warn<OfRoute>(
    'a legacy client used a session id that was not sealed for it',
  ),
  'passthrough.failed': warn<OfRoute & { status: number; problem: string }>(
    'the server did not respond to a request that was passed through',
  ),
  'call.result_ready': info<OfRound>('the server ended the call while no client was connected'),
  'call.ended': info<
    OfRound & {
      method: string;
      target: string;
      end: string;
      /** The code of an error, or a word; `null` for a success. */
      errorType: string | null;
      /** `data.reason` of the error that the gateway made of it. */
      reason?: string;
      /** The setting that the call reached, if it ended with that. */
      limit?: 'parking.maxRounds';
      ms: number;
      /** Of that, the time that the server took in this process: without the time of people. */
      workMs: number;
    }
  >(),
  /** No retry of a released call came here in time. */
  'call.release_expired': info<OfCall>(),
  'call.parking_limit': warn<{ limit: string; refused: number }>(
    'a call could not be parked, and failed: the limit is reached. Logged at most once a minute',
  ),
  /** `refused`: how many requests were refused since the last line. */
  'request.limited': warn<OfRoute & { limit: string; refused: number }>(
    'requests were refused: the limit is reached. Logged at most once a minute',
  ),
  /**
   * `who`: as in `audit`. `kind` and `name`: of the tool, prompt or resource; empty if the message names none that counts.
   * `requests`: how many of this caller were refused since the last line.
   */
  'rights.refused': warn<
    OfRoute & { who: string; reason: DenialReason; kind: string; name: string; requests: number }
  >(
    'a caller was refused what the rules of the route do not allow it (tools, prompts, resources). The latest; logged at most once a minute for each caller',
  ),
  'call.question_refused': warn<OfCall & { method: string; reason: string }>(
    'the server asked for something that this client or call cannot answer',
  ),
  'call.answered_ahead': info<OfCall & { kind: string }>(
    'a question was answered with the inputResponses of the first request of the call',
  ),
  /**
   * What was answered in a round: how many questions were accepted, declined, cancelled, or failed at the client.
   * `who`: the start of a keyed digest of the principal, or `anonymous` or `local-user`. `waitedMs`: as in `call.resumed`.
   */
  audit: info<
    OfRound & {
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
    }
  >('questions were answered'),
  /** The operator cancelled a call that waited for its client. `who`: as in `audit`. `by`: the operator's address. */
  'audit.stopped': info<
    OfRound & { who: string; method: string; target: string; by: string | null }
  >('the operator cancelled a call that waited for its client'),
  'call.answer_refused': warn<OfRound & { cause: string; problem: string }>(
    'the server did not accept the answers',
  ),
  'notifications.dropped': info<
    OfRoute & { call: string | null; progress: number; messages: number }
  >(
    'notifications were dropped: they arrived faster than the client read them, on a shared stream that cannot be paused',
  ),
  'call.moved': trace<OfCall & { rule: string; from: string; to: string }>(),
  'pointer.refused': warn<OfRoute & { reason: string; call: string | null; problem?: string }>(
    'a requestState was refused',
  ),
  'edge.request': debug<
    OfRoute & {
      method: string;
      status: number;
      code: number | null;
      reason?: string;
      ms: number;
    }
  >(),
  /** `expected`: the key that decides, with its value. `requests`: how many since the last line. */
  'identity.refused': info<{ problem: string; expected: string; requests: number }>(
    'a caller was refused: its token, or the peer that named it, is not accepted',
  ),
  'identity.exchange_failed': warn<OfRoute & { problem: string }>(
    'the token of a caller was not exchanged for one of the server (upstream.tokenExchange): the caller was refused',
  ),
  'identity.keys_unavailable': error<{ problem: string }>(
    'the keys of identity.jwks cannot be read; the gateway keeps trying. Without keys it refuses all tokens with 503',
  ),
  'edge.host_refused': warn<{ header: 'Host' | 'Origin'; value: string }>(
    'the gateway listens on loopback and refused a request with another Host or Origin: if the request is legitimate, add its Host to edge.allowedHosts or its Origin to edge.allowedOrigins',
  ),
  /** `paths`: those of the routes. `requests`: how many since the last line. */
  'edge.wrong_path': warn<{ path: string; paths: string; requests: number }>(
    'a client of 2026-07-28 sent a request to a path that no route has, and gets 404: give it the URL with one of these paths, without a slash at the end. Logged at most once a minute',
  ),
  /** `refused`: how many connections since the last line. `client`: the address of the latest, if it is known. */
  'edge.connection_limit': warn<{ refused: number; client?: string }>(
    'limits.maxConnections is reached: further connections are closed at once. Logged at most once a minute',
  ),
  /** `requests`: how many since the last line. `client`: the address of the latest, if it is known. */
  'edge.client_stalled': warn<{ path: string; client?: string; requests: number }>(
    'a client read nothing of its response for 60 s, while more of it waited: its connection was closed, and it did not get the rest. Logged at most once a minute',
  ),
  /** `client`: its address, if it is known. */
  'edge.invalid_request': debug<{
    method: string;
    path: string;
    status: number;
    problem: string;
    client?: string;
  }>(),
  'edge.failed': error<OfRoute & { problem: string }>(
    'a defect of the gateway: the client got an internal error',
  ),
};
