/**
 * Reads and checks a modern request, step by step in a fixed order. The first step that fails decides the
 * refusal. The request that comes out agrees with its headers and has a known shape.
 */
import {
  isJsonObject,
  objectMember,
  type JsonObject,
  type JsonValue,
} from '../../protocol/json.ts';
import { ErrorCode } from '../../protocol/json-rpc.ts';
import { Meta, MODERN_REVISION } from '../../protocol/meta.ts';
import { finalReply, LEGACY_ADVICE, type UnnamedRefusal } from '../response-writer.ts';
import {
  checkMethodHeader,
  checkName,
  checkParams,
  headerMismatch,
  invalidParams,
  invalidRequest,
  modernRequest,
  readMessage,
  readMethod,
  readRequestMeta,
  refused,
  RefusalError,
  valueOf,
  type RequestHeaders,
  type ReadRequest,
  type RequestMeta,
  type WireMessage,
} from './message.ts';
import { isMethod, METHOD_NOT_FOUND } from './methods.ts';

/** Reads the body and headers of one POST. Never throws. */
export function readModernRequest(
  http: RequestHeaders,
  bytes: Uint8Array,
  policy: EraPolicy,
): ReadRequest {
  return readMessage(http, bytes, hasState, (read) => {
    const version = valueOf(read.headers.version, 'MCP-Protocol-Version');
    const era = eraOf(read.body, version, policy);
    switch (era.type) {
      case 'legacy':
        return { type: 'legacy' };
      case 'dropped':
        return { type: 'notification' };
      case 'modern':
        return readModernMessage(read, era.message, version, policy);
    }
  });
}

function readModernMessage(
  { id, headers, accepts }: WireMessage,
  message: JsonObject,
  version: string | null,
  policy: EraPolicy,
): ReadRequest {
  const read = readMethod(message, id);
  if (read === null || id === null) return { type: 'notification' };
  const { method, params } = read;
  const meta = readEnvelope(params, version, policy);
  checkMethodHeader(headers, method);
  if (!isMethod(method)) throw new RefusalError(METHOD_NOT_FOUND);
  checkName(headers, method, params);
  checkParams(method, params, meta);
  const request = modernRequest({ id, method, params, ...meta, accepts, encode: finalReply });
  return { type: 'request', request };
}

/** Checks the version before the rest: another revision may have another envelope. */
function readEnvelope(params: JsonObject, version: string | null, policy: EraPolicy): RequestMeta {
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
    throw new RefusalError(unsupportedVersion(policy.supportedVersions(), claim));
  }
  return readRequestMeta(envelope, 400);
}

type Era =
  | { readonly type: 'modern'; readonly message: JsonObject }
  | { readonly type: 'legacy' }
  /** A legacy notification while legacy clients are not served. It needs no reply. */
  | { readonly type: 'dropped' };

export interface EraPolicy {
  readonly legacyClients: 'pass-through' | 'reject';
  /** The versions that `server/discover` reports. */
  readonly supportedVersions: () => readonly string[];
}

/**
 * Decides whether a request is modern or legacy, from the body first: the version header only confirms it
 * (basic/versioning, "Backward Compatibility"). Nothing is inferred from the connection.
 * @param body parsed
 * @param versionHeader the `MCP-Protocol-Version` header, `null` if absent
 * @throws RefusalError for what belongs to no era, and for requests of one that is not served
 */
export function eraOf(body: JsonValue, versionHeader: string | null, policy: EraPolicy): Era {
  if (Array.isArray(body)) return eraOfBatch(body, policy);
  if (!isJsonObject(body)) throw invalidRequest('the body must be one JSON-RPC message');
  if (typeof body['method'] !== 'string') return eraOfReply(body, policy);
  if (hasClaim(body)) return { type: 'modern', message: body };
  if (!Object.hasOwn(body, 'id')) {
    if (versionHeader === MODERN_REVISION) return { type: 'modern', message: body };
    return policy.legacyClients === 'pass-through' ? { type: 'legacy' } : { type: 'dropped' };
  }
  return eraOfRequestWithoutClaim(body, versionHeader, policy);
}

/** Returns true if the message has a protocol version in its `_meta`, whatever its value. */
export function hasClaim(message: JsonObject): boolean {
  const meta = objectMember(objectMember(message, 'params') ?? {}, '_meta');
  return meta !== undefined && Object.hasOwn(meta, Meta.protocolVersion);
}

/** Returns true if the message goes on with a call that has begun. */
function hasState(message: JsonValue): boolean {
  const params = isJsonObject(message) ? objectMember(message, 'params') : undefined;
  return params !== undefined && Object.hasOwn(params, 'requestState');
}

function eraOfRequestWithoutClaim(
  body: JsonObject,
  versionHeader: string | null,
  policy: EraPolicy,
): Era {
  const initialize = body['method'] === 'initialize';
  if (versionHeader === MODERN_REVISION) {
    if (initialize) {
      throw headerMismatch(
        `MCP-Protocol-Version is ${MODERN_REVISION}, but the body is a legacy initialize; use server/discover`,
      );
    }
    const message = `params._meta must have "${Meta.protocolVersion}" and "${Meta.clientCapabilities}"`;
    throw refused(400, ErrorCode.invalidParams, message);
  }
  if (policy.legacyClients === 'pass-through') return { type: 'legacy' };
  const supported = [...policy.supportedVersions()];
  if (versionHeader === null && !initialize) {
    const code = ErrorCode.headerMismatch;
    const message = `The MCP-Protocol-Version header is missing; supported: ${supported.join(', ')}`;
    const error = { code, message, data: { supported } };
    throw new RefusalError({ httpStatus: 400, error }, true);
  }
  const { protocolVersion } = objectMember(body, 'params') ?? {};
  const version = initialize ? protocolVersion : versionHeader;
  const requested = typeof version === 'string' ? version : '';
  throw new RefusalError(unsupportedVersion(supported, requested), true);
}

function unsupportedVersion(supported: readonly string[], requested: string): UnnamedRefusal {
  const code = ErrorCode.unsupportedProtocolVersion;
  const data = { supported: [...supported], requested };
  const message = `Unsupported protocol version: expected ${supported.join(' or ')}; ${LEGACY_ADVICE}`;
  return { httpStatus: 400, error: { code, message, data } };
}

/** Modern clients send neither replies nor batches (streamable-http, "Sending Messages"). */
function eraOfReply(body: JsonObject, policy: EraPolicy): Era {
  const isReply = Object.hasOwn(body, 'result') || Object.hasOwn(body, 'error');
  if (isReply && policy.legacyClients === 'pass-through' && !hasClaim(body)) {
    return { type: 'legacy' };
  }
  throw invalidRequest(
    isReply ? 'expected a request, got a response' : 'expected a "method" that is a string',
  );
}

function eraOfBatch(body: readonly JsonValue[], policy: EraPolicy): Era {
  const modern = body.some((message) => isJsonObject(message) && hasClaim(message));
  if (policy.legacyClients === 'pass-through' && !modern && body.length > 0) {
    return { type: 'legacy' };
  }
  throw invalidRequest('the body must be one message, not a list');
}
