/** What the legacy face reads of a message: which request it is, or is for. All else passes as it was written. */
import { isJsonObject, objectMember, type JsonValue } from '../../protocol/json.ts';
import { ErrorCode, type JsonRpcMessage } from '../../protocol/json-rpc.ts';

/** Equal for equal ids only: `1` and `"1"` differ. */
export type IdKey = string;

export function keyOf(id: JsonValue): IdKey {
  return JSON.stringify(id);
}

/** Requests in which a server asks something. */
const CAN_ASK: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read']);

export interface ClientRequest {
  readonly type: 'request';
  readonly id: string | number;
  readonly method: string;
  readonly progressKey: IdKey | null;
  readonly canAsk: boolean;
}

/** A message of a client. */
export type ClientMessage =
  | ClientRequest
  /** A notification, or the response to a request of the server. */
  | { readonly type: 'other'; readonly method: string | null; readonly cancels: IdKey | null };

/**
 * Reads a message of a client.
 * @returns `null` if it is none
 */
export function readClientMessage(value: JsonValue): ClientMessage | null {
  if (!isJsonObject(value) || value['jsonrpc'] !== '2.0') return null;
  const { id, method } = value;
  const params = objectMember(value, 'params') ?? {};
  if (typeof method !== 'string') {
    const isReply = id !== undefined && ('result' in value || 'error' in value);
    return isReply ? { type: 'other', method: null, cancels: null } : null;
  }
  if (id === undefined) {
    const isCancellation = method === 'notifications/cancelled';
    const { requestId } = params;
    const cancels = isCancellation && requestId !== undefined ? keyOf(requestId) : null;
    return { type: 'other', method, cancels };
  }
  if (typeof id !== 'string' && typeof id !== 'number') return null;
  const token = objectMember(params, '_meta')?.['progressToken'];
  const progressKey = token === undefined ? null : keyOf(token);
  return { type: 'request', id, method, progressKey, canAsk: CAN_ASK.has(method) };
}

/** Returns the token of the request whose progress a notification tells; `null` if it tells none. */
export function progressKeyOf(message: JsonRpcMessage): IdKey | null {
  if (message.type !== 'notification' || message.method !== 'notifications/progress') return null;
  const token = message.params['progressToken'];
  return token === undefined ? null : keyOf(token);
}

/** Writes an error in the place of a response that does not come. */
export function errorLine(id: JsonValue, message: string): string {
  const error = { code: ErrorCode.internalError, message };
  return JSON.stringify({ jsonrpc: '2.0', id, error });
}

/** Returns JSON as one line, which is also the data of one event: there are no line breaks within texts. */
export function asLine(json: string): string {
  return json.replaceAll(/[\r\n]/g, ' ');
}
