/** What the operator can prove of a round: who answered which tool, and yes or no. Never what. */
import { sha256 } from '../../lib/crypto.ts';
import { traceOf, type Caller, type EdgeRequest } from '../../model/request.ts';
import type { Rung } from '../../ops/log.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { CallData } from './data.ts';

const WHO_CHARACTERS = 16;

/** How a round was answered. */
interface Answered {
  readonly round: number;
  /** `ahead`: by what the first request of the call brought. */
  readonly rung: Rung | 'ahead';
  readonly waitedMs: number;
  readonly replies: Iterable<JsonRpcReply>;
}

/** Logs the answers of one round. @param request the one that brought them */
export function logAudit(
  { services: { routeId: route, log }, id: call, method, loggedTarget: target }: CallData,
  request: EdgeRequest,
  { round, rung, waitedMs, replies }: Answered,
): void {
  const { caller, clientInfo } = request;
  const name = clientInfo?.['name'];
  const counts = { accepted: 0, declined: 0, cancelled: 0, failed: 0 };
  for (const reply of replies) counts[answerOf(reply)] += 1;
  log.event('audit', {
    ...{ route, call, round, ...traceOf(request) },
    who: whoIs(caller),
    client: typeof name === 'string' ? name : null,
    address: caller.address ?? null,
    ...{ method, target, rung, waitedMs, ...counts },
  });
}

/** Logs that the operator cancelled the call. @param by the address of the operator */
export function logStopped(call: CallData, by: string | null): void {
  const { services, id, method, loggedTarget: target, state, request } = call;
  const who = whoIs(request.caller);
  const of = { route: services.routeId, call: id, round: state.round, who, method, target };
  services.log.event('audit.stopped', { ...of, by });
}

/** Names a caller as the operator sees it: by the start of a digest of its principal. */
export function whoIs({ principal, principalKey }: Caller): string {
  return typeof principal === 'string' ? sha256(principal).slice(0, WHO_CHARACTERS) : principalKey;
}

/** Only an elicitation can be answered with no. */
function answerOf(reply: JsonRpcReply): 'accepted' | 'declined' | 'cancelled' | 'failed' {
  if ('error' in reply) return 'failed';
  const { action } = reply.result;
  return action === 'decline' ? 'declined' : action === 'cancel' ? 'cancelled' : 'accepted';
}
