/** A request that the edge refuses before anything is asked of the upstream. */
import type { MayHaveActed } from '../../model/failure-catalogue.ts';
import type { ClientRequestId } from '../../protocol/ids.ts';
import { objectMember, type JsonObject } from '../../protocol/json/json.ts';
import type { JsonRpcErrorObject } from '../../protocol/json-rpc.ts';

export interface Rejection {
  readonly httpStatus: number;
  /** `null` when the request's id could not be read; the member is then left out. */
  readonly id: ClientRequestId | null;
  readonly error: JsonRpcErrorObject;
  readonly headers?: Readonly<Record<string, string>>;
  /** Absent where nothing was asked of the upstream: then it has certainly not acted. */
  readonly mayHaveActed?: MayHaveActed;
}

/** The JSON-RPC error response for a rejection (basic/index, "Error Responses"). */
export function rejectionBody({ id, error, mayHaveActed = 'no' }: Rejection): JsonObject {
  const data = { ...objectMember({ ...error }, 'data'), mayHaveActed };
  return { jsonrpc: '2.0', ...(id === null ? {} : { id }), error: { ...error, data } };
}
