/** Every way in which a legacy server can fail us below JSON-RPC, as one error with a stable code. */
import type { JsonRpcErrorObject } from '../protocol/json-rpc.ts';

export type UpstreamFailureCode =
  /** The server does not know our session (any more). */
  | 'session_gone'
  /** 401 or 403: the caller's credentials are not good enough. */
  | 'unauthorized'
  /** 429 or 503. */
  | 'upstream_busy'
  /** No connection, a connection that broke, or another 5xx. */
  | 'upstream_unavailable'
  /** No answer within the configured time. */
  | 'upstream_timeout'
  /** A stream that was taken up brought what belongs to another call. */
  | 'streams_mixed'
  /** An answer that is not MCP: HTML, a redirect, a compressed body, an event beyond the limit. */
  | 'upstream_protocol_error';

export interface UpstreamFailureDetails {
  /** False only when the server certainly did not act on the request. */
  readonly mayHaveActed: boolean;
  readonly httpStatus?: number;
  /** The JSON-RPC error that came with the status of a refused message. */
  readonly rpcError?: JsonRpcErrorObject;
  readonly wwwAuthenticate?: string;
  readonly retryAfterMs?: number;
  /** Where a redirect would have led. */
  readonly location?: string;
  readonly cause?: unknown;
}

/** Thrown by the upstream room. `message` is for the operator's log, never for a client. */
export class UpstreamFailure extends Error {
  readonly code: UpstreamFailureCode;
  readonly details: UpstreamFailureDetails;

  constructor(code: UpstreamFailureCode, message: string, details: UpstreamFailureDetails) {
    super(message, { cause: details.cause });
    this.name = 'UpstreamFailure';
    this.code = code;
    this.details = details;
  }
}

/**
 * Any thrown value as an `UpstreamFailure`; what is not one already was a broken connection.
 * @param mayHaveActed true unless the server cannot have acted, such as before anything was written
 */
export function asUpstreamFailure(error: unknown, mayHaveActed: boolean): UpstreamFailure {
  if (error instanceof UpstreamFailure) return error;
  const code = errorCode(error);
  if (TIMEOUTS.has(code) || isAbortTimeout(error)) {
    return new UpstreamFailure('upstream_timeout', 'the server did not respond in time', {
      mayHaveActed,
      cause: error,
    });
  }
  const text = error instanceof Error ? error.message : String(error);
  const tls = tlsProblem(code);
  const problem =
    tls === null
      ? `no usable connection: ${text || code}`
      : `no TLS with the upstream: ${code}; ${tls}`;
  return new UpstreamFailure('upstream_unavailable', problem, {
    mayHaveActed,
    cause: error,
  });
}

/** True for a connection that was there and broke before an answer had begun. */
export function isBrokenConnection(error: unknown): boolean {
  return error instanceof UpstreamFailure && BROKEN.has(errorCode(error.details.cause));
}

const BROKEN = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);

const TIMEOUTS = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT']);

/** What `AbortSignal.timeout` ends a request with. */
function isAbortTimeout(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'TimeoutError';
}

/** The same failure, of something that was sent before the request that counts. */
export function beforeRequest({ code, message, details }: UpstreamFailure): UpstreamFailure {
  return new UpstreamFailure(code, message, { ...details, mayHaveActed: false });
}

/** What is wrong when TLS could not be agreed on; `null` for another error. */
function tlsProblem(code: string): string | null {
  switch (code) {
    case 'CERT_HAS_EXPIRED':
      return 'its certificate has expired';
    case 'CERT_NOT_YET_VALID':
      return 'its certificate is not valid yet; is the clock of this machine right?';
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return 'its certificate is for another name than the host of upstream.url';
    case 'ERR_SSL_WRONG_VERSION_NUMBER':
    case 'ERR_SSL_PACKET_LENGTH_TOO_LONG':
      return 'that port speaks no TLS; use http://';
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
    case 'SELF_SIGNED_CERT_IN_CHAIN':
    case 'UNABLE_TO_GET_ISSUER_CERT':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
      return 'no authority that is known here vouches for its certificate; name it with NODE_EXTRA_CA_CERTS=FILE';
    default:
      return null;
  }
}

function errorCode(error: unknown): string {
  if (error instanceof AggregateError) return errorCode(error.errors[0]);
  if (typeof error === 'object' && error !== null && 'code' in error) return String(error.code);
  return '';
}
