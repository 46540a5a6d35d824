/** Which requests of a server are questions to a client, and what it hears when there is no client to ask. */
import { ErrorCode, type JsonRpcReply } from '../../protocol/json-rpc.ts';

const QUESTIONS = new Set(['elicitation/create', 'sampling/createMessage', 'roots/list']);

export function isQuestion(method: string): boolean {
  return QUESTIONS.has(method);
}

/** The answer to a question that a server sends to everybody, so that nobody can tell whose it is. */
export const BROADCAST: JsonRpcReply = {
  error: {
    code: ErrorCode.internalError,
    message:
      'This server sends its questions to every session and has other clients: the question has no certain recipient',
  },
};

/** The answer to a request that belongs to no call: it must never reach a random caller. */
export function unsolicited(method: string, callRunning: boolean): JsonRpcReply {
  if (method === 'roots/list') return { result: { roots: [] } };
  if (method === 'elicitation/create' && callRunning) return { result: { action: 'cancel' } };
  if (method === 'sampling/createMessage' && callRunning) {
    return { error: { code: -1, message: 'No user is available to review the request' } };
  }
  if (isQuestion(method)) {
    return {
      error: {
        code: ErrorCode.invalidParams,
        message: 'The request does not belong to a client request',
      },
    };
  }
  return { error: { code: ErrorCode.methodNotFound, message: 'Method not found' } };
}
