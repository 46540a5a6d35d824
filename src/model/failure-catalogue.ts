/**
 * Every failure of a well-formed request, by its `data.reason`, and the functions that build one. A test
 * compares the table of errors in docs/operations.md with `FAILURES`.
 */
import { ErrorCode } from '../protocol/json-rpc.ts';
import type { JsonObject } from '../protocol/json/json.ts';
import type { Failure } from './outcome.ts';

/**
 * The value of `data.mayHaveActed`. It tells the client whether a second call is safe.
 * - `no`: the server has not acted on the call
 * - `unknown`: the request was sent, or may have been; the gateway does not know whether the server began
 * - `yes`: the server has begun the call (it asked a question, or replied), and may have acted
 */
export type MayHaveActed = 'no' | 'unknown' | 'yes';

interface FailureKind {
  readonly code: number;
  /** They count only if no byte of the response was sent. */
  readonly httpStatuses: readonly number[];
  /** Empty if the request is not a call: lists, completion, discovery and listeners have no effects. */
  readonly mayHaveActed: readonly MayHaveActed[];
}

function kind<const Said extends readonly MayHaveActed[]>(
  code: number,
  mayHaveActed: Said,
  httpStatuses: readonly number[] = [200],
): FailureKind & { readonly mayHaveActed: Said } {
  return { code, httpStatuses, mayHaveActed };
}

const { invalidParams, internalError, missingRequiredClientCapability } = ErrorCode;

export const FAILURES = {
  invalid_request_state: kind(invalidParams, ['unknown']),
  invalid_input_response: kind(invalidParams, ['yes']),
  unknown_cursor: kind(invalidParams, []),
  call_lost: kind(internalError, ['unknown', 'yes']),
  cancelled: kind(internalError, ['unknown']),
  elicitation_declined: kind(internalError, ['yes']),
  overloaded: kind(internalError, ['no', 'yes']),
  stopping: kind(internalError, ['no', 'yes']),
  too_many_parked_calls: kind(internalError, ['yes']),
  too_many_listeners: kind(internalError, []),
  too_many_rounds: kind(internalError, ['yes']),
  list_too_long: kind(internalError, []),
  draining: kind(internalError, ['unknown', 'yes']),
  call_not_answerable: kind(internalError, ['yes']),
  coordination_unavailable: kind(internalError, ['no', 'yes']),
  unsafe_url: kind(internalError, ['yes']),
  upstream_busy: kind(internalError, ['no', 'unknown', 'yes']),
  upstream_unavailable: kind(internalError, ['no', 'yes']),
  upstream_timeout: kind(internalError, ['no', 'unknown', 'yes']),
  upstream_protocol_error: kind(internalError, ['no', 'unknown', 'yes']),
  upstream_streams_mixed: kind(internalError, ['yes']),
  upstream_session_lost: kind(internalError, ['no', 'yes']),
  unauthorized: kind(internalError, ['no', 'yes'], [401, 403]),
  internal_error: kind(internalError, ['unknown']),
  /** It has no reason: the specification defines its `data`. */
  '-': kind(missingRequiredClientCapability, ['yes'], [400]),
} as const;

export type FailureReason = keyof typeof FAILURES;

/** The values of `data.mayHaveActed` that a failure with this reason can have. */
export type EffectsOf<Reason extends FailureReason> =
  (typeof FAILURES)[Reason]['mayHaveActed'][number];

/** What the error message says of effects, for people and models. Programs read `data.mayHaveActed`. */
export const EFFECTS_IN_WORDS: Readonly<Record<MayHaveActed, string>> = {
  no: 'The server has not acted on this call',
  unknown:
    'The server may have acted on this call: check whether it took effect before you call again',
  yes: 'The server has begun this call and may have acted: check whether it took effect before you call again',
};

/** The same for a call that can still continue. A new call could have its effect twice. */
export const RETRYABLE_IN_WORDS =
  'The server has begun this call and may have acted: retry with the same requestState';

/**
 * Builds the failure of a call.
 * @param problem a sentence without its full stop
 * @param more further members of `data`
 */
export function callFailure<Reason extends FailureReason>(
  reason: Reason,
  mayHaveActed: EffectsOf<Reason>,
  problem: string,
  more: JsonObject = {},
): Failure {
  const effects = more['retryable'] === true ? RETRYABLE_IN_WORDS : EFFECTS_IN_WORDS[mayHaveActed];
  const named = reason === '-' ? {} : { reason };
  return failure(reason, `${problem}. ${effects}`, { ...named, mayHaveActed, ...more });
}

/**
 * Builds the failure of a request that is not a call and has no effects.
 * @param more further members of `data`
 */
export function requestFailure(
  reason: FailureReason,
  problem: string,
  more: JsonObject = {},
): Failure {
  return failure(reason, problem, { reason, ...more });
}

function failure(reason: FailureReason, message: string, data: JsonObject): Failure {
  const { code, httpStatuses } = FAILURES[reason];
  return { error: { code, message, data }, httpStatus: httpStatuses[0] ?? 200 };
}
