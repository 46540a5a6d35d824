/** The form of every failure that the bridge gives: code, text, reason, and what it says of effects. */
import type { JsonObject } from '../protocol/json/json.ts';
import {
  FAILURES,
  type FailureReason,
  type MayHaveActed,
  type SaidOf,
} from './failure-catalogue.ts';
import type { Failure } from './outcome.ts';

/** What the text of an error says, for people and models; programs read `data.mayHaveActed`. */
export const EFFECTS_IN_WORDS: Readonly<Record<MayHaveActed, string>> = {
  no: 'The server has not acted on this call',
  unknown: 'The server may have acted on this call: check before calling again',
  yes: 'The server has begun this call and may have acted: check before calling again',
};

/** The same where the call may still go on: whoever calls anew may have it done twice. */
export const RETRYABLE_IN_WORDS =
  'The server has begun this call and may have acted: retry with the same requestState';

/**
 * A failure of a call.
 * @param problem a sentence without its full stop
 * @param more further members of `data`
 */
export function callFailure<Reason extends FailureReason>(
  reason: Reason,
  mayHaveActed: SaidOf<Reason>,
  problem: string,
  more: JsonObject = {},
): Failure {
  const effects = more['retryable'] === true ? RETRYABLE_IN_WORDS : EFFECTS_IN_WORDS[mayHaveActed];
  const named = reason === '-' ? {} : { reason };
  return failure(reason, `${problem}. ${effects}`, { ...named, mayHaveActed, ...more });
}

/** A failure of a request that is no call, and that nothing acts on. */
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
