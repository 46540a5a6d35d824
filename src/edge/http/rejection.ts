/** A request that the edge refuses before anything is asked of the upstream. */
import type { ClientRequestId } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json/json.ts';
import type { JsonRpcErrorObject } from '../../protocol/json-rpc.ts';

export interface Rejection {
  readonly httpStatus: number;
  /** `null` when the request's id could not be read; the member is then left out. */
  readonly id: ClientRequestId | null;
  readonly error: JsonRpcErrorObject;
  readonly headers?: Readonly<Record<string, string>>;
}

/** The JSON-RPC error response for a rejection (basic/index, "Error Responses"). */
export function rejectionBody({ id, error }: Rejection): JsonObject {
  return { jsonrpc: '2.0', ...(id === null ? {} : { id }), error: { ...error } };
}
