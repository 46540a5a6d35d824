/** Turns upstream failures below JSON-RPC into failures for the client, without upstream internals. */
import type { JsonObject } from '../protocol/json.ts';
import type { UpstreamFailure, UpstreamFailureCode } from './upstream-failure.ts';
import {
  callFailure,
  requestFailure,
  type FailureReason,
  type MayHaveActed,
  callLost,
} from './failures.ts';
import type { Failure } from './request.ts';

/** After these the gateway hears no more of a call. Only `call_lost` says that it may have had effects. */
const LOSING: ReadonlySet<UpstreamFailureCode> = new Set([
  'upstream_unavailable',
  'session_gone',
  'unauthorized',
]);

/** Returns true if the server may have acted on the call, and its result can no longer arrive. */
export function losesCall({ code, details }: UpstreamFailure): boolean {
  return details.mayHaveActed && LOSING.has(code);
}

/**
 * Builds the failure of `tools/call`, `prompts/get` or `resources/read`.
 * @param begun whether the server had begun the call before, as far as the gateway knows
 */
export function failureOfCall(failure: UpstreamFailure, begun: boolean): Failure {
  if (losesCall(failure)) return callLost(begun);
  const { mayHaveActed } = failure.details;
  const certain = begun ? 'yes' : 'no';
  const effects: MayHaveActed = !begun && mayHaveActed ? 'unknown' : certain;
  switch (failure.code) {
    case 'unauthorized':
      return withChallenge(failure, callFailure('unauthorized', certain, UNAUTHORIZED));
    case 'upstream_busy': {
      // If the server sent a 503, only the server knows how far the request came.
      const problem = mayHaveActed ? 'The server is overloaded' : BUSY;
      return callFailure('upstream_busy', effects, problem, retryAfter(failure));
    }
    case 'upstream_unavailable':
      return callFailure('upstream_unavailable', certain, UNAVAILABLE, retryAfter(failure));
    case 'upstream_timeout':
      return callFailure('upstream_timeout', effects, TIMEOUT);
    case 'upstream_protocol_error':
      return callFailure('upstream_protocol_error', effects, notMcp(failure));
    case 'server_is_modern':
      return callFailure('upstream_changed', 'no', CHANGED);
    // The server had taken the call, and its stream was read before.
    case 'streams_mixed':
      return callFailure('upstream_streams_mixed', 'yes', STREAMS_MIXED);
    case 'session_gone':
      return callFailure('upstream_session_lost', certain, SESSION_GONE);
  }
}

/** Builds the failure of a request that is not a call. It has no effects and can be repeated. */
export function failureOfRequest(failure: UpstreamFailure): Failure {
  const [reason, generalProblem] = REQUEST_FAILURES[failure.code];
  const problem = reason === 'upstream_protocol_error' ? notMcp(failure) : generalProblem;
  if (reason === 'unauthorized') return withChallenge(failure, requestFailure(reason, problem));
  return requestFailure(reason, problem, retryAfter(failure));
}

const UNAUTHORIZED = 'The server refused this request, or its credentials';
const BUSY = 'The server is busy; try again later';
const UNAVAILABLE = 'The server cannot be reached';
const TIMEOUT = 'The server did not respond in time';
const NOT_MCP = 'The server sent an invalid MCP message';
const CHANGED = 'The server now speaks 2026-07-28 itself; call again';
const STREAMS_MIXED =
  'The server mixed up the streams of different calls. The call was cancelled, since its messages cannot be trusted';
const SESSION_GONE = 'The server ended the session';

const REQUEST_FAILURES: Readonly<Record<UpstreamFailureCode, readonly [FailureReason, string]>> = {
  unauthorized: ['unauthorized', UNAUTHORIZED],
  upstream_busy: ['upstream_busy', BUSY],
  upstream_unavailable: ['upstream_unavailable', UNAVAILABLE],
  upstream_timeout: ['upstream_timeout', TIMEOUT],
  upstream_protocol_error: ['upstream_protocol_error', NOT_MCP],
  server_is_modern: ['upstream_changed', CHANGED],
  streams_mixed: ['upstream_streams_mixed', STREAMS_MIXED],
  session_gone: ['upstream_session_lost', SESSION_GONE],
};

/** Names the limit that was exceeded, so that whoever gets the error can ask the operator for a higher one. */
function notMcp({ details: { exceeds } }: UpstreamFailure): string {
  return exceeds === undefined
    ? NOT_MCP
    : `The server sent a message that is too large for the gateway (${exceeds})`;
}

function retryAfter({ details: { retryAfterMs } }: UpstreamFailure): JsonObject {
  return retryAfterMs === undefined ? {} : { retryAfterMs };
}

/** Adds the status and the challenge of the server, so that the client can authorize. */
function withChallenge(
  { details: { httpStatus, wwwAuthenticate } }: UpstreamFailure,
  as: Failure,
): Failure {
  return {
    ...as,
    httpStatus: httpStatus === 403 ? 403 : 401,
    ...(wwwAuthenticate === undefined ? {} : { headers: { 'www-authenticate': wwwAuthenticate } }),
  };
}
