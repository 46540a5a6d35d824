/** A failure that is an internal error to JSON-RPC, with a reason of our own. */
import { ErrorCode } from '../protocol/json-rpc.ts';
import type { JsonObject } from '../protocol/json/json.ts';
import type { Failure } from './outcome.ts';

/** An internal error with a reason that a program can read. */
export function internalFailure(message: string, reason: string, more: JsonObject = {}): Failure {
  return {
    error: { code: ErrorCode.internalError, message, data: { reason, ...more } },
    httpStatus: 200,
  };
}
