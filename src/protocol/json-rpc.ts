/** JSON-RPC 2.0 messages: their types, and the function that classifies them. */
import {
  isExactNumber,
  isJsonObject,
  type ExactNumber,
  type JsonObject,
  type JsonValue,
} from './json.ts';

export interface JsonRpcErrorObject {
  readonly code: number;
  readonly message: string;
  readonly data?: JsonValue;
}

/** The outcome of a request, without its envelope. */
export type JsonRpcReply = { readonly result: JsonObject } | { readonly error: JsonRpcErrorObject };

/** A client's answers that are errors, by the keys of their questions. */
export type InputErrors = Readonly<Record<string, JsonRpcErrorObject>>;

export type JsonRpcMessage<Reply = JsonRpcReply> =
  | {
      readonly type: 'request';
      readonly id: string | number;
      readonly method: string;
      readonly params: JsonObject;
    }
  | { readonly type: 'notification'; readonly method: string; readonly params: JsonObject }
  | { readonly type: 'response'; readonly id: string | number | null; readonly reply: Reply }
  | MalformedMessage;

interface MalformedMessage {
  readonly type: 'malformed';
  readonly problem: string;
  /** The id of a request that can be answered with an error. */
  readonly id?: string | number | ExactNumber;
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

const MODERN_ERRORS: ReadonlySet<number> = new Set([
  ErrorCode.headerMismatch,
  ErrorCode.missingRequiredClientCapability,
  ErrorCode.unsupportedProtocolVersion,
]);

/** True for an error code of 2026-07-28 only (versioning, "Backward Compatibility"). */
export function isModernError(code: number): boolean {
  return MODERN_ERRORS.has(code);
}

/** Codes of legacy peers. None of them may reach a modern client. */
export const LegacyErrorCode = {
  resourceNotFound: -32002,
  urlElicitationRequired: -32042,
} as const;

/**
 * Classifies a parsed value.
 * A request whose `id` is `null` is malformed (MCP forbids it). A message with a method and no id is a
 * notification, whatever its method (some servers send `ping` like that).
 */
export function readMessage(value: unknown): JsonRpcMessage {
  if (!isJsonObject(value)) return malformed('a message must be a JSON object');
  if (value['jsonrpc'] !== '2.0') return malformed('"jsonrpc" must be "2.0"');
  const { method } = value;
  return typeof method === 'string' ? readRequest(method, value) : readResponse(value);
}

function readRequest(method: string, { id, params = {} }: JsonObject): JsonRpcMessage {
  if (!isJsonObject(params)) return malformed('"params" must be an object');
  if (id === undefined) return { type: 'notification', method, params };
  if (isId(id)) return { type: 'request', id, method, params };
  if (isExactNumber(id)) return { ...malformed(`${WRONG_ID} of up to 53 bits`), id };
  return malformed(WRONG_ID);
}

function readResponse({ id, result, error }: JsonObject): JsonRpcMessage {
  if (id !== undefined && id !== null && !isId(id)) return malformed(WRONG_ID);
  if (isJsonObject(result)) return { type: 'response', id: id ?? null, reply: { result } };
  if (isJsonObject(error)) {
    return { type: 'response', id: id ?? null, reply: { error: readError(error) } };
  }
  if (id !== undefined && (result !== undefined || error !== undefined)) {
    return malformed('"result" and "error" must be objects');
  }
  return malformed('a message must have a "method", a "result" or an "error"');
}

const WRONG_ID = '"id" must be a string or a number';

function isId(id: JsonValue): id is string | number {
  return typeof id === 'string' || typeof id === 'number';
}

function readError(error: JsonObject): JsonRpcErrorObject {
  const code = Number.isInteger(error['code']) ? Number(error['code']) : ErrorCode.internalError;
  const message = typeof error['message'] === 'string' ? error['message'] : 'Unknown error';
  return error['data'] === undefined ? { code, message } : { code, message, data: error['data'] };
}

function malformed(problem: string): MalformedMessage {
  return { type: 'malformed', problem };
}
