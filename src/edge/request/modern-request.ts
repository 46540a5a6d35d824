/**
 * Reads and checks a modern request, step by step in a fixed order. The first step that fails decides the
 * refusal. The request that comes out agrees with its headers and has a known shape.
 */
import type { IncomingMessage } from 'node:http';
import { clientRequestId, type ClientRequestId } from '../../protocol/ids.ts';
import {
  isJsonInteger,
  isJsonObject,
  objectMember,
  type JsonObject,
  type JsonValue,
} from '../../protocol/json.ts';
import { ErrorCode } from '../../protocol/json-rpc.ts';
import { LOG_LEVELS, Meta, MODERN_REVISION } from '../../protocol/meta.ts';
import { eraOf, type EraPolicy } from './era.ts';
import {
  decodeHeaderValue,
  isJsonMediaType,
  readAccept,
  readHeaders,
  type Accepts,
  type HeaderField,
} from '../http/header-fields.ts';
import { readJsonBody } from './body.ts';
import {
  isInteractive,
  isMethod,
  METHOD_NOT_FOUND,
  nameMemberOf,
  type MethodName,
  paramsProblem,
  readRequestMeta,
  type RequestMeta,
} from './methods.ts';
import type { Refusal } from '../response-writer.ts';

export interface RequestPolicy extends EraPolicy {
  readonly maxJsonDepth: number;
}

export interface ModernRequest {
  readonly id: ClientRequestId;
  readonly method: MethodName;
  readonly params: JsonObject;
  readonly meta: RequestMeta;
  readonly inputResponses: JsonObject | null;
  readonly requestState: string | null;
  readonly accepts: Exclude<Accepts, 'none'>;
}

export type ReadRequest =
  | { readonly type: 'request'; readonly request: ModernRequest }
  | { readonly type: 'notification' }
  | { readonly type: 'legacy' }
  | { readonly type: 'refused'; readonly refusal: Refusal };

/** Thrown by a step that fails, and caught in `readModernRequest`. */
class RefusalError extends Error {
  readonly refusal: Omit<Refusal, 'id'>;

  constructor(refusal: Omit<Refusal, 'id'>) {
    super(refusal.error.message);
    this.refusal = refusal;
  }
}

type Headers = Pick<IncomingMessage, 'headers' | 'rawHeaders'>;

/** The headers of the transport that repeat members of the body (streamable-http, "Standard Request Headers"). */
interface StandardHeaders {
  readonly version: HeaderField;
  readonly method: HeaderField;
  readonly name: HeaderField;
}

/** Reads the body and headers of one POST. Never throws. */
export function readModernRequest(
  http: Headers,
  bytes: Uint8Array,
  policy: RequestPolicy,
): ReadRequest {
  let id: ClientRequestId | null = null;
  try {
    const accepts = checkHttp(http);
    const body = parseBody(bytes, policy.maxJsonDepth);
    id = readId(body);
    const standard = standardHeaders(http);
    const version = valueOf(standard.version, 'MCP-Protocol-Version');
    const era = eraOf(body, version, policy);
    switch (era.type) {
      case 'legacy':
        return { type: 'legacy' };
      case 'dropped':
        return { type: 'notification' };
      case 'refused':
        return { type: 'refused', refusal: { id, httpStatus: era.httpStatus, error: era.error } };
      case 'modern':
        return readMessage(standard, era.message, id, version, accepts, policy);
    }
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error;
    return { type: 'refused', refusal: { ...error.refusal, id } };
  }
}

function checkHttp({ headers }: Headers): ModernRequest['accepts'] {
  if (!isJsonMediaType(headers['content-type'])) {
    throw refused(415, ErrorCode.invalidRequest, 'Content-Type must be application/json');
  }
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') {
    throw refused(415, ErrorCode.invalidRequest, 'The body must not be compressed');
  }
  const accepts = readAccept(headers.accept);
  if (accepts === 'none') {
    const message = 'Accept must list application/json and text/event-stream';
    throw refused(406, ErrorCode.invalidRequest, message);
  }
  return accepts;
}

function parseBody(bytes: Uint8Array, maxDepth: number): JsonValue {
  const body = readJsonBody(bytes, maxDepth);
  switch (body.type) {
    case 'json':
      return body.value;
    case 'unparsable':
      throw refused(400, ErrorCode.parseError, `Parse error: ${body.problem}`);
    case 'refused':
      throw refused(400, ErrorCode.invalidRequest, `Invalid request: ${body.problem}`);
  }
}

/** Reads the id that a refusal repeats, if there is one. */
function readId(body: JsonValue): ClientRequestId | null {
  const id = isJsonObject(body) ? body['id'] : undefined;
  return typeof id === 'string' || isJsonInteger(id) ? clientRequestId(id) : null;
}

function readMessage(
  headers: StandardHeaders,
  message: JsonObject,
  id: ClientRequestId | null,
  version: string | null,
  accepts: ModernRequest['accepts'],
  policy: RequestPolicy,
): ReadRequest {
  const { jsonrpc, method, params = {} } = message;
  if (jsonrpc !== '2.0') throw invalidRequest('"jsonrpc" must be "2.0"');
  if (typeof method !== 'string') throw invalidRequest('"method" must be a string');
  if (!isJsonObject(params)) throw invalidRequest('"params" must be an object');
  if (!Object.hasOwn(message, 'id')) return { type: 'notification' };
  if (id === null) throw invalidRequest('"id" must be a string or an integer');
  const meta = readEnvelope(params, version, policy);
  checkMethodHeader(headers, method);
  if (!isMethod(method)) throw new RefusalError(METHOD_NOT_FOUND);
  checkName(headers, method, params);
  checkParams(method, params, meta);
  const { inputResponses, requestState } = params;
  return {
    type: 'request',
    request: {
      id,
      method,
      params,
      meta,
      inputResponses: isJsonObject(inputResponses) ? inputResponses : null,
      requestState: typeof requestState === 'string' ? requestState : null,
      accepts,
    },
  };
}

/** Checks the version before the rest: another revision may have another envelope. */
function readEnvelope(
  params: JsonObject,
  version: string | null,
  policy: RequestPolicy,
): RequestMeta {
  const envelope = objectMember(params, '_meta') ?? {};
  const claim = envelope[Meta.protocolVersion];
  if (typeof claim !== 'string') {
    throw invalidParams(400, `params._meta["${Meta.protocolVersion}"] must be a string`);
  }
  if (version !== claim) {
    throw headerMismatch(
      version === null
        ? 'The MCP-Protocol-Version header is missing'
        : `MCP-Protocol-Version differs from params._meta["${Meta.protocolVersion}"]`,
    );
  }
  if (claim !== MODERN_REVISION) {
    const supported = [...policy.supportedVersions()];
    throw refused(400, ErrorCode.unsupportedProtocolVersion, 'Unsupported protocol version', {
      supported,
      requested: claim,
    });
  }
  const read = readRequestMeta(envelope);
  if (read.type === 'wrong') throw invalidParams(400, `params._meta: ${read.problem}`);
  return read.meta;
}

function checkMethodHeader(headers: StandardHeaders, method: string): void {
  const header = valueOf(headers.method, 'Mcp-Method');
  if (header === null) throw headerMismatch('The Mcp-Method header is missing');
  // Values are case-sensitive (streamable-http, "Case Sensitivity").
  if (header !== method) throw headerMismatch('Mcp-Method differs from the method in the body');
}

function checkName(headers: StandardHeaders, method: MethodName, params: JsonObject): void {
  const member = nameMemberOf(method);
  const name = member === null ? undefined : params[member];
  // `checkParams` reports a name that the body lacks.
  if (member === null || typeof name !== 'string') return;
  const header = valueOf(headers.name, 'Mcp-Name');
  if (header === null) throw headerMismatch('The Mcp-Name header is missing');
  const decoded = decodeHeaderValue(header);
  if (decoded === null) throw headerMismatch('Mcp-Name is not valid Base64');
  // Compare the decoded value: an intermediary that decodes the header must read the same name.
  if (decoded !== name) throw headerMismatch(`Mcp-Name differs from params.${member}`);
}

function checkParams(method: MethodName, params: JsonObject, { logLevel }: RequestMeta): void {
  if (logLevel !== null && !LOG_LEVELS.includes(logLevel)) {
    throw invalidParams(
      200,
      `params._meta["${Meta.logLevel}"] must be one of ${LOG_LEVELS.join(', ')}`,
    );
  }
  const problem = paramsProblem(method, params, isInteractive(method));
  if (problem !== null) throw invalidParams(200, problem);
}

const STANDARD_HEADERS = ['mcp-protocol-version', 'mcp-method', 'mcp-name'];

function standardHeaders({ rawHeaders }: Headers): StandardHeaders {
  const [version, method, name] = readHeaders(rawHeaders, STANDARD_HEADERS);
  return { version: version!, method: method!, name: name! };
}

/** @returns the value, or `null` if the header is missing. A duplicate is an attack or a defect. */
function valueOf(field: HeaderField, name: string): string | null {
  if (field.type === 'repeated') throw headerMismatch(`Duplicate ${name} header`);
  return field.type === 'present' ? field.value : null;
}

function refused(
  httpStatus: number,
  code: number,
  message: string,
  data?: JsonObject,
): RefusalError {
  const error = data === undefined ? { code, message } : { code, message, data };
  return new RefusalError({ httpStatus, error });
}

function invalidRequest(problem: string): RefusalError {
  return refused(400, ErrorCode.invalidRequest, `Invalid request: ${problem}`);
}

/** @param httpStatus 400 for missing protocol fields only; wrong params of a method are in-band, with 200 */
function invalidParams(httpStatus: 200 | 400, problem: string): RefusalError {
  return refused(httpStatus, ErrorCode.invalidParams, `Invalid params: ${problem}`);
}

function headerMismatch(message: string): RefusalError {
  return refused(400, ErrorCode.headerMismatch, message);
}
