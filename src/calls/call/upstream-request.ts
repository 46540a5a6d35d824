/** How a call is put to its server: as a request of the session, as a tool call that can become a task, or where another replica left it. */
import { timeLeftMs, type Clock } from '../../lib/clock.ts';
import { asUpstreamFailure } from '../../model/upstream-failure.ts';
import type { HomeOwnership } from '../../model/ownership.ts';
import type { EdgeRequest } from '../../model/request.ts';
import { withContext, type Attributes, type Span } from '../../ops/tracing.ts';
import type { CallId, ServerRequestId } from '../../protocol/ids.ts';
import { upstreamParams } from '../../protocol/translate/cleaning.ts';
import type { ResumePoint } from '../../seal/pointer.ts';
import type { Lease } from '../../sessions/lease.ts';
import type { SessionPool } from '../../sessions/session-pool.ts';
import type { CallExchange, ExchangeListener } from '../../upstream/session/call-exchange.ts';
import type { Session } from '../../upstream/session/session.ts';
import { TaskCall } from '../../upstream/session/tasks/task-call.ts';
import type { CallEvent, CallLimits, CallState } from '../machine/states.ts';

/** What the server's side reads of its call. */
export interface ExchangingCall {
  readonly id: CallId;
  readonly method: string;
  readonly loggedTarget: string;
  readonly keyNames: readonly string[];
  readonly origin: {
    readonly startedAtMs: number;
    readonly isContinued: boolean;
    readonly mayReplay: boolean;
  };
  readonly limits: Pick<CallLimits, 'callTtlMs'>;
  /** The newest request of the client, whose credentials count. */
  readonly request: EdgeRequest;
  readonly state: CallState;
  /** Whether another process can resume the call with its last pointer. */
  readonly isResumable: boolean;
  readonly dispatch: (event: CallEvent) => void;
  readonly services: {
    readonly pool: SessionPool;
    readonly ownership: HomeOwnership | null;
    readonly limits: Pick<CallLimits, 'cancelGraceMs'>;
    readonly peer: Attributes;
    readonly demandsTask: (request: EdgeRequest) => Promise<boolean>;
    readonly clock: Clock;
  };
}

/**
 * Sends the request of a call.
 * @param request with its params, which the call drops if its client is told to retry before the request is sent
 * @param demandsTask whether the server demands that it is a task; `null` if the server runs no tool calls as tasks
 * @param work the span of what the server does; `null` without traces
 */
export function sendRequest(
  { request: newest, origin, limits, services: { clock } }: ExchangingCall,
  { method, params: sent, forwardedMeta }: EdgeRequest,
  { session, isSilent }: Lease,
  demandsTask: boolean | null,
  work: Span | null,
  listener: ExchangeListener,
): CallExchange {
  const headers = withContext(newest.caller.headers, work);
  const meta = withContext(forwardedMeta, work);
  const params = (progressToken: string | number) =>
    upstreamParams(sent, { progressToken, forwardedMeta: meta });
  if (demandsTask === null) return session.call(method, params, listener, headers, isSilent);
  const ttlMs = Math.ceil(timeLeftMs(clock, origin.startedAtMs, limits.callTtlMs));
  const toolCall = { params, ttlMs, demandsTask, isSilent };
  const taskCall = TaskCall.start({ session, clock, listener }, toolCall, headers);
  taskCall.accepted.catch((error: unknown) => listener.notTaken(asUpstreamFailure(error, true)));
  return taskCall;
}

/** Continues the exchange of another replica. @param open the questions that the server still waits for */
export function resumeRequest(
  { request, services: { clock } }: ExchangingCall,
  from: ResumePoint,
  session: Session,
  open: readonly ServerRequestId[],
  work: Span | null,
  listener: ExchangeListener,
): CallExchange {
  const headers = withContext(request.caller.headers, work);
  return from.task === null
    ? session.resumeCall(from.upstreamId, from, listener, headers, open)
    : TaskCall.resume({ session, clock, listener }, from, headers, open);
}
