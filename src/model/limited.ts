/** The failures of requests that a limit keeps from the server. Another request can succeed when the limit has room. */
import { callFailure, requestFailure } from './failures.ts';
import type { Failure } from './request.ts';

/** What refuses requests, by its key in the configuration. */
export const LIMIT_NAMES = [
  'limits.maxMemoryPercent',
  'limits.maxEventLoopDelay',
  'limits.maxRunningCalls',
  'upstream.circuitBreaker',
  'limits.rate',
  'limits.ratePerPrincipal',
  'limits.tools.rate',
  'limits.tools.ratePerPrincipal',
  'limits.tools.maxRunning',
] as const;
export type LimitName = (typeof LIMIT_NAMES)[number];

const REASONS = {
  'limits.maxMemoryPercent': ['overloaded', 'The gateway has nearly used up its memory'],
  'limits.maxEventLoopDelay': ['overloaded', 'The gateway is overloaded'],
  'limits.maxRunningCalls': ['overloaded', 'The gateway is at its limit of running calls'],
  'upstream.circuitBreaker': ['circuit_open', 'The server does not respond'],
  'limits.rate': ['rate_limited', 'Too many requests to this server'],
  'limits.ratePerPrincipal': ['rate_limited', 'Too many requests of this caller'],
  'limits.tools.rate': ['rate_limited', 'Too many calls of this tool'],
  'limits.tools.ratePerPrincipal': ['rate_limited', 'Too many calls of this tool by this caller'],
  'limits.tools.maxRunning': ['tool_busy', 'The maximum number of calls of this tool is running'],
} as const;

/**
 * Builds the failure of a request that was not sent to the server.
 * @param isCall false if the request has no effects
 */
export function limited(limit: LimitName, retryAfterMs: number, isCall: boolean): Failure {
  const [reason, cause] = REASONS[limit];
  const problem = `${cause} (${limit}); try again in ${secondsOf(retryAfterMs)} s`;
  const more = { limit, retryAfterMs };
  return isCall ? callFailure(reason, 'no', problem, more) : requestFailure(reason, problem, more);
}

/** Returns the HTTP status of the same refusal, for requests that are passed through. */
export function statusOfLimit(limit: LimitName): 429 | 503 {
  const [reason] = REASONS[limit];
  return reason === 'overloaded' || reason === 'circuit_open' ? 503 : 429;
}

/** Returns whole seconds, as `Retry-After` has them (RFC 9110, section 10.2.3). */
export function secondsOf(ms: number): number {
  return Math.ceil(ms / 1000);
}
