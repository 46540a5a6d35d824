/** How a request to a legacy server can fail below JSON-RPC: one error class with a stable code. */
import { asOneLine } from '../lib/shown-text.ts';
import type { JsonRpcErrorObject } from '../protocol/json-rpc.ts';

export type UpstreamFailureCode =
  /** The server does not know the session, or no longer does. */
  | 'session_gone'
  /** 401 or 403: the server refused the credentials of the caller. */
  | 'unauthorized'
  /** 429 or 503. */
  | 'upstream_busy'
  /** No connection, a connection that broke, or another 5xx. */
  | 'upstream_unavailable'
  /** No response within the configured time. */
  | 'upstream_timeout'
  /** A resumed stream carried messages of another call. */
  | 'streams_mixed'
  /** The server no longer accepts a legacy handshake, and speaks 2026-07-28. */
  | 'server_is_modern'
  /** A response that is not MCP: HTML, a redirect, a compressed body, JSON that is not a reply, an event beyond the limit. */
  | 'upstream_protocol_error';

/** A limit of what a server sends, in words: one that is configured (`size-limits.ts`), or a fixed one. */
export type UpstreamLimit =
  | `upstream.maxEvent is ${string}`
  | `limits.maxMemoryPercent leaves ${string}`
  | `at most ${number} levels of objects and arrays`
  | `at most ${number} objects and arrays`;

export interface UpstreamFailureDetails {
  /** False only if the server certainly did not act on the request. */
  readonly mayHaveActed: boolean;
  /** Whether the server sent this where the reply to a request that it had taken was due. */
  readonly isForReply?: boolean;
  /** Whether the reply came, and could not be taken: the server has done with the request, and its session goes on. */
  readonly hasReplied?: boolean;
  /** Whether that was JSON, as a server that is not ready yet can send it, or a proxy in front of it. */
  readonly isOtherJson?: boolean;
  readonly httpStatus?: number;
  /** Whether another process of the gateway has the session, and can serve the call. */
  readonly isElsewhere?: boolean;
  /** Whether a 4xx came with JSON, as a server sends it that has looked at the request. */
  readonly hasJson?: boolean;
  /** The JSON-RPC error that came with an error status, or in reply to `initialize`. */
  readonly rpcError?: JsonRpcErrorObject;
  readonly wwwAuthenticate?: string;
  /** The beginning of what the server said with an error. It can repeat what was sent to it. */
  readonly said?: string;
  readonly retryAfterMs?: number;
  /** The limit that what the server sent exceeds. */
  readonly exceeds?: UpstreamLimit;
  /** The target of a redirect. */
  readonly location?: string;
  readonly cause?: unknown;
}

/** What `src/upstream` throws. `message` is for the operator's log, never for a client. */
export class UpstreamFailure extends Error {
  readonly code: UpstreamFailureCode;
  readonly details: UpstreamFailureDetails;

  constructor(code: UpstreamFailureCode, message: string, details: UpstreamFailureDetails) {
    super(message, { cause: details.cause });
    this.name = 'UpstreamFailure';
    this.code = code;
    this.details = details;
  }

  /** Returns the same failure with other details. */
  with(details: Partial<UpstreamFailureDetails>): UpstreamFailure {
    return new UpstreamFailure(this.code, this.message, { ...this.details, ...details });
  }
}

/** Builds the failure of a request to a server that does not speak as it should, and has not acted on it. */
export function protocolError(problem: string): UpstreamFailure {
  return new UpstreamFailure('upstream_protocol_error', problem, { mayHaveActed: false });
}

const MAX_SAID_CHARACTERS = 160;

/** Returns the beginning of a text as one line, without characters that change how a terminal shows it. */
export function beginningOf(text: string): string {
  return asOneLine(text, MAX_SAID_CHARACTERS);
}

/** The client left before the reply. The server is not at fault. */
export class ClientLeft extends Error {
  readonly code = 'client_left';

  constructor(method: string) {
    super(`the client left before the reply to ${method}`);
    this.name = 'ClientLeft';
  }
}

/**
 * Returns a thrown value as an `UpstreamFailure`. Another error is one of the connection.
 * @param mayHaveActed false if the server cannot have acted, such as before anything was written
 */
export function asUpstreamFailure(error: unknown, mayHaveActed: boolean): UpstreamFailure {
  if (error instanceof UpstreamFailure) return error;
  const code = errorCode(error);
  if (TIMEOUTS.has(code)) {
    return new UpstreamFailure('upstream_timeout', 'the server did not respond in time', {
      mayHaveActed,
      cause: error,
    });
  }
  const text = error instanceof Error ? error.message : String(error);
  const tls = tlsProblem(code);
  const own = OUT_OF_FILES.has(code) ? `; ${NO_FILES}` : '';
  const problem =
    tls === null
      ? `connection failed: ${text || code}${own}`
      : `TLS handshake failed (${code}): ${tls}`;
  return new UpstreamFailure('upstream_unavailable', problem, {
    mayHaveActed,
    cause: error,
  });
}

/** True if this process had no open file left for a connection, which says nothing about the server. */
export function isOutOfFiles(error: unknown): boolean {
  const cause = error instanceof UpstreamFailure ? error.details.cause : error;
  return OUT_OF_FILES.has(errorCode(cause));
}

const OUT_OF_FILES = new Set(['EMFILE', 'ENFILE']);
const NO_FILES = 'the gateway has reached its limit of open files: raise it (ulimit -n)';

/** True for a connection that was established and broke. */
export function isBrokenConnection(error: unknown): boolean {
  return error instanceof UpstreamFailure && BROKEN.has(errorCode(error.details.cause));
}

const BROKEN = new Set(['ECONNRESET', 'EPIPE', 'UND_ERR_SOCKET']);

const TIMEOUTS = new Set(['UND_ERR_HEADERS_TIMEOUT', 'UND_ERR_BODY_TIMEOUT']);

/** Returns the failure for a request that was not sent, because what had to precede it failed. */
export function beforeRequest(failure: UpstreamFailure): UpstreamFailure {
  return failure.with({ mayHaveActed: false });
}

/** Describes a TLS error; `null` for another error. */
function tlsProblem(code: string): string | null {
  switch (code) {
    case 'CERT_HAS_EXPIRED':
      return 'the certificate has expired';
    case 'CERT_NOT_YET_VALID':
      return 'the certificate is not valid yet; check the clock of this machine';
    case 'ERR_TLS_CERT_ALTNAME_INVALID':
      return 'the certificate is for another name than the host of upstream.url';
    case 'ERR_SSL_WRONG_VERSION_NUMBER':
    case 'ERR_SSL_PACKET_LENGTH_TOO_LONG':
      return 'the port does not use TLS; use http:// in upstream.url';
    case 'DEPTH_ZERO_SELF_SIGNED_CERT':
    case 'SELF_SIGNED_CERT_IN_CHAIN':
    case 'UNABLE_TO_GET_ISSUER_CERT':
    case 'UNABLE_TO_GET_ISSUER_CERT_LOCALLY':
    case 'UNABLE_TO_VERIFY_LEAF_SIGNATURE':
      return 'the certificate is not signed by a trusted CA; add the CA with NODE_EXTRA_CA_CERTS=FILE';
    default:
      return null;
  }
}

function errorCode(error: unknown): string {
  if (error instanceof AggregateError) return errorCode(error.errors[0]);
  if (typeof error === 'object' && error !== null && 'code' in error) return String(error.code);
  return '';
}
