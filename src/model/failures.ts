/**
 * Every error that the bridge gives a client, in one place: code, HTTP status (as long as no byte of
 * the answer was sent), a `data.reason` that programs can switch on, and whether the server may have
 * acted. Failures of the call itself stay in-band with status 200: clients take 429 and 5xx for a sign
 * to change eras or connections.
 */
import type { JsonRpcErrorObject } from '../protocol/json-rpc.ts';
import type { JsonObject } from '../protocol/json/json.ts';
import { INVALID_REQUEST_STATE } from '../seal/invalid-request-state.ts';
import { callFailure } from './call-failure.ts';
import type { Failure, RefusalReason } from './outcome.ts';

/** Nothing is known of the call that such a text may once have named. */
export const INVALID_STATE: Failure = callFailure(
  'invalid_request_state',
  'unknown',
  INVALID_REQUEST_STATE.message,
);

/** @param begun whether the server has begun the call, as far as is known */
export function callLost(begun: boolean): Failure {
  return callFailure(
    'call_lost',
    begun ? 'yes' : 'unknown',
    'The call was interrupted and cannot be continued',
  );
}

export const OVERLOADED: Failure = callFailure(
  'overloaded',
  'no',
  'The gateway is at its limit of running calls; try again later',
);

/** A new call or listener comes to a process that stops. */
export const STOPPING: Failure = callFailure(
  'stopping',
  'no',
  'The gateway is shutting down and accepts no new calls; try again',
);

/** The same, for a retry whose call would have to be made anew. */
export const OVERLOADED_FOR_RETRY: Failure = callFailure(
  'overloaded',
  'yes',
  'The gateway is at its limit of running calls and cannot resume this call now',
  { retryable: true },
);
export const STOPPING_FOR_RETRY: Failure = callFailure(
  'stopping',
  'yes',
  'The gateway is shutting down and cannot resume this call',
  { retryable: true },
);

export const CALL_CANCELLED: Failure = callFailure(
  'cancelled',
  'unknown',
  'The call was cancelled',
);

/** @param begun whether the server has begun the call, as far as is known */
export function refusal(reason: RefusalReason, begun: boolean): Failure {
  const mayHaveActed = begun ? 'yes' : 'unknown';
  switch (reason) {
    case 'lot_full':
      return callFailure(
        'too_many_parked_calls',
        'yes',
        'Too many calls are waiting for input; answer or cancel some of them',
      );
    case 'too_many_rounds':
      return callFailure(
        'too_many_rounds',
        'yes',
        'The server asked for input more often than the gateway allows in one call',
      );
    case 'timeout':
      return callFailure(
        'upstream_timeout',
        mayHaveActed,
        'The server did not finish the call in time',
      );
    case 'draining':
      return callFailure(
        'draining',
        mayHaveActed,
        'The gateway is shutting down and has cancelled the call',
      );
  }
}

/** The answers may not have reached the server; the pointer is not used up and may be tried again. */
export const ANSWERS_NOT_TAKEN: Failure = callFailure(
  'upstream_unavailable',
  'yes',
  'The server did not confirm that it received the answers',
  { retryable: true },
);

/** The call may be taken up, by one replica only, and which one cannot be settled now. */
export const COORDINATION_UNAVAILABLE: Failure = callFailure(
  'coordination_unavailable',
  'yes',
  'The call cannot be resumed right now',
  { retryable: true },
);

export const ELICITATION_DECLINED: Failure = callFailure(
  'elicitation_declined',
  'yes',
  'The user declined to visit a URL that the server requires',
);

const NOT_ANSWERABLE = {
  no_session_id:
    'The server asks for input, but gave no session id (Mcp-Session-Id), so that no answer could reach the request that asks. The call was cancelled. Run the server with sessions',
  broadcast:
    'The server sends what it asks to every session, and others use it at the same time, so that nobody can tell whose question it is. It was refused. Run one gateway process without relay and Redis, or a server that keeps its sessions apart',
} as const;

/** Why a question of the server has no way to be answered. */
export type NotAnswerableCause = keyof typeof NOT_ANSWERABLE;

/** A call whose question nobody could answer. */
export function notAnswerable(cause: NotAnswerableCause): Failure {
  return callFailure('call_not_answerable', 'yes', NOT_ANSWERABLE[cause], { cause });
}

/** The client must not be asked for what it does not declare (MRTR, server requirement 7). */
export function missingCapability(required: JsonObject, upstream?: JsonRpcErrorObject): Failure {
  return callFailure(
    '-',
    'yes',
    'The server needs client capabilities that this request does not declare',
    {
      requiredCapabilities: required,
      ...(upstream === undefined ? {} : { upstream: { ...upstream } }),
    },
  );
}

/** An answer that cannot be what the question asked for; the pointer stays good. */
export function illFormedAnswer(key: string, problem: string): Failure {
  return callFailure(
    'invalid_input_response',
    'yes',
    `Invalid inputResponses["${key}"]: ${problem}`,
    { key },
  );
}
