/** Why a probe failed: one line with the cause and what to do. */
import { asOneLine } from '../lib/shown-text.ts';
import type { UpstreamFailure } from '../model/upstream-failure.ts';

export type ProbeFailureCode =
  | 'connection_failed'
  | 'tls_failed'
  | 'unauthorized'
  | 'redirect'
  | 'not_mcp'
  | 'server_error'
  | 'timeout'
  | 'unknown_tool'
  | 'interrupted';

export class ProbeFailure extends Error {
  readonly code: ProbeFailureCode;

  constructor(code: ProbeFailureCode, message: string) {
    super(message);
    this.name = 'ProbeFailure';
    this.code = code;
  }
}

export interface ProbeAttempt {
  /** Without credentials. */
  readonly url: string;
  readonly timeoutMs: number;
  readonly gaveHeaders: boolean;
  /** The media type of the response to a plain GET; `null` if none was sent. */
  readonly page: string | null;
}

export function probeFailureOf(failure: UpstreamFailure, attempt: ProbeAttempt): ProbeFailure {
  const { url } = attempt;
  const status = failure.details.httpStatus;
  const cause = causeOf(failure);
  if (isTimeout(failure)) return timedOut(attempt);
  if (failure.code === 'unauthorized') return unauthorized(failure, attempt);
  if (status !== undefined && status >= 300 && status < 400) return redirected(failure, attempt);
  if (failure.code === 'upstream_busy' || (status !== undefined && status >= 500)) {
    const { retryAfterMs } = failure.details;
    const when = retryAfterMs === undefined ? 'later' : `in ${retryAfterMs / 1000} s`;
    return new ProbeFailure(
      'server_error',
      `${url} responds with HTTP ${status}${saidIn(failure)}; look into the log of the server, or try again ${when}`,
    );
  }
  if (failure.code === 'upstream_unavailable') return unreachable(failure, cause, attempt);
  return notMcp(failure, attempt);
}

/** Tells whether the server did not respond in time. */
function isTimeout(failure: UpstreamFailure): boolean {
  return failure.code === 'upstream_timeout' || causeOf(failure).name === 'TimeoutError';
}

export function timedOut({
  url,
  timeoutMs,
}: Pick<ProbeAttempt, 'url' | 'timeoutMs'>): ProbeFailure {
  return new ProbeFailure(
    'timeout',
    `${url} did not respond within ${timeoutMs} ms; check the port, or raise --timeout`,
  );
}

function unauthorized(failure: UpstreamFailure, { url, gaveHeaders }: ProbeAttempt): ProbeFailure {
  const { httpStatus, wwwAuthenticate } = failure.details;
  const scheme = /^[A-Za-z][\w-]{0,30}/.exec(wwwAuthenticate ?? '')?.[0] ?? 'Bearer';
  const wayOut = gaveHeaders
    ? 'it does not accept the given --header'
    : `give credentials with --header "Authorization: ${scheme} ..."`;
  let hint = '';
  if (wwwAuthenticate === undefined) {
    hint = '; if it checks Host, use the name that it accepts (upstream.url, upstream.hostHeader)';
  } else if (/\bresource_metadata\b/i.test(wwwAuthenticate)) {
    hint =
      '; clients log in through the gateway if publicUrl is set and the server accepts tokens for that URL';
  }
  return new ProbeFailure(
    'unauthorized',
    `${url} refuses access (HTTP ${httpStatus})${saidIn(failure)}; ${wayOut}${hint}`,
  );
}

/** Returns the words of the server, as the end of a clause. */
function saidIn({ details: { said } }: UpstreamFailure): string {
  return said ? `: "${asOneLine(said, 160)}"` : '';
}

function redirected({ details }: UpstreamFailure, { url }: ProbeAttempt): ProbeFailure {
  const { location } = details;
  const target = location === undefined ? null : URL.parse(location, url);
  const where = target === null ? '' : ` to ${asOneLine(target.origin + target.pathname, 200)}`;
  return new ProbeFailure(
    'redirect',
    `${url} redirects${where} (HTTP ${details.httpStatus}); redirects are not followed, so use the target URL`,
  );
}

function unreachable(failure: UpstreamFailure, cause: Cause, { url }: ProbeAttempt): ProbeFailure {
  const { code } = cause;
  if (isTls(code)) {
    const wayOut =
      code === 'ERR_SSL_WRONG_VERSION_NUMBER' || code === 'ERR_SSL_PACKET_LENGTH_TOO_LONG'
        ? 'the port does not use TLS; use http://'
        : 'add the CA with NODE_EXTRA_CA_CERTS=FILE, or use the name in its certificate';
    return new ProbeFailure('tls_failed', `TLS handshake with ${url} failed (${code}): ${wayOut}`);
  }
  const [problem, wayOut] = CONNECTION_PROBLEMS[code] ?? [
    asOneLine(cause.message || failure.message, 200),
    'check that it is an HTTP server',
  ];
  const message = `no connection to ${url}: ${problem}; ${wayOut}`;
  return new ProbeFailure('connection_failed', message);
}

const TIMED_OUT = ['connection timed out', 'check for a firewall in between'] as const;
const NO_ROUTE = ['no route to the host', 'check the network of this machine'] as const;
const NO_HOST = ['host not found', 'check the host name'] as const;
const CLOSED = [
  'the server closed the connection',
  'check that the port serves HTTP, not HTTPS',
] as const;

const CONNECTION_PROBLEMS: Readonly<Record<string, readonly [problem: string, wayOut: string]>> = {
  ECONNREFUSED: ['connection refused', 'check that the server runs on this port'],
  ENOTFOUND: NO_HOST,
  EAI_AGAIN: NO_HOST,
  UND_ERR_CONNECT_TIMEOUT: TIMED_OUT,
  ETIMEDOUT: TIMED_OUT,
  EHOSTUNREACH: NO_ROUTE,
  ENETUNREACH: NO_ROUTE,
  ECONNRESET: CLOSED,
  UND_ERR_SOCKET: CLOSED,
};

function notMcp(failure: UpstreamFailure, { url, page }: ProbeAttempt): ProbeFailure {
  const status = failure.details.httpStatus;
  let problem = `${asOneLine(failure.message, 200)}${saidIn(failure)}`;
  if (status === 404) problem = 'not found (HTTP 404)';
  else if (page === 'text/html') problem = 'it is a web page (HTML)';
  return new ProbeFailure(
    'not_mcp',
    `${url} does not speak MCP: ${problem}; give the URL of the MCP endpoint, such as http://host:port/mcp or /sse`,
  );
}

function isTls(code: string): boolean {
  return (
    /^ERR_(SSL|TLS)_/.test(code) ||
    /(CERT|SELF_SIGNED|UNABLE_TO_(VERIFY|GET)|HOSTNAME_MISMATCH)/.test(code)
  );
}

interface Cause {
  readonly name: string;
  readonly code: string;
  readonly message: string;
}

/** The error of the system behind a failure; a host with several addresses has one for each. */
function causeOf(failure: UpstreamFailure): Cause {
  let error: unknown = failure.details.cause;
  for (let depth = 0; depth < 5 && error instanceof Error; depth += 1) {
    const inner: unknown = error instanceof AggregateError ? error.errors[0] : error.cause;
    if (!(inner instanceof Error)) break;
    error = inner;
  }
  if (!(error instanceof Error)) return { name: '', code: '', message: '' };
  const code = 'code' in error ? String(error.code) : '';
  return { name: error.name, code, message: error.message };
}
