/** What the messages of all wires have: their headers, their JSON, an id, params of a known shape, and `_meta`. */
import type { IncomingMessage } from 'node:http';
import { clientRequestId, type ClientRequestId } from '../../protocol/ids.ts';
import {
  isJsonInteger,
  isJsonObject,
  objectMember,
  type JsonObject,
  type JsonValue,
} from '../../protocol/json.ts';
import { InvalidMessage } from '../../dialects/codec.ts';
import { ErrorCode } from '../../protocol/json-rpc.ts';
import type { MayHaveActed } from '../../model/failures.ts';
import type { CallReply, EdgeRequest } from '../../model/request.ts';
import { isProgressToken, LOG_LEVELS, Meta } from '../../protocol/meta.ts';
import { withoutReserved } from '../../protocol/translate/cleaning.ts';
import { readProfile } from '../../protocol/translate/client-profile.ts';
import {
  decodeHeaderValue,
  isJsonMediaType,
  readAccept,
  readHeaders,
  type Accepts,
  type HeaderField,
} from '../http/header-fields.ts';
import type { Refusal, UnnamedRefusal, WireReply } from '../response-writer.ts';
import { readJsonBody } from './body.ts';
import { nameMemberOf, paramsProblem, type MethodName } from './methods.ts';

/** What is read from `_meta`. */
export type RequestMeta = Pick<
  EdgeRequest,
  'profile' | 'clientInfo' | 'logLevel' | 'progressToken' | 'forwardedMeta'
>;

/** A request of a caller that is still to be added, and how its wire has the response. */
export interface ModernRequest extends Omit<EdgeRequest, 'method' | 'caller'> {
  readonly id: ClientRequestId;
  readonly method: MethodName;
  readonly accepts: Exclude<Accepts, 'none'>;
  /** Writes its reply as its wire has it. */
  readonly encode: (reply: CallReply) => WireReply;
}

export type ReadRequest =
  | { readonly type: 'request'; readonly request: ModernRequest }
  /** The edge itself knows the result. */
  | { readonly type: 'known'; readonly id: ClientRequestId; readonly result: JsonObject }
  | { readonly type: 'notification' }
  | { readonly type: 'legacy' }
  | {
      readonly type: 'refused';
      readonly refusal: Refusal;
      /** Whether it is a legacy request, refused since legacy clients are not served. */
      readonly isLegacy?: boolean;
    };

/** Thrown by a step that fails, and caught by the reader of the wire. */
export class RefusalError extends Error {
  readonly refusal: UnnamedRefusal;
  readonly isLegacy: boolean;

  /** @param isLegacy whether it is of a legacy request, since legacy clients are not served */
  constructor(refusal: UnnamedRefusal, isLegacy = false) {
    super(refusal.error.message);
    this.refusal = refusal;
    this.isLegacy = isLegacy;
  }
}

export type RequestHeaders = Pick<IncomingMessage, 'headers' | 'rawHeaders'>;

/** The headers of the transport that repeat members of the body (streamable-http, "Standard Request Headers"). */
export interface StandardHeaders {
  readonly version: HeaderField;
  readonly method: HeaderField;
  readonly name: HeaderField;
}

/** A message whose HTTP and JSON are sound. */
export interface WireMessage {
  readonly body: JsonValue;
  readonly id: ClientRequestId | null;
  readonly accepts: ModernRequest['accepts'];
  readonly headers: StandardHeaders;
}

/**
 * Reads the body and headers of one POST. Never throws.
 * @param goesOn tells whether the message goes on with a call that has begun
 * @param read reads the rest, as the wire has it
 */
export function readMessage(
  http: RequestHeaders,
  bytes: Uint8Array,
  goesOn: (body: JsonValue) => boolean,
  read: (message: WireMessage) => ReadRequest,
): ReadRequest {
  let id: ClientRequestId | null = null;
  let mayHaveActed: MayHaveActed = 'unknown';
  try {
    const accepts = checkHttp(http);
    const body = parseBody(bytes);
    id = readId(body);
    if (!goesOn(body)) mayHaveActed = 'no';
    return read({ body, id, accepts, headers: standardHeaders(http) });
  } catch (error) {
    const refused = error instanceof InvalidMessage ? invalidParams(200, error.message) : error;
    if (!(refused instanceof RefusalError)) throw error;
    const { refusal, isLegacy } = refused;
    return { type: 'refused', refusal: { mayHaveActed, ...refusal, id }, isLegacy };
  }
}

/** Checks the headers that concern the form of the body and of the response. */
function checkHttp({ headers }: RequestHeaders): Exclude<Accepts, 'none'> {
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

/** Parses a body within the limits. */
function parseBody(bytes: Uint8Array): JsonValue {
  const body = readJsonBody(bytes);
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

/** Reads the method and the params of a message. @returns `null` for a notification, which has no id */
export function readMethod(
  message: JsonObject,
  id: ClientRequestId | null,
): { readonly method: string; readonly params: JsonObject } | null {
  const { jsonrpc, method, params = {} } = message;
  if (jsonrpc !== '2.0') throw invalidRequest('"jsonrpc" must be "2.0"');
  if (typeof method !== 'string') throw invalidRequest('"method" must be a string');
  if (!isJsonObject(params)) throw invalidRequest('"params" must be an object');
  if (!Object.hasOwn(message, 'id')) return null;
  if (id === null) throw invalidRequest('"id" must be a string or an integer');
  return { method, params };
}

/** Builds a request out of params of the final revision, which have been checked. */
export function modernRequest(
  request: Omit<ModernRequest, 'inputResponses' | 'requestState'>,
): ModernRequest {
  const { inputResponses, requestState } = request.params;
  return {
    ...request,
    inputResponses: isJsonObject(inputResponses) ? inputResponses : null,
    requestState: typeof requestState === 'string' ? requestState : null,
  };
}

/**
 * Reads the members of `_meta` besides the version. The first one that is wrong decides the refusal.
 * @param httpStatus of that refusal
 */
export function readRequestMeta(meta: JsonObject, httpStatus: 200 | 400): RequestMeta {
  const wrong = (problem: string) => invalidParams(httpStatus, `params._meta: ${problem}`);
  const capabilities = objectMember(meta, Meta.clientCapabilities);
  if (capabilities === undefined) throw wrong(`"${Meta.clientCapabilities}" must be an object`);
  const info = meta[Meta.clientInfo];
  const clientInfo = readClientInfo(info);
  if (info !== undefined && clientInfo === null) {
    throw wrong(`"${Meta.clientInfo}" must have a "name" and a "version" that are strings`);
  }
  const { progressToken } = meta;
  if (progressToken !== undefined && !isProgressToken(progressToken)) {
    throw wrong('"progressToken" must be a string or an integer');
  }
  const logLevel = meta[Meta.logLevel];
  if (logLevel !== undefined && typeof logLevel !== 'string') {
    throw wrong(`"${Meta.logLevel}" must be a string`);
  }
  return {
    profile: readProfile(capabilities),
    clientInfo,
    logLevel: logLevel ?? null,
    progressToken: progressToken ?? null,
    forwardedMeta: withoutReserved(meta),
  };
}

/** Keeps only the members that every legacy revision has. */
function readClientInfo(info: JsonValue | undefined): JsonObject | null {
  if (!isJsonObject(info)) return null;
  const { name, version, title } = info;
  if (typeof name !== 'string' || typeof version !== 'string') return null;
  return typeof title === 'string' ? { name, version, title } : { name, version };
}

/** Compares the `Mcp-Method` header with the method in the body. */
export function checkMethodHeader(headers: StandardHeaders, method: string): void {
  const header = valueOf(headers.method, 'Mcp-Method');
  if (header === null) throw headerMismatch('The Mcp-Method header is missing');
  // Values are case-sensitive (streamable-http, "Case Sensitivity").
  if (header !== method) throw headerMismatch('Mcp-Method differs from the method in the body');
}

/** Compares the `Mcp-Name` header with the name or the URI in the body. */
export function checkName(headers: StandardHeaders, method: MethodName, params: JsonObject): void {
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

/** Checks the params of a method of the final revision. */
export function checkParams(
  method: MethodName,
  params: JsonObject,
  { logLevel }: RequestMeta,
): void {
  if (logLevel !== null && !LOG_LEVELS.includes(logLevel)) {
    throw invalidParams(
      200,
      `params._meta["${Meta.logLevel}"] must be one of ${LOG_LEVELS.join(', ')}`,
    );
  }
  const problem = paramsProblem(method, params);
  if (problem !== null) throw invalidParams(200, problem);
}

const STANDARD_HEADERS = ['mcp-protocol-version', 'mcp-method', 'mcp-name'];

/** Finds the headers of the transport. */
function standardHeaders({ rawHeaders }: RequestHeaders): StandardHeaders {
  const [version, method, name] = readHeaders(rawHeaders, STANDARD_HEADERS);
  return { version: version!, method: method!, name: name! };
}

/** @returns the value, or `null` if the header is missing. A duplicate is an attack or a defect. */
export function valueOf(field: HeaderField, name: string): string | null {
  if (field.type === 'repeated') throw headerMismatch(`Duplicate ${name} header`);
  return field.type === 'present' ? field.value : null;
}

export function refused(httpStatus: number, code: number, message: string): RefusalError {
  return new RefusalError({ httpStatus, error: { code, message } });
}

export function invalidRequest(problem: string): RefusalError {
  return refused(400, ErrorCode.invalidRequest, `Invalid request: ${problem}`);
}

/** @param httpStatus 400 for missing protocol fields only; wrong params of a method are in-band, with 200 */
export function invalidParams(httpStatus: 200 | 400, problem: string): RefusalError {
  return refused(httpStatus, ErrorCode.invalidParams, `Invalid params: ${problem}`);
}

export function headerMismatch(message: string): RefusalError {
  return refused(400, ErrorCode.headerMismatch, message);
}
