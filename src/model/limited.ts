/** The failures of requests that a limit keeps from the server. Another request can succeed when the limit has room. */
import { callFailure, requestFailure } from './failures.ts';
import type { Failure } from './request.ts';

/** What keeps requests from the server, by its key in the configuration. */
const REASONS = {
  'limits.maxMemoryPercent': ['overloaded', 'The gateway has nearly used up its memory'],
  'limits.maxConnections': ['rate_limited', 'Half of the connections are in use by this caller'],
  'upstream.circuitBreaker': ['circuit_open', 'The server does not respond'],
  'limits.rate': ['rate_limited', 'Too many requests to this server'],
  'limits.ratePerPrincipal': ['rate_limited', 'Too many requests of this caller'],
  'limits.tools.rate': ['rate_limited', 'Too many calls of this tool'],
  'limits.tools.ratePerPrincipal': ['rate_limited', 'Too many calls of this tool by this caller'],
  'limits.tools.maxRunning': ['tool_busy', 'The maximum number of calls of this tool is running'],
} as const;
export type AdmissionLimit = keyof typeof REASONS;

/** All limits of requests. Beyond the last one calls do not begin, whose failures are `OVERLOADED` and `OVERLOADED_FOR_RETRY`. */
export const LIMIT_NAMES = [
  ...(Object.keys(REASONS) as AdmissionLimit[]),
  'limits.maxRunningCalls',
] as const;
export type LimitName = (typeof LIMIT_NAMES)[number];

/**
 * Builds the failure of a request that was not sent to the server.
 * @param isCall false if the request has no effects
 */
export function limited(limit: AdmissionLimit, retryAfterMs: number, isCall: boolean): Failure {
  const [reason, cause] = REASONS[limit];
  const problem = `${cause} (${limit}); try again in ${secondsOf(retryAfterMs)} s`;
  const more = { limit, retryAfterMs };
  return isCall ? callFailure(reason, 'no', problem, more) : requestFailure(reason, problem, more);
}

/** Returns the HTTP status of the same refusal, for requests that are passed through. */
export function statusOfLimit(limit: AdmissionLimit): 429 | 503 {
  const [reason] = REASONS[limit];
  return reason === 'overloaded' || reason === 'circuit_open' ? 503 : 429;
}

/** Returns whole seconds, as `Retry-After` has them (RFC 9110, section 10.2.3). */
export function secondsOf(ms: number): number {
  return Math.ceil(ms / 1000);
}
