/** What is answered in our own name to a request that is not passed on, or whose answer does not come. */
import type { FastifyReply } from 'fastify';
import { EFFECTS_IN_WORDS, type MayHaveActed } from '../model/failure-catalogue.ts';
import { BODY_TOO_LARGE, refuse as answerRefusal, UNKNOWN_CALLER } from '../edge/http/refusal.ts';
import { BodyTooLarge } from './bounded-body.ts';

export type FailureStatus = 413 | 502 | 504;

const MESSAGES: Readonly<Record<FailureStatus, string>> = {
  413: BODY_TOO_LARGE,
  502: 'The connection to the upstream server broke',
  504: 'The upstream server did not respond in time',
};
const UNREACHABLE = 'The upstream server cannot be reached';

/** Answers with the given status. What is left of the body is read and dropped, so that the answer arrives. */
export function refuse(
  reply: FastifyReply,
  httpStatus: number,
  message: string,
  mayHaveActed: MayHaveActed = 'no',
): void {
  answerRefusal(reply, httpStatus, message, {}, mayHaveActed);
  reply.request.raw.resume();
}

/** Answers somebody whom the configured identity source does not name. */
export async function refuseUnknown(reply: FastifyReply): Promise<void> {
  refuse(reply, 401, UNKNOWN_CALLER);
}

/**
 * Answers a request that failed on its way.
 * @param error what the forwarding library says; `cause` is what it stems from
 * @param written whether the server got any of the request, and so may have acted on it
 * @returns the status that was answered
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
