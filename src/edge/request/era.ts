/**
 * Decides whether a request is modern or legacy, from the body first: the version header only confirms it
 * (basic/versioning, "Backward Compatibility"). Nothing is inferred from the connection.
 */
import {
  isJsonObject,
  objectMember,
  type JsonObject,
  type JsonValue,
} from '../../protocol/json.ts';
import { ErrorCode, type JsonRpcErrorObject } from '../../protocol/json-rpc.ts';
import { Meta, MODERN_REVISION } from '../../protocol/meta.ts';

export type Era =
  | { readonly type: 'modern'; readonly message: JsonObject }
  | { readonly type: 'legacy' }
  /** A legacy notification while legacy clients are not served. It needs no reply. */
  | { readonly type: 'dropped' }
  | { readonly type: 'refused'; readonly httpStatus: number; readonly error: JsonRpcErrorObject };

export interface EraPolicy {
  readonly legacyClients: 'pass-through' | 'reject';
  /** The versions that `server/discover` reports. */
  readonly supportedVersions: () => readonly string[];
}

/**
 * Decides the era of a parsed body.
 * @param versionHeader the `MCP-Protocol-Version` header, `null` if absent
 */
export function eraOf(body: JsonValue, versionHeader: string | null, policy: EraPolicy): Era {
  if (Array.isArray(body)) return eraOfBatch(body, policy);
  if (!isJsonObject(body)) return invalid('the body must be one JSON-RPC message');
  const isModern = hasClaim(body) || versionHeader === MODERN_REVISION;
  if (typeof body['method'] !== 'string') return eraOfReply(body, policy);
  if (hasClaim(body)) return { type: 'modern', message: body };
  if (!Object.hasOwn(body, 'id')) {
    if (isModern) return { type: 'modern', message: body };
    return policy.legacyClients === 'pass-through' ? { type: 'legacy' } : { type: 'dropped' };
  }
  return eraOfRequestWithoutClaim(body, versionHeader, policy);
}

/** Returns true if the message has a protocol version in its `_meta`, whatever its value. */
export function hasClaim(message: JsonObject): boolean {
  const meta = objectMember(objectMember(message, 'params') ?? {}, '_meta');
  return meta !== undefined && Object.hasOwn(meta, Meta.protocolVersion);
}

function eraOfRequestWithoutClaim(
  body: JsonObject,
  versionHeader: string | null,
  policy: EraPolicy,
): Era {
  const initialize = body['method'] === 'initialize';
  if (versionHeader === MODERN_REVISION) {
    if (initialize) {
      return refused(400, {
        code: ErrorCode.headerMismatch,
        message: `MCP-Protocol-Version says ${MODERN_REVISION}, and the body is a legacy initialize`,
      });
    }
    return refused(400, {
      code: ErrorCode.invalidParams,
      message: `params._meta must have "${Meta.protocolVersion}" and "${Meta.clientCapabilities}"`,
    });
  }
  if (policy.legacyClients === 'pass-through') return { type: 'legacy' };
  const supported = [...policy.supportedVersions()];
  if (versionHeader === null && !initialize) {
    return refused(400, {
      code: ErrorCode.headerMismatch,
      message: `The MCP-Protocol-Version header is missing; supported: ${supported.join(', ')}`,
      data: { supported },
    });
  }
  const { protocolVersion } = objectMember(body, 'params') ?? {};
  const requested = initialize ? protocolVersion : versionHeader;
  return refused(400, {
    code: ErrorCode.unsupportedProtocolVersion,
    message: 'Unsupported protocol version',
    data: { supported, requested: typeof requested === 'string' ? requested : '' },
  });
}

/** Modern clients send neither replies nor batches (streamable-http, "Sending Messages"). */
function eraOfReply(body: JsonObject, policy: EraPolicy): Era {
  const isReply = Object.hasOwn(body, 'result') || Object.hasOwn(body, 'error');
  if (isReply && policy.legacyClients === 'pass-through' && !hasClaim(body)) {
    return { type: 'legacy' };
  }
  return invalid(
    isReply ? 'responses are not accepted here' : 'expected a "method" that is a string',
  );
}

function eraOfBatch(body: readonly JsonValue[], policy: EraPolicy): Era {
  const modern = body.some((message) => isJsonObject(message) && hasClaim(message));
  if (policy.legacyClients === 'pass-through' && !modern && body.length > 0) {
    return { type: 'legacy' };
  }
  return invalid('the body must be one message, not a list');
}

function invalid(problem: string): Era {
  return refused(400, { code: ErrorCode.invalidRequest, message: `Invalid request: ${problem}` });
}

function refused(httpStatus: number, error: JsonRpcErrorObject): Era {
  return { type: 'refused', httpStatus, error };
}
