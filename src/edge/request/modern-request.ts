/**
 * The validation of a modern request, step by step in a fixed order; the first step that fails
 * answers. What comes out has been checked against its headers and has a known shape.
 */
import type { IncomingMessage } from 'node:http';
import { clientRequestId, type ClientRequestId } from '../../protocol/ids.ts';
import {
  isJsonInteger,
  isJsonObject,
  objectMember,
  type JsonObject,
  type JsonValue,
} from '../../protocol/json/json.ts';
import { ErrorCode } from '../../protocol/json-rpc.ts';
import { LOG_LEVELS } from '../../protocol/log-levels.ts';
import { Meta } from '../../protocol/meta.ts';
import { MODERN_REVISION } from '../../protocol/revisions.ts';
import { eraOf, type EraPolicy } from './era.ts';
import {
  decodeHeaderValue,
  isJsonMediaType,
  readAccept,
  readHeader,
  type Accepts,
} from '../http/header-fields.ts';
import { readJsonBody } from './json-body.ts';
import { isInteractiveMethod, nameMemberOf, serviceOf } from './methods.ts';
import { isAllowedOrigin, type OriginPolicy } from '../http/origin.ts';
import { paramsProblem } from './params.ts';
import type { Rejection } from '../http/rejection.ts';
import { readRequestMeta, type RequestMeta } from './meta.ts';

export interface RequestPolicy extends OriginPolicy, EraPolicy {
  readonly maxJsonDepth: number;
}

export interface ModernRequest {
  readonly id: ClientRequestId;
  readonly method: string;
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
  | { readonly type: 'rejected'; readonly rejection: Rejection };

/** What a step throws to end the climb; caught below, never outside. */
class Refused extends Error {
  readonly rejection: Rejection;

  constructor(httpStatus: number, code: number, message: string, data?: JsonObject) {
    super(message);
    const error = data === undefined ? { code, message } : { code, message, data };
    this.rejection = { httpStatus, id: null, error };
  }
}

type Headers = Pick<IncomingMessage, 'headers' | 'rawHeaders'>;

/** Reads one POST. Never throws; a rejection says status, code and what was expected. */
export function readModernRequest(
  http: Headers,
  bytes: Uint8Array,
  policy: RequestPolicy,
): ReadRequest {
  let id: ClientRequestId | null = null;
  try {
    const accepts = checkHttp(http, policy);
    const body = parsed(bytes, policy.maxJsonDepth);
    id = readId(body);
    const version = standardHeader(http, 'MCP-Protocol-Version');
    const era = eraOf(body, version, policy);
    switch (era.type) {
      case 'legacy':
        return { type: 'legacy' };
      case 'dropped':
        return { type: 'notification' };
      case 'rejected':
        return { type: 'rejected', rejection: { id, ...era } };
      case 'modern':
        return readMessage(http, era.message, id, version, accepts, policy);
    }
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return { type: 'rejected', rejection: { ...error.rejection, id } };
  }
}

function checkHttp({ headers }: Headers, policy: RequestPolicy): ModernRequest['accepts'] {
  if (!isAllowedOrigin(headers.origin, policy)) {
    throw new Refused(403, ErrorCode.invalidRequest, 'Origin not allowed');
  }
  if (!isJsonMediaType(headers['content-type'])) {
    throw new Refused(415, ErrorCode.invalidRequest, 'Content-Type must be application/json');
  }
  if ((headers['content-encoding'] ?? 'identity') !== 'identity') {
    throw new Refused(415, ErrorCode.invalidRequest, 'The body must not be compressed');
  }
  const accepts = readAccept(headers.accept);
  if (accepts === 'none') {
    const message = 'Accept must list application/json and text/event-stream';
    throw new Refused(406, ErrorCode.invalidRequest, message);
  }
  return accepts;
}

function parsed(bytes: Uint8Array, maxDepth: number): JsonValue {
  const body = readJsonBody(bytes, maxDepth);
  switch (body.type) {
    case 'json':
      return body.value;
    case 'unparsable':
      throw new Refused(400, ErrorCode.parseError, `Parse error: ${body.problem}`);
    case 'refused':
      throw new Refused(400, ErrorCode.invalidRequest, `Invalid request: ${body.problem}`);
  }
}

/** The id, when there is one to repeat in an error. */
function readId(body: JsonValue): ClientRequestId | null {
  const id = isJsonObject(body) ? body['id'] : undefined;
  return typeof id === 'string' || isJsonInteger(id) ? clientRequestId(id) : null;
}

function readMessage(
  http: Headers,
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
  checkMethod(http, method);
  checkName(http, method, params);
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

/** The version is judged before the rest: another revision may have another envelope. */
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
    throw new Refused(400, ErrorCode.unsupportedProtocolVersion, 'Unsupported protocol version', {
      supported,
      requested: claim,
    });
  }
  const read = readRequestMeta(envelope);
  if (read.type === 'wrong') throw invalidParams(400, `params._meta: ${read.problem}`);
  return read.meta;
}

function checkMethod(http: Headers, method: string): void {
  const header = standardHeader(http, 'Mcp-Method');
  if (header === null) throw headerMismatch('The Mcp-Method header is missing');
  // Values are case-sensitive (streamable-http, "Case Sensitivity").
  if (header !== method) throw headerMismatch('Mcp-Method differs from the method in the body');
  if (serviceOf(method) === null) {
    throw new Refused(404, ErrorCode.methodNotFound, 'Method not found');
  }
}

function checkName(http: Headers, method: string, params: JsonObject): void {
  const member = nameMemberOf(method);
  const name = member === null ? undefined : params[member];
  // What the body lacks, the check of the params names.
  if (member === null || typeof name !== 'string') return;
  const header = standardHeader(http, 'Mcp-Name');
  if (header === null) throw headerMismatch('The Mcp-Name header is missing');
  const decoded = decodeHeaderValue(header);
  if (decoded === null) throw headerMismatch('Mcp-Name is not valid Base64');
  // Never the header as it stands: an intermediary that decodes it would have read another name.
  if (decoded !== name) throw headerMismatch(`Mcp-Name differs from params.${member}`);
}

function checkParams(method: string, params: JsonObject, { logLevel }: RequestMeta): void {
  if (logLevel !== null && !LOG_LEVELS.includes(logLevel)) {
    throw invalidParams(
      200,
      `params._meta["${Meta.logLevel}"] must be one of ${LOG_LEVELS.join(', ')}`,
    );
  }
  const problem = paramsProblem(method, params, isInteractiveMethod(method));
  if (problem !== null) throw invalidParams(200, problem);
}

/** A header of the transport; a second one of the same name is an attack or a defect. */
function standardHeader({ rawHeaders }: Headers, name: string): string | null {
  const field = readHeader(rawHeaders, name);
  if (field.type === 'repeated') throw headerMismatch(`Duplicate ${name} header`);
  return field.type === 'present' ? field.value : null;
}

function invalidRequest(problem: string): Refused {
  return new Refused(400, ErrorCode.invalidRequest, `Invalid request: ${problem}`);
}

/** Only missing protocol fields are status 400; params of a method are the call's own matter. */
function invalidParams(httpStatus: 200 | 400, problem: string): Refused {
  return new Refused(httpStatus, ErrorCode.invalidParams, `Invalid params: ${problem}`);
}

function headerMismatch(message: string): Refused {
  return new Refused(400, ErrorCode.headerMismatch, message);
}
