/**
 * Every failure that a client may get from us for a request that was well formed, by its `data.reason`:
 * the JSON-RPC code, the HTTP statuses, and what may be said of the server's effects. The table of
 * errors in docs/operations.md is compared with this one, and the compiler holds `failures.ts` to it.
 */
import { ErrorCode } from '../protocol/json-rpc.ts';

/**
 * What the client is told in `data.mayHaveActed`, so that it knows whether it may call again.
 * - `no`: the server has not acted on the call
 * - `unknown`: the request was sent, or may have been; whether the server began is not known
 * - `yes`: the server has begun the call (it asked something, or answered), and may have acted
 */
export type MayHaveActed = 'no' | 'unknown' | 'yes';

interface FailureKind {
  readonly code: number;
  /** They count only while no byte of the answer was sent. */
  readonly httpStatuses: readonly number[];
  /** Empty for requests that are no calls: lists, completion, discovery and listeners act on nothing. */
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
  coordination_unavailable: kind(internalError, ['yes']),
  unsafe_url: kind(internalError, ['yes']),
  upstream_busy: kind(internalError, ['no', 'unknown', 'yes']),
  upstream_unavailable: kind(internalError, ['no', 'yes']),
  upstream_timeout: kind(internalError, ['no', 'unknown', 'yes']),
  upstream_protocol_error: kind(internalError, ['no', 'unknown', 'yes']),
  upstream_streams_mixed: kind(internalError, ['yes']),
  upstream_session_lost: kind(internalError, ['no', 'yes']),
  unauthorized: kind(internalError, ['no', 'yes'], [401, 403]),
  internal_error: kind(internalError, ['unknown']),
  /** It has no reason: the specification says what is in its data. */
  '-': kind(missingRequiredClientCapability, ['yes'], [400]),
} as const;

export type FailureReason = keyof typeof FAILURES;

/** What a failure of this reason may say of effects. */
export type SaidOf<Reason extends FailureReason> =
  (typeof FAILURES)[Reason]['mayHaveActed'][number];
