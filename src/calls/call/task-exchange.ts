/** Which exchange a call gets: an ordinary request, or a task of its server. */
import type { ServerRequestId } from '../../protocol/ids.ts';
import { runsToolTasks } from '../../protocol/task.ts';
import { upstreamParams } from '../../protocol/translate/upstream-params.ts';
import type { ResumePoint } from '../../seal/pointer.ts';
import type { Exchange, ExchangeListener } from '../../upstream/session/exchange.ts';
import type { Session } from '../../upstream/session/session.ts';
import { TaskCall } from '../../upstream/session/task-call.ts';
import type { CallData } from './data.ts';

/** True if the server runs tool calls as tasks, so that this one may have to be a task. */
export function mayRunAsTask({ method }: CallData, { initializeResult }: Session): boolean {
  return method === 'tools/call' && runsToolTasks(initializeResult.capabilities);
}

/** Sends the request of a call. @param asTask whether the tool is known to demand a task */
export function startExchange(
  call: CallData,
  session: Session,
  asTask: boolean,
  listener: ExchangeListener,
): Exchange {
  const { method, params, forwardedMeta, caller } = call.request;
  const paramsWith = (progressToken: string | number) =>
    upstreamParams(params, { progressToken, forwardedMeta });
  if (!mayRunAsTask(call, session)) {
    return session.call(method, paramsWith, listener, caller.headers);
  }
  const { clock, limits } = call.route;
  const ttlMs = Math.max(0, Math.ceil(call.origin.startedAtMs + limits.callTtlMs - clock.now()));
  const toolCall = { params: paramsWith, ttlMs, demandsTask: asTask };
  return TaskCall.start({ session, clock, listener }, toolCall, caller.headers);
}

/** Continues the exchange of another replica. @param open the questions that the server still waits for */
export function continueExchange(
  call: CallData,
  session: Session,
  resume: ResumePoint,
  open: readonly ServerRequestId[],
  listener: ExchangeListener,
): Exchange {
  const { headers } = call.request.caller;
  if (resume.task === null) {
    return session.resumeCall(resume.upstreamId, resume, listener, headers, open);
  }
  const { clock } = call.route;
  return TaskCall.resume({ session, clock, listener }, resume, headers, open);
}
