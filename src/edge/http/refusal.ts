/** A request that the edge refuses before it asks the server anything. */
import type { ServerResponse } from 'node:http';
import type { MayHaveActed } from '../../model/failure-catalogue.ts';
import type { ClientRequestId } from '../../protocol/ids.ts';
import { objectMember, type JsonObject } from '../../protocol/json/json.ts';
import { ErrorCode, type JsonRpcErrorObject } from '../../protocol/json-rpc.ts';
import { sendJson } from '../response-writer.ts';

export interface Refusal {
  readonly httpStatus: number;
  /** `null` if the id of the request could not be read. The reply then has no `id`. */
  readonly id: ClientRequestId | null;
  readonly error: JsonRpcErrorObject;
  /** Absent if the server was asked nothing, and so has certainly not acted. */
  readonly mayHaveActed?: MayHaveActed;
}

/** Builds the JSON-RPC error reply for a refusal (basic/index, "Error Responses"). */
export function refusalBody({
  id,
  error,
  mayHaveActed = 'no',
}: Omit<Refusal, 'httpStatus'>): JsonObject {
  const data = { ...objectMember({ ...error }, 'data'), mayHaveActed };
  return { jsonrpc: '2.0', ...(id === null ? {} : { id }), error: { ...error, data } };
}

export const BODY_TOO_LARGE = 'Request body too large (limits.maxBody)';
/** For a caller whom the configured identity source does not name. */
export const UNKNOWN_CALLER = 'The identity header is missing; the proxy must set it';

/**
 * Refuses a request whose JSON-RPC message was not read. Does not read the rest of the body.
 * @param mayHaveActed what is known of the effects of a request that went upstream
 */
export function refuse(
  response: ServerResponse,
  httpStatus: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
  mayHaveActed: MayHaveActed = 'no',
): void {
  const code = httpStatus >= 500 ? ErrorCode.internalError : ErrorCode.invalidRequest;
  const body = refusalBody({ id: null, error: { code, message }, mayHaveActed });
  sendJson(response, httpStatus, body, headers);
}
