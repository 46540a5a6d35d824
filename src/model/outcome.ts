/** How a call ends, before it is wrapped in anything that a client or a server would recognise. */
import type { JsonObject } from '../protocol/json/json.ts';
import type { JsonRpcErrorObject } from '../protocol/json-rpc.ts';

/** What the upstream's request came to. The result is the legacy one, untouched. */
export type CallOutcome =
  | { readonly kind: 'complete'; readonly result: JsonObject }
  | { readonly kind: 'failed'; readonly failure: Failure };

/** An error for the client; `httpStatus` counts only while no byte of the answer was sent. */
export interface Failure {
  readonly error: JsonRpcErrorObject;
  readonly httpStatus: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Why the gateway itself ends a call that could go on. */
export type RefusalReason = 'lot_full' | 'too_many_rounds' | 'timeout' | 'draining';
