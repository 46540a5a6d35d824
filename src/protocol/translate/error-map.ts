/**
 * Translates errors of a legacy server. The modern revision gives some codes another meaning and forbids
 * others (basic/index, "Error Codes"). If a code is replaced, the original error is in `data.upstream`.
 */
import { isJsonObject, type JsonObject } from '../json.ts';
import { ErrorCode, LegacyErrorCode, type JsonRpcErrorObject } from '../json-rpc.ts';
import { isWebUrl } from '../web-url.ts';
import { errorFromServer, namesUnsafeUrl } from './cleaning.ts';

export interface EdgeError {
  readonly error: JsonRpcErrorObject;
  /** Applies only if no byte of the response has been sent. */
  readonly httpStatus: number;
}

/** A URL that a legacy server wants the user to visit before it continues (error -32042). */
export interface UrlElicitation {
  readonly message: string;
  readonly url: string;
  readonly elicitationId: string;
}

/**
 * Methods that name a tool, prompt or resource, which can be unknown while the method is not. They are also
 * the only ones that can ask for input (MRTR, "Supported Requests").
 */
const NAMING: ReadonlySet<string> = new Set(['tools/call', 'prompts/get', 'resources/read']);

/** Translates an error of the upstream for the client. */
export function edgeError(method: string, sent: JsonRpcErrorObject): EdgeError {
  const error = errorFromServer(sent);
  switch (error.code) {
    case LegacyErrorCode.resourceNotFound:
      return method === 'resources/read'
        ? inBand({ ...error, code: ErrorCode.invalidParams })
        : replaced(error, ErrorCode.internalError);
    case LegacyErrorCode.urlElicitationRequired:
      if (namesUnsafeUrl(sent)) return UNSAFE_URL;
      // Other methods cannot ask for input, whatever the client declares.
      return NAMING.has(method) && readUrlElicitations(error) !== null
        ? URL_MODE_REQUIRED
        : replaced(error, ErrorCode.internalError);
    case ErrorCode.methodNotFound:
      // HTTP 404 means an unknown method. Here the tool, prompt or resource is unknown.
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

/** Reads the elicitations of an error -32042. @returns `null` for another error, or if one cannot be shown */
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
    'The server asks the user to visit a URL with a user name or password, which can hide the real host; expected a URL without them. The server has begun this call and may have acted: check whether it took effect before you call again',
  data: {
    reason: 'unsafe_url',
    mayHaveActed: 'yes',
    upstream: { code: LegacyErrorCode.urlElicitationRequired },
  },
});

const URL_MODE_REQUIRED: EdgeError = {
  error: {
    code: ErrorCode.missingRequiredClientCapability,
    message:
      'The server needs a client capability that this request does not declare: declare it in `_meta`',
    data: { requiredCapabilities: { elicitation: { url: {} } } },
  },
  httpStatus: 400,
};

/** Tells whether a code is reserved by JSON-RPC or MCP. Those not named above mean nothing to a modern client. */
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
