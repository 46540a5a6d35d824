/** What the upstream's reply to a call comes to. */
import { edgeError } from '../../protocol/translate/error-map.ts';
import { errorFromServer } from '../../protocol/translate/from-server.ts';
import type { JsonObject } from '../../protocol/json/json.ts';
import { ErrorCode, type JsonRpcReply } from '../../protocol/json-rpc.ts';
import { missingCapability } from '../../model/failures.ts';
import type { CallOutcome } from '../../model/outcome.ts';

/**
 * A failure that follows a question which the client could not have been asked is reported as the
 * missing capability; a success shows that the question was not required after all.
 * @param required the capabilities that refused questions would have taken; `null` when none was refused
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
