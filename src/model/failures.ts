/**
 * Every error that the bridge gives a client, in one place: code, HTTP status (as long as no byte of
 * the answer was sent), and a `data.reason` that programs can switch on. Failures of the call itself
 * stay in-band with status 200: clients take 429 and 5xx for a sign to change eras or connections.
 */
import { ErrorCode, type JsonRpcErrorObject } from '../protocol/json-rpc.ts';
import type { JsonObject } from '../protocol/json/json.ts';
import { INVALID_REQUEST_STATE } from '../seal/invalid-request-state.ts';
import type { UpstreamFailure } from '../upstream/failure.ts';
import { internalFailure } from './internal-failure.ts';
import type { Failure, RefusalReason } from './outcome.ts';

export const INVALID_STATE: Failure = { error: INVALID_REQUEST_STATE, httpStatus: 200 };

export const CALL_LOST: Failure = internalFailure(
  'The call was interrupted and cannot be continued; it may have had effects. Check before calling again.',
  'call_lost',
);

export const OVERLOADED: Failure = internalFailure(
  'The gateway carries as many calls as it may; try again later',
  'overloaded',
);

/** A new call or listener comes to a process that stops. */
export const STOPPING: Failure = internalFailure(
  'The gateway is stopping and takes nothing new; try again',
  'stopping',
);

export const CALL_CANCELLED: Failure = internalFailure('The call was cancelled', 'cancelled');

const REFUSALS: Readonly<Record<RefusalReason, Failure>> = {
  lot_full: internalFailure(
    'Too many calls wait for input already; answer or abandon some and try again',
    'too_many_parked_calls',
  ),
  too_many_rounds: internalFailure(
    'The server asked for input more often than this gateway allows in one call',
    'too_many_rounds',
  ),
  timeout: internalFailure('The server took longer than a call may take', 'upstream_timeout'),
  draining: internalFailure('The gateway is stopping; the call was cancelled', 'draining'),
};

export function refusal(reason: RefusalReason): Failure {
  return REFUSALS[reason];
}

/** The answers did not reach the server; the pointer is not used up and may be tried again. */
export const ANSWERS_NOT_TAKEN: Failure = internalFailure(
  'The answers could not be handed to the server; retry with the same requestState',
  'upstream_unavailable',
  { retryable: true },
);

/** The call may be taken up, by one replica only, and which one cannot be settled now. */
export const COORDINATION_UNAVAILABLE: Failure = internalFailure(
  'The call cannot be taken up at this moment; retry with the same requestState',
  'coordination_unavailable',
  { retryable: true },
);

export const ELICITATION_DECLINED: Failure = internalFailure(
  'The user declined to visit a URL that the server requires',
  'elicitation_declined',
);

const NOT_ANSWERABLE = {
  no_session_id:
    'The server asks for input, but gave no session id (Mcp-Session-Id), so that no answer could reach the request that asks. The call was cancelled and may have had effects. Run the server with sessions.',
  broadcast:
    'The server sends what it asks to every session, and others use it at the same time, so that nobody can tell whose question it is. It was refused; the call may have had effects. Run one gateway process without relay and Redis, or a server that keeps its sessions apart.',
} as const;

/** Why a question of the server has no way to be answered. */
export type NotAnswerableCause = keyof typeof NOT_ANSWERABLE;

/** A call whose question nobody could answer. */
export function notAnswerable(cause: NotAnswerableCause): Failure {
  return internalFailure(NOT_ANSWERABLE[cause], 'call_not_answerable', { cause });
}

/** The client must not be asked for what it does not declare (MRTR, server requirement 7). */
export function missingCapability(required: JsonObject, upstream?: JsonRpcErrorObject): Failure {
  return {
    error: {
      code: ErrorCode.missingRequiredClientCapability,
      message: 'The server needs client capabilities that this request does not declare',
      data: {
        requiredCapabilities: required,
        ...(upstream === undefined ? {} : { upstream: { ...upstream } }),
      },
    },
    httpStatus: 400,
  };
}

/** An answer that cannot be what the question asked for; the pointer stays good. */
export function illFormedAnswer(key: string, problem: string): Failure {
  return {
    error: {
      code: ErrorCode.invalidParams,
      message: `Invalid inputResponses["${key}"]: ${problem}`,
      data: { reason: 'invalid_input_response', key },
    },
    httpStatus: 200,
  };
}

/** What a failure below JSON-RPC comes to for the client; nothing of the upstream's internals. */
export function failureOfUpstream(failure: UpstreamFailure): Failure {
  const { httpStatus, wwwAuthenticate, retryAfterMs } = failure.details;
  switch (failure.code) {
    case 'unauthorized':
      return {
        ...internalFailure('The server refused the credentials of this request', 'unauthorized'),
        httpStatus: httpStatus === 403 ? 403 : 401,
        ...(wwwAuthenticate === undefined
          ? {}
          : { headers: { 'www-authenticate': wwwAuthenticate } }),
      };
    case 'upstream_busy':
      return internalFailure(
        'The server is busy; try again later',
        failure.code,
        retryAfterMs === undefined ? {} : { retryAfterMs },
      );
    case 'upstream_unavailable':
      return internalFailure('The server cannot be reached', failure.code);
    case 'upstream_timeout':
      return internalFailure('The server did not answer in time', failure.code);
    case 'upstream_protocol_error':
      return internalFailure('The server sent something that is not MCP', failure.code);
    case 'session_gone':
      return internalFailure('The server ended the session', 'upstream_session_lost');
  }
}
