/** What a client is answered at the end of its call. */
import { completeResult, type ResultContext } from '../../protocol/translate/edge-result.ts';
import type { CallEnd } from '../machine/states.ts';
import {
  failedCallReply,
  CALL_CANCELLED,
  callLost,
  COORDINATION_UNAVAILABLE,
  ELICITATION_DECLINED,
  INVALID_STATE,
  refusal,
} from '../../model/failures.ts';
import type { CallReply } from '../../model/request.ts';

/**
 * @param begun whether the server has begun the call, as far as is known
 * @param context what belongs to a result of the server, where the end is one
 */
export function endAnswer(
  method: string,
  end: CallEnd,
  begun: boolean,
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
      return failedCallReply(method, callLost(begun), context.serverInfo);
    case 'cancelled':
      return { kind: 'failed', failure: CALL_CANCELLED };
    case 'left':
      return { kind: 'failed', failure: COORDINATION_UNAVAILABLE };
    case 'expired':
      return { kind: 'failed', failure: INVALID_STATE };
    case 'refused':
      return { kind: 'failed', failure: refusal(end.reason, begun) };
  }
}
