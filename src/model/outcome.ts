/** How a call ends, before it is written in the words of a client or a server. */
import type { JsonObject } from '../protocol/json/json.ts';
import type { JsonRpcErrorObject } from '../protocol/json-rpc.ts';

/** The end of the upstream request. The result is the legacy one, unchanged. */
export type CallOutcome =
  | { readonly kind: 'complete'; readonly result: JsonObject }
  | { readonly kind: 'failed'; readonly failure: Failure };

/** An error for the client. `httpStatus` and `headers` count only if no byte of the response was sent. */
export interface Failure {
  readonly error: JsonRpcErrorObject;
  readonly httpStatus: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Why the gateway itself ends a call that could continue. */
export type RefusalReason = 'lot_full' | 'too_many_rounds' | 'timeout' | 'draining';
