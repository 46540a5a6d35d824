/** What HTTP responses mean that are not a success: statuses, redirects, and errors of sessions. */
import type { IncomingHttpHeaders } from 'node:http';
import { isModernError, readMessage, type JsonRpcErrorObject } from '../../protocol/json-rpc.ts';
import { beginningOf, UpstreamFailure } from '../../model/upstream-failure.ts';
import { upstreamJson } from './bodies.ts';
import type { ResponseHead } from './http-request.ts';

/**
 * The statuses that mean that the request was not carried out. Others do not say so: a 500 may come from
 * the middle of the work, and 502, 503 and 504 from a proxy that lost the server. RFC 9110 promises
 * nothing of 503 (section 15.6.4), and allows a POST to be repeated only if it was certainly not applied
 * (section 9.2.2). 301 to 303 may follow the work ("see other", section 15.4.4), 307 and 308 precede it.
 */
const NOT_CARRIED_OUT: ReadonlySet<number> = new Set([
  307, 308,
  // RFC 9110, section 15.5; 408 is a request that did not arrive whole.
  400, 401, 403, 404, 405, 406, 407, 408, 410, 411, 413, 414, 415, 417, 421, 422, 426,
  // RFC 8470 (too early); RFC 6585: precondition required, too many requests, header fields too large.
  425,
  428, 429, 431,
]);

/** True unless the server certainly did not act on a request that it responded to with this status. */
export function mayHaveActedWith(status: number): boolean {
  return !NOT_CARRIED_OUT.has(status);
}

/**
 * Returns the failure that an error status means.
 * @param text the body, or an empty text if it could not be read
 * @param inSession whether the request carried a session id
 * @param nowMs when the response came, in ms since the epoch
 */
export function failureOfStatus(
  head: ResponseHead,
  text: string,
  inSession: boolean,
  nowMs: number,
): UpstreamFailure {
  const { status, headers } = head;
  const error = errorIn(head, text);
  const details = {
    mayHaveActed: mayHaveActedWith(status),
    httpStatus: status,
    ...saidWith(head, text, error),
  };
  const what = `HTTP ${status}${error === null ? '' : ` (JSON-RPC error ${error.code})`}`;
  if (inSession && saysSessionGone(status, error)) {
    return new UpstreamFailure('session_gone', `the server no longer knows the session: ${what}`, {
      ...details,
      mayHaveActed: false,
    });
  }
  if (status === 401 || status === 403) {
    const challenge = headers['www-authenticate'];
    return new UpstreamFailure('unauthorized', `the server refused the credentials: ${what}`, {
      ...details,
      ...(text === '' ? {} : { said: beginningOf(text) }),
      ...(challenge === undefined ? {} : { wwwAuthenticate: challenge }),
    });
  }
  if (status === 429 || status === 503) {
    const retryAfterMs = retryAfterIn(headers, nowMs);
    return new UpstreamFailure('upstream_busy', `the server is busy: ${what}`, {
      ...details,
      ...(retryAfterMs === null ? {} : { retryAfterMs }),
    });
  }
  if (status >= 500) return new UpstreamFailure('upstream_unavailable', what, details);
  return new UpstreamFailure('upstream_protocol_error', what, {
    ...details,
    ...(head.mediaType === 'application/json' && { hasJson: true }),
    ...(error === null ? {} : { rpcError: error }),
  });
}

/** Returns what the server said with an error. A page is for people, and says nothing in its first line. */
function saidWith({ mediaType }: ResponseHead, text: string, error: JsonRpcErrorObject | null) {
  const words = error?.message ?? (mediaType === 'text/html' ? '' : text);
  return words === '' ? {} : { said: beginningOf(words) };
}

/** @throws UpstreamFailure for a redirect, and for a compressed body */
export function refuseForeignForms({ status, headers }: ResponseHead): void {
  const encoding = headers['content-encoding'];
  const { location } = headers;
  const problem =
    status >= 300
      ? `it responded with a redirect${targetOf(location)} (HTTP ${status}), which the gateway does not follow`
      : encoding !== undefined && encoding !== 'identity'
        ? 'it sent a compressed body, which the gateway did not accept'
        : null;
  if (problem === null) return;
  throw new UpstreamFailure('upstream_protocol_error', problem, {
    mayHaveActed: mayHaveActedWith(status),
    httpStatus: status,
    ...(location === undefined ? {} : { location }),
  });
}

const NO_ORIGIN = 'http://relative.invalid';

/** Names the target of a redirect, without userinfo and query: they can have a token in them. */
function targetOf(location: string | undefined): string {
  const target = location === undefined ? null : URL.parse(location, NO_ORIGIN);
  if (target === null) return '';
  const { origin, pathname } = target;
  return ` to ${beginningOf(origin === NO_ORIGIN ? pathname : origin + pathname)}`;
}

const SESSION_WORDS =
  /\bsession\b.{0,40}\b(not found|unknown|expired|invalid|terminated|closed|does not exist|not exist)\b|\b(no|invalid|unknown|missing|expired|bad)\b.{0,20}\bsession\b|\bserver not initialized\b|\bnot initialized\b/i;

const SESSION_CODES = new Set([-32000, -32001, -32600]);

/**
 * True if an HTTP response to a message with a session id means that the session is unknown. The
 * specification requires 404 (transports, "Session Management"); deployed servers also respond with 400. A server that
 * was upgraded and takes no legacy requests any more has none of the sessions either.
 */
export function saysSessionGone(status: number, error: JsonRpcErrorObject | null): boolean {
  if (status === 404) return true;
  if (status !== 400 || error === null) return false;
  return isSessionError(error) || isModernError(error.code);
}

/**
 * True if a JSON-RPC error, with any status, reads like "unknown session". A tool may say the same of
 * sessions of its own, so the caller has to check that the session may be unknown.
 */
export function isSessionError(error: JsonRpcErrorObject): boolean {
  return SESSION_CODES.has(error.code) && SESSION_WORDS.test(error.message.slice(0, 200));
}

function errorIn({ mediaType }: ResponseHead, text: string): JsonRpcErrorObject | null {
  if (mediaType !== 'application/json') return null;
  try {
    const message = readMessage(upstreamJson(text));
    return message.type === 'response' && 'error' in message.reply ? message.reply.error : null;
  } catch {
    return null;
  }
}

const MAX_WAIT_MS = 3_600_000;

/** Reads seconds or a date (RFC 9110, section 10.2.3). A date is one of the clock of the server, which `Date` shows. */
function retryAfterIn(headers: IncomingHttpHeaders, nowMs: number): number | null {
  const { 'retry-after': value, date } = headers;
  const seconds = Number(value);
  const atMs = timeIn(value);
  const waitMs = atMs === null ? seconds * 1000 : Math.max(0, atMs - (timeIn(date) ?? nowMs));
  return Number.isFinite(waitMs) && waitMs >= 0 ? Math.min(waitMs, MAX_WAIT_MS) : null;
}

const HTTP_DATE = /^(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*,? /;

/** Reads a date in ms since the epoch. One of the three forms names no zone, and means GMT (RFC 9110, section 5.6.7). */
function timeIn(value: unknown): number | null {
  if (typeof value !== 'string' || !HTTP_DATE.test(value)) return null;
  const atMs = Date.parse(value.endsWith(' GMT') ? value : `${value} GMT`);
  return Number.isNaN(atMs) ? null : atMs;
}
