/**
 * Reads and checks a modern request, step by step in a fixed order. The first step that fails decides the
 * refusal. The request that comes out agrees with its headers and has a known shape.
 */
import type { ClientRequestId } from '../../protocol/ids.ts';
import { objectMember, type JsonObject } from '../../protocol/json.ts';
import { ErrorCode } from '../../protocol/json-rpc.ts';
import { Meta, MODERN_REVISION } from '../../protocol/meta.ts';
import { finalReply } from '../response-writer.ts';
import { eraOf, type EraPolicy } from './era.ts';
import {
  checkHttp,
  checkMethodHeader,
  checkName,
  checkParams,
  headerMismatch,
  invalidParams,
  modernRequest,
  parseBody,
  readId,
  readMethod,
  refused,
  RefusalError,
  standardHeaders,
  valueOf,
  type RequestHeaders,
  type ModernRequest,
  type ReadRequest,
  type StandardHeaders,
} from './message.ts';
import { isMethod, METHOD_NOT_FOUND, readRequestMeta, type RequestMeta } from './methods.ts';

export interface RequestPolicy extends EraPolicy {
  readonly maxJsonDepth: number;
}

/** Reads the body and headers of one POST. Never throws. */
export function readModernRequest(
  http: RequestHeaders,
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
        return readModernMessage(standard, era.message, id, version, accepts, policy);
    }
  } catch (error) {
    if (!(error instanceof RefusalError)) throw error;
    return { type: 'refused', refusal: { ...error.refusal, id } };
  }
}

function readModernMessage(
  headers: StandardHeaders,
  message: JsonObject,
  id: ClientRequestId | null,
  version: string | null,
  accepts: ModernRequest['accepts'],
  policy: RequestPolicy,
): ReadRequest {
  const read = readMethod(message, id);
  if (read === null || id === null) return { type: 'notification' };
  const { method, params } = read;
  const meta = readEnvelope(params, version, policy);
  checkMethodHeader(headers, method);
  if (!isMethod(method)) throw new RefusalError(METHOD_NOT_FOUND);
  checkName(headers, method, params);
  checkParams(method, params, meta);
  const request = modernRequest({ id, method, params, meta, accepts, encode: finalReply });
  return { type: 'request', request };
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
