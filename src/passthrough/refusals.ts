/** What is answered in our own name to a request that is not passed on, or whose answer does not come. */
import type { FastifyReply } from 'fastify';
import { BODY_TOO_LARGE, refuse as answerRefusal, UNKNOWN_CALLER } from '../edge/http/refuse.ts';
import { BodyTooLarge } from './bounded-body.ts';

export type FailureStatus = 413 | 502 | 504;

const MESSAGES: Readonly<Record<FailureStatus, string>> = {
  413: BODY_TOO_LARGE,
  502: 'The server behind this gateway cannot be reached',
  504: 'The server behind this gateway did not answer in time',
};

/** Answers with the given status. What is left of the body is read and dropped, so that the answer arrives. */
export function refuse(reply: FastifyReply, httpStatus: number, message: string): void {
  answerRefusal(reply, httpStatus, message);
  reply.request.raw.resume();
}

/** Answers somebody whom the configured identity source does not name. */
export async function refuseUnknown(reply: FastifyReply): Promise<void> {
  refuse(reply, 401, UNKNOWN_CALLER);
}

/**
 * Answers a request that failed on its way.
 * @param error what the forwarding library says; `cause` is what it stems from
 * @returns the status that was answered
 */
export function refuseFailed(reply: FastifyReply, error: Error, cause: Error): FailureStatus {
  const httpStatus = statusOf(error, cause);
  refuse(reply, httpStatus, MESSAGES[httpStatus]);
  return httpStatus;
}

function statusOf(error: Error, cause: Error): FailureStatus {
  if (cause instanceof BodyTooLarge) return 413;
  return 'statusCode' in error && error.statusCode === 504 ? 504 : 502;
}
