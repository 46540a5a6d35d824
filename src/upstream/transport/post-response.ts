/** What the response to the POST of a request says of the request. */
import { isJsonObject } from '../../protocol/json.ts';
import type { JsonRpcErrorObject } from '../../protocol/json-rpc.ts';
import { UpstreamFailure } from '../../model/upstream-failure.ts';
import type { BodyForm, ResponseHead } from '../http/http-request.ts';

/** Returns how the body is to be read. @throws UpstreamFailure if that is not one of an MCP server */
export function formOf({ status, mediaType }: ResponseHead): BodyForm {
  if (mediaType === 'text/event-stream') return 'events';
  if (mediaType === 'application/json') return 'json';
  if (status === 202) return 'none';
  throw new UpstreamFailure(
    'upstream_protocol_error',
    `it responded with the media type "${mediaType.slice(0, 60)}"`,
    { mayHaveActed: true, httpStatus: status },
  );
}

/**
 * Returns the JSON-RPC error that came with an error status, or `null`. An error status for `initialize`
 * may mean that the server speaks the older transport (transports, "Backwards Compatibility"), unless it
 * says which revisions it accepts.
 */
export function replyIn(
  { details }: UpstreamFailure,
  isInitialize: boolean,
): { readonly error: JsonRpcErrorObject } | null {
  const { rpcError } = details;
  if (rpcError === undefined) return null;
  const { data } = rpcError;
  const negotiates = isJsonObject(data) && Array.isArray(data['supported']);
  return isInitialize && !negotiates ? null : { error: rpcError };
}

/** The failure of a request that the server took with 202, and to which no reply comes. */
export function takenWithoutStream(): UpstreamFailure {
  const problem = 'it took the request with 202, and no stream has brought the reply';
  return new UpstreamFailure('upstream_unavailable', problem, { mayHaveActed: true });
}
