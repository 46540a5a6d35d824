/** What a failure below JSON-RPC comes to for the client; nothing of the upstream's internals. */
import type { JsonObject } from '../protocol/json/json.ts';
import type { UpstreamFailure, UpstreamFailureCode } from '../upstream/failure.ts';
import { callFailure, requestFailure } from './call-failure.ts';
import type { FailureReason, MayHaveActed } from './failure-catalogue.ts';
import { callLost } from './failures.ts';
import type { Failure } from './outcome.ts';

/** After these nothing more is heard of a call, and only "lost" says that there may have been effects. */
const LOSING: ReadonlySet<UpstreamFailureCode> = new Set([
  'upstream_unavailable',
  'session_gone',
  'unauthorized',
]);

/** True when the failure leaves a call behind of which nobody knows what the server made of it. */
export function losesCall({ code, details }: UpstreamFailure): boolean {
  return details.mayHaveActed && LOSING.has(code);
}

/**
 * The failure of `tools/call`, `prompts/get` or `resources/read`.
 * @param begun whether the server has begun the call before, as far as is known
 */
export function failureOfCall(failure: UpstreamFailure, begun: boolean): Failure {
  if (losesCall(failure)) return callLost(begun);
  const { mayHaveActed } = failure.details;
  const certain = begun ? 'yes' : 'no';
  const said: MayHaveActed = !begun && mayHaveActed ? 'unknown' : certain;
  switch (failure.code) {
    case 'unauthorized':
      return refused(failure, callFailure('unauthorized', certain, UNAUTHORIZED));
    case 'upstream_busy': {
      // Of a 503 only the sender knows how far the request came.
      const problem = mayHaveActed ? 'The server is overloaded' : BUSY;
      return callFailure('upstream_busy', said, problem, retryAfter(failure));
    }
    case 'upstream_unavailable':
      return callFailure('upstream_unavailable', certain, UNAVAILABLE);
    case 'upstream_timeout':
      return callFailure('upstream_timeout', said, TIMEOUT);
    case 'upstream_protocol_error':
      return callFailure('upstream_protocol_error', said, NOT_MCP);
    // The server had taken the call, and its stream was read before.
    case 'streams_mixed':
      return callFailure('upstream_streams_mixed', 'yes', STREAMS_MIXED);
    case 'session_gone':
      return callFailure('upstream_session_lost', certain, SESSION_GONE);
  }
}

/** The failure of a request that is no call: it acts on nothing, and may be repeated. */
export function failureOfRequest(failure: UpstreamFailure): Failure {
  const [reason, problem] = REQUEST_FAILURES[failure.code];
  if (reason === 'unauthorized') return refused(failure, requestFailure(reason, problem));
  return requestFailure(reason, problem, retryAfter(failure));
}

const UNAUTHORIZED = 'The server refused the credentials of this request';
const BUSY = 'The server is busy; try again later';
const UNAVAILABLE = 'The server cannot be reached';
const TIMEOUT = 'The server did not answer in time';
const NOT_MCP = 'The server sent an invalid MCP message';
const STREAMS_MIXED =
  'The server mixed up the streams of its calls, so that nothing more of this one can be believed; it was cancelled';
const SESSION_GONE = 'The server ended the session';

const REQUEST_FAILURES: Readonly<Record<UpstreamFailureCode, readonly [FailureReason, string]>> = {
  unauthorized: ['unauthorized', UNAUTHORIZED],
  upstream_busy: ['upstream_busy', BUSY],
  upstream_unavailable: ['upstream_unavailable', UNAVAILABLE],
  upstream_timeout: ['upstream_timeout', TIMEOUT],
  upstream_protocol_error: ['upstream_protocol_error', NOT_MCP],
  streams_mixed: ['upstream_streams_mixed', STREAMS_MIXED],
  session_gone: ['upstream_session_lost', SESSION_GONE],
};

function retryAfter({ details: { retryAfterMs } }: UpstreamFailure): JsonObject {
  return retryAfterMs === undefined ? {} : { retryAfterMs };
}

/** With the status and the challenge of the server, so that the client can get what it wants. */
function refused(
  { details: { httpStatus, wwwAuthenticate } }: UpstreamFailure,
  as: Failure,
): Failure {
  return {
    ...as,
    httpStatus: httpStatus === 403 ? 403 : 401,
    ...(wwwAuthenticate === undefined ? {} : { headers: { 'www-authenticate': wwwAuthenticate } }),
  };
}
