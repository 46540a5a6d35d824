/**
 * Errors of a legacy server as a modern client may see them. The modern revision gives some codes
 * another meaning and forbids others (basic/index, "Error Codes"); what a client cannot tell apart any
 * more stands in `data.upstream`.
 */
import { isJsonObject, type JsonObject } from '../json/json.ts';
import { ErrorCode, LegacyErrorCode, type JsonRpcErrorObject } from '../json-rpc.ts';
import { isWebUrl } from '../web-url.ts';
import { errorFromServer, namesUnsafeUrl } from './from-server.ts';

export interface EdgeError {
  readonly error: JsonRpcErrorObject;
  /** Counts only while no byte of the answer was sent. */
  readonly httpStatus: number;
}

/** One URL that a legacy server wants visited before it goes on (error -32042). */
export interface UrlElicitation {
  readonly message: string;
  readonly url: string;
  readonly elicitationId: string;
}

/**
 * Methods whose own name is known to the server, so that only what they name can be unknown; and the
 * only ones that may ask for input (MRTR, "Supported Requests").
 */
const NAMING: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read']);

/** The error that the client gets for an error of the upstream. */
export function edgeError(method: string, sent: JsonRpcErrorObject): EdgeError {
  const error = errorFromServer(sent);
  switch (error.code) {
    case LegacyErrorCode.resourceNotFound:
      return method === 'resources/read'
        ? inBand({ ...error, code: ErrorCode.invalidParams })
        : replaced(error, ErrorCode.internalError);
    case LegacyErrorCode.urlElicitationRequired:
      if (namesUnsafeUrl(sent)) return UNSAFE_URL;
      // In other methods nobody can be asked, whatever the client declares.
      return NAMING.has(method) && readUrlElicitations(error) !== null
        ? URL_MODE_REQUIRED
        : replaced(error, ErrorCode.internalError);
    case ErrorCode.methodNotFound:
      // A 404 would say that the method is unknown, and it is the tool, prompt or resource that is.
      return NAMING.has(method)
        ? replaced(error, ErrorCode.invalidParams)
        : { error, httpStatus: 404 };
    case ErrorCode.invalidParams:
    case ErrorCode.internalError:
      return inBand(error);
    default:
      return isReservedCode(error.code) ? replaced(error, ErrorCode.internalError) : inBand(error);
  }
}

/** The elicitations of an error -32042, or `null` when it is none, or one of them cannot be shown. */
export function readUrlElicitations(error: JsonRpcErrorObject): UrlElicitation[] | null {
  if (error.code !== LegacyErrorCode.urlElicitationRequired || !isJsonObject(error.data)) {
    return null;
  }
  const { elicitations } = error.data;
  if (!Array.isArray(elicitations)) return null;
  const read = elicitations.map(readUrlElicitation).filter((elicitation) => elicitation !== null);
  return read.length > 0 && read.length === elicitations.length ? read : null;
}

function readUrlElicitation(value: unknown): UrlElicitation | null {
  if (!isJsonObject(value)) return null;
  const { message, url, elicitationId } = value;
  if (typeof message !== 'string' || !isWebUrl(url)) return null;
  return { message, url, elicitationId: typeof elicitationId === 'string' ? elicitationId : '' };
}

const UNSAFE_URL: EdgeError = inBand({
  code: ErrorCode.internalError,
  message:
    'The server asks to visit a URL with a user name or password in it, which hides where it leads; expected one without. The server has begun this call and may have acted: check before calling again',
  data: {
    reason: 'unsafe_url',
    mayHaveActed: 'yes',
    upstream: { code: LegacyErrorCode.urlElicitationRequired },
  },
});

const URL_MODE_REQUIRED: EdgeError = {
  error: {
    code: ErrorCode.missingRequiredClientCapability,
    message: 'The server needs a client capability that this request does not declare',
    data: { requiredCapabilities: { elicitation: { url: {} } } },
  },
  httpStatus: 400,
};

/** Codes of JSON-RPC itself and of MCP; those not named above say nothing to a modern client. */
function isReservedCode(code: number): boolean {
  return code >= -32768 && code <= -32000;
}

function replaced(error: JsonRpcErrorObject, code: number): EdgeError {
  const upstream: JsonObject = { code: error.code, message: error.message };
  if (error.data !== undefined) upstream['data'] = error.data;
  return inBand({ code, message: error.message, data: { upstream } });
}

function inBand(error: JsonRpcErrorObject): EdgeError {
  return { error, httpStatus: 200 };
}
