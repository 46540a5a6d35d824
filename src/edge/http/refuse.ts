/** Refusals that know nothing of the JSON-RPC message in the request, if there is one. */
import type { FastifyReply } from 'fastify';
import type { MayHaveActed } from '../../model/failure-catalogue.ts';
import { ErrorCode } from '../../protocol/json-rpc.ts';
import { sendJson } from '../response-writer.ts';
import { rejectionBody } from './rejection.ts';

export const BODY_TOO_LARGE = 'Request body too large';
/** Of somebody whom the configured identity source does not name. */
export const UNKNOWN_CALLER = 'Caller not identified';

/**
 * Answers with a JSON-RPC error without an id. What is left of the body is nobody's concern here.
 * @param mayHaveActed what is known of the effects of a request that was sent on
 */
export function refuse(
  reply: FastifyReply,
  httpStatus: number,
  message: string,
  headers: Readonly<Record<string, string>> = {},
  mayHaveActed: MayHaveActed = 'no',
): void {
  const code = httpStatus >= 500 ? ErrorCode.internalError : ErrorCode.invalidRequest;
  const rejection = { httpStatus, id: null, error: { code, message }, mayHaveActed };
  sendJson(reply.hijack().raw, httpStatus, rejectionBody(rejection), headers);
}
