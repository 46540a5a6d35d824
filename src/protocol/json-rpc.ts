/** JSON-RPC 2.0 messages: their shapes, and the one place that tells them apart. */
import {
  isExactNumber,
  isJsonObject,
  type ExactNumber,
  type JsonObject,
  type JsonValue,
} from './json/json.ts';

export interface JsonRpcErrorObject {
  readonly code: number;
  readonly message: string;
  readonly data?: JsonValue;
}

/** How a request ended, without its envelope. */
export type JsonRpcReply = { readonly result: JsonObject } | { readonly error: JsonRpcErrorObject };

export type JsonRpcMessage =
  | {
      readonly type: 'request';
      readonly id: string | number;
      readonly method: string;
      readonly params: JsonObject;
    }
  | { readonly type: 'notification'; readonly method: string; readonly params: JsonObject }
  | { readonly type: 'response'; readonly id: string | number | null; readonly reply: JsonRpcReply }
  | Malformed;

interface Malformed {
  readonly type: 'malformed';
  readonly problem: string;
  /** Of a request that can be told what is wrong with it. */
  readonly id?: ExactNumber;
}

/** JSON-RPC error codes of the base protocol and of MCP (basic/index, "Error Codes"). */
export const ErrorCode = {
  parseError: -32700,
  invalidRequest: -32600,
  methodNotFound: -32601,
  invalidParams: -32602,
  internalError: -32603,
  headerMismatch: -32020,
  missingRequiredClientCapability: -32021,
  unsupportedProtocolVersion: -32022,
} as const;

/** Codes that only legacy peers use; none of them may reach a modern client. */
export const LegacyErrorCode = {
  resourceNotFound: -32002,
  urlElicitationRequired: -32042,
} as const;

/**
 * Sorts a parsed value into the JSON-RPC message kinds.
 * A request whose `id` is `null` is malformed (MCP forbids it); a message with a method and no id
 * is a notification, whatever its method is called (some servers send `ping` that way).
 */
export function readMessage(value: unknown): JsonRpcMessage {
  if (!isJsonObject(value)) return malformed('a message must be a JSON object');
  if (value['jsonrpc'] !== '2.0') return malformed('"jsonrpc" must be "2.0"');
  const id = value['id'];
  if (typeof value['method'] === 'string') {
    const given = value['params'];
    if (given !== undefined && !isJsonObject(given)) return malformed('"params" must be an object');
    const params = given ?? {};
    if (id === undefined) return { type: 'notification', method: value['method'], params };
    if (typeof id === 'string' || typeof id === 'number') {
      return { type: 'request', id, method: value['method'], params };
    }
    const problem = '"id" must be a string or a number';
    return isExactNumber(id)
      ? { ...malformed(`${problem} of up to 53 bits`), id }
      : malformed(problem);
  }
  if (id !== undefined && id !== null && typeof id !== 'string' && typeof id !== 'number') {
    return malformed('"id" must be a string or a number');
  }
  if (isJsonObject(value['result'])) {
    return { type: 'response', id: id ?? null, reply: { result: value['result'] } };
  }
  if (isJsonObject(value['error'])) {
    return { type: 'response', id: id ?? null, reply: { error: readError(value['error']) } };
  }
  if (id !== undefined && ('result' in value || 'error' in value)) {
    return malformed('"result" and "error" must be objects');
  }
  return malformed('a message must have a "method", a "result" or an "error"');
}

function readError(error: JsonObject): JsonRpcErrorObject {
  const code = Number.isInteger(error['code']) ? Number(error['code']) : ErrorCode.internalError;
  const message = typeof error['message'] === 'string' ? error['message'] : 'Unknown error';
  return error['data'] === undefined ? { code, message } : { code, message, data: error['data'] };
}

function malformed(problem: string): Malformed {
  return { type: 'malformed', problem };
}
