/** The end of a call: what the reply of the server comes to, and what the client gets. */
import {
  CALL_CANCELLED,
  callLost,
  COORDINATION_UNAVAILABLE,
  ELICITATION_DECLINED,
  failedCallReply,
  INVALID_STATE,
  missingCapability,
  refusal,
} from '../../model/failures.ts';
import type { CallOutcome } from '../../model/outcome.ts';
import type { CallReply } from '../../model/request.ts';
import type { JsonObject } from '../../protocol/json/json.ts';
import { ErrorCode, type JsonRpcReply } from '../../protocol/json-rpc.ts';
import { completeResult, type ResultContext } from '../../protocol/translate/edge-result.ts';
import { edgeError } from '../../protocol/translate/error-map.ts';
import { errorFromServer } from '../../protocol/translate/from-server.ts';
import type { CallEnd } from '../machine/states.ts';

/**
 * Reads the reply of the server to a call. A failure that follows a refused question is reported as the
 * missing capability. A success shows that the question was not required.
 * @param required the capabilities that refused questions would have needed; `null` if none was refused
 */
export function outcomeOfReply(
  method: string,
  reply: JsonRpcReply,
  required: JsonObject | null,
): CallOutcome {
  if ('result' in reply) {
    if (reply.result['isError'] === true && required !== null) {
      return { kind: 'failed', failure: missingCapability(required) };
    }
    return { kind: 'complete', result: reply.result };
  }
  if (required !== null) {
    return { kind: 'failed', failure: missingCapability(required, errorFromServer(reply.error)) };
  }
  const failure = edgeError(method, reply.error);
  // The one error of the server that is replaced by one of ours (-32042, URL mode).
  const isOurs = failure.error.code === ErrorCode.missingRequiredClientCapability;
  return {
    kind: 'failed',
    failure: isOurs ? missingCapability({ elicitation: { url: {} } }) : failure,
  };
}

/**
 * Builds the reply for the end of a call.
 * @param hasBegun whether the server is known to have begun the call
 * @param context what the gateway adds to a result of the server
 */
export function endReply(
  method: string,
  end: CallEnd,
  hasBegun: boolean,
  context: ResultContext,
): CallReply {
  switch (end.type) {
    case 'outcome':
      return end.outcome.kind === 'failed'
        ? { kind: 'failed', failure: end.outcome.failure }
        : { kind: 'result', result: completeResult(method, end.outcome.result, context) };
    case 'declined':
      return failedCallReply(method, ELICITATION_DECLINED, context.serverInfo);
    case 'lost':
      return failedCallReply(method, callLost(hasBegun), context.serverInfo);
    case 'cancelled':
      return { kind: 'failed', failure: CALL_CANCELLED };
    case 'left':
      return { kind: 'failed', failure: COORDINATION_UNAVAILABLE };
    case 'expired':
      return { kind: 'failed', failure: INVALID_STATE };
    case 'refused':
      return { kind: 'failed', failure: refusal(end.reason, hasBegun) };
  }
}
