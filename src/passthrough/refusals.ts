/** The gateway's own responses to requests that are not passed through, or that get no response from the server. */
import type { FastifyReply } from 'fastify';
import { EFFECTS_IN_WORDS, type MayHaveActed } from '../model/failure-catalogue.ts';
import { BODY_TOO_LARGE, refuse as sendRefusal, UNKNOWN_CALLER } from '../edge/http/refusal.ts';
import { BodyTooLarge } from './bodies.ts';

export type FailureStatus = 413 | 502 | 504;

const MESSAGES: Readonly<Record<FailureStatus, string>> = {
  413: BODY_TOO_LARGE,
  502: 'The connection to the upstream server broke',
  504: 'The upstream server did not respond in time',
};
const UNREACHABLE = 'The upstream server cannot be reached';

/** Responds with this status. The rest of the body is read and discarded, so that the response arrives. */
export function refuse(
  reply: FastifyReply,
  httpStatus: number,
  message: string,
  mayHaveActed: MayHaveActed = 'no',
): void {
  sendRefusal(reply.hijack().raw, httpStatus, message, {}, mayHaveActed);
  reply.request.raw.resume();
}

/** Responds to a caller whom the configured identity source does not name. */
export async function refuseUnknown(reply: FastifyReply): Promise<void> {
  refuse(reply, 401, UNKNOWN_CALLER);
}

/**
 * Responds to a request that failed.
 * @param error of the forwarding library
 * @param cause of that error
 * @param written whether any part of the request was sent, so that the server may have acted
 * @returns the status of the response
 */
export function refuseFailed(
  reply: FastifyReply,
  error: Error,
  cause: Error,
  written: boolean,
): FailureStatus {
  const httpStatus = statusOf(error, cause);
  const message = httpStatus === 502 && !written ? UNREACHABLE : MESSAGES[httpStatus];
  if (written) refuse(reply, httpStatus, `${message}. ${EFFECTS_IN_WORDS.unknown}`, 'unknown');
  else refuse(reply, httpStatus, `${message}. ${EFFECTS_IN_WORDS.no}`);
  return httpStatus;
}

function statusOf(error: Error, cause: Error): FailureStatus {
  if (cause instanceof BodyTooLarge) return 413;
  return 'statusCode' in error && error.statusCode === 504 ? 504 : 502;
}
