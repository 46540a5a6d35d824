/**
 * The exchange of a call with its server: the leased session and the request in flight. What is still being
 * opened when the call is over is freed once it is there.
 */
import { inBackground } from '../../lib/background.ts';
import { timeLeftMs } from '../../lib/clock.ts';
import type { ServerRequestId } from '../../protocol/ids.ts';
import { objectMember, type JsonObject } from '../../protocol/json.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import { closeOutReply } from '../../protocol/translate/input-request.ts';
import type { ResumePoint } from '../../seal/pointer.ts';
import { asUpstreamFailure, beforeRequest } from '../../model/upstream-failure.ts';
import type { EdgeRequest } from '../../model/request.ts';
import { withContext } from '../../ops/tracing.ts';
import { sessionOwnerOf } from '../../sessions/session-owner.ts';
import type { Lease, LeaseRequest } from '../../sessions/lease.ts';
import type { CallExchange, ExchangeListener } from '../../upstream/session/call-exchange.ts';
import type { Session } from '../../upstream/session/session.ts';
import { isOver } from '../machine/selectors.ts';
import type { OpenRequest } from '../machine/states.ts';
import type { CallData } from './data.ts';
import type { Questions } from './questions.ts';
import { beginWork } from './log.ts';
import { upstreamParams } from '../../protocol/translate/cleaning.ts';
import { TaskCall } from '../../upstream/session/tasks/task-call.ts';

/** Hears of one exchange of a call, and ignores what comes after that exchange. */
export interface CallListener extends ExchangeListener {
  /** Whether the exchange is still that of the call. */
  readonly isCurrent: boolean;
  /** The session of earlier calls is gone, with what the server kept in it. */
  sessionReplaced(): void;
}

export function sessionOf({ lease }: CallData): Session | null {
  return lease?.session ?? null;
}

/** @returns where another replica could resume the stream now, or `null` if none could */
export function resumePointOf({ exchange, resumeFrom, lease }: CallData): ResumePoint | null {
  if (exchange === null) return resumeFrom;
  const point = exchange.resumable();
  const home = lease?.home === undefined ? {} : { home: lease.home };
  return point === null ? null : { ...point, ...home, upstreamId: exchange.id };
}

/**
 * Sends the request in the session of the call, or in one from the pool. Never throws.
 * @param freshSession whether a session that was used before must not be taken
 */
export async function sendRequest(
  call: CallData,
  freshSession: boolean,
  listener: CallListener,
): Promise<void> {
  const { request } = call;
  const { logLevel, caller } = request;
  try {
    if (call.lease === null) {
      const owner = sessionOwnerOf(request);
      const lent = call.services.pool.lease(owner, leaseRequestOf(call, listener, freshSession));
      call.lease = lent instanceof Promise ? await lent : lent;
    }
    if (!listener.isCurrent || isOver(call.state)) return freeExchange(call, true);
    const { session, isReplacement } = call.lease;
    if (isReplacement) listener.sessionReplaced();
    call.serverInfo = serverInfoOf(session);
    if (logLevel !== null) {
      await session.ensureLogLevel(logLevel, caller.headers);
      if (!listener.isCurrent || isOver(call.state)) return freeExchange(call, true);
    }
    // A tool of a server that runs tool calls as tasks may have to be called as one.
    if (call.method !== 'tools/call' || !session.initializeResult.runsToolTasks) {
      call.exchange = startExchange(call, request, call.lease, listener);
      return;
    }
    const demandsTask = await call.services.demandsTask(request);
    if (!listener.isCurrent || isOver(call.state)) return freeExchange(call, true);
    call.exchange = startToolCall(call, request, call.lease, demandsTask, listener);
  } catch (error) {
    // What fails in a handshake is not a call.
    if (listener.isCurrent) listener.notTaken(beforeRequest(asUpstreamFailure(error, true)));
  }
}

/**
 * Resumes the exchange of another replica. Never throws.
 * @param open the questions that the server still waits for
 */
export async function resumeExchange(
  call: CallData,
  resume: ResumePoint,
  open: readonly OpenRequest[],
  listener: CallListener,
): Promise<void> {
  call.resumeFrom = resume;
  const ids = open.flatMap(({ id }) => (id === null ? [] : [id]));
  try {
    call.lease = await call.services.pool.adopt(
      sessionOwnerOf(call.request),
      resume,
      leaseRequestOf(call, listener, false),
    );
    if (!listener.isCurrent || isOver(call.state)) return leaveExchange(call);
    const { session } = call.lease;
    call.serverInfo = serverInfoOf(session);
    call.exchange = continueExchange(call, session, resume, ids, listener);
  } catch (error) {
    if (listener.isCurrent) listener.lost(asUpstreamFailure(error, true));
  }
}

/** Answers a question of the server if it can be reached. */
export function answerQuietly(call: CallData, id: ServerRequestId, reply: JsonRpcReply): void {
  const { headers } = call.request.caller;
  call.exchange?.respond(id, reply, headers).catch(() => {});
}

/** Answers what the server left open in a call that it has ended. The session is given back after that. */
export function cancelOpenQuestions(call: CallData, open: readonly OpenRequest[]): void {
  // The call forgets its questions when it is over.
  const { exchange, questions } = call;
  const { headers } = call.request.caller;
  const closing = call.closing ?? Promise.resolve(true);
  call.closing = closing.then(
    (isTaken) => isTaken && answerAll(exchange, closeOutReplies(questions, open), headers),
  );
}

/** Cancels the request for a reason of the gateway. What the server still does is not waited for. */
export function stopExchange(call: CallData, reason: string): void {
  if (call.exchange !== null) call.closing = tellCancelled(call, call.exchange, reason);
  call.isTainted = true;
}

/**
 * Cancels the request for the client or the operator, unless another replica has continued the call. Answers the open
 * questions once the server took the cancellation: a tool that goes on without an answer must find that it
 * was cancelled.
 */
export function cancelExchange(call: CallData, open: readonly OpenRequest[]): void {
  // Before the request is sent, nothing has to be cancelled, and no end will be reported.
  if (call.exchange === null) call.dispatch({ type: 'ended' });
  else call.closing = cancel(call, call.exchange, open);
}

/** Frees what is here. The server keeps the session and the call. */
export function leaveExchange(call: CallData): void {
  detachExchange(call)?.leave();
}

/**
 * Frees the exchange and gives the session back.
 * @param isClean whether the server had finished with the exchange
 */
export function freeExchange(call: CallData, isClean: boolean): void {
  const isReusable = isClean && !call.isTainted;
  const lease = detachExchange(call);
  if (call.closing === null) lease?.giveBack(isReusable);
  else inBackground(call.closing.then((isTaken) => lease?.giveBack(isReusable && isTaken)));
}

async function cancel(
  call: CallData,
  exchange: CallExchange,
  open: readonly OpenRequest[],
): Promise<boolean> {
  const { questions } = call;
  const { headers } = call.request.caller;
  if (await call.services.registry.isOurs(call.id)) {
    const { state } = call;
    const isStopped = isOver(state) && state.end.type === 'stopped';
    const who = isStopped ? 'operator' : 'client';
    const isTaken = await tellCancelled(call, exchange, `the ${who} cancelled the call`);
    return isTaken && answerAll(exchange, closeOutReplies(questions, open), headers);
  }
  call.isTainted = true;
  leaveExchange(call);
  call.dispatch({ type: 'ended' });
  return false;
}

/** @returns whether the server took the cancellation within the grace */
function tellCancelled(call: CallData, exchange: CallExchange, reason: string): Promise<boolean> {
  const { clock, limits } = call.services;
  const { promise: expiry, resolve } = Promise.withResolvers<boolean>();
  const timer = clock.setTimer(limits.cancelGraceMs, () => resolve(false));
  const isTaken = exchange.cancel(reason, call.request.caller.headers);
  return Promise.race([isTaken, expiry]).finally(() => timer.cancel());
}

/** @returns whether the server took every one of these answers */
async function answerAll(
  exchange: CallExchange | null,
  replies: readonly (readonly [ServerRequestId, JsonRpcReply])[],
  headers: Readonly<Record<string, string>>,
): Promise<boolean> {
  const sent = replies.map(async ([id, reply]) => exchange?.respond(id, reply, headers));
  const settled = await Promise.allSettled(sent);
  return settled.every(({ status }) => status === 'fulfilled');
}

/** A question that the server has withdrawn gets no answer (cancellation, "Behavior Requirements"). */
function closeOutReplies(questions: Questions | null, open: readonly OpenRequest[]) {
  const replies: [ServerRequestId, JsonRpcReply][] = [];
  for (const { key, id } of open) {
    if (questions === null || id === null || questions.isWithdrawn(id)) continue;
    replies.push([id, closeOutReply(questions.kindOf(key))]);
  }
  return replies;
}

function detachExchange(call: CallData): Lease | null {
  const { exchange, lease } = call;
  call.generation += 1;
  call.exchange = null;
  call.resumeFrom = null;
  call.lease = null;
  exchange?.abandon();
  return lease;
}

function leaseRequestOf(call: CallData, listener: CallListener, fresh: boolean): LeaseRequest {
  return {
    target: `${call.method} ${call.loggedTarget}`,
    wantsLog: call.request.logLevel !== null,
    fresh,
    isWanted: () => listener.isCurrent && !isOver(call.state),
  };
}

function serverInfoOf(session: Session): JsonObject | null {
  return objectMember(session.initializeResult.raw, 'serverInfo') ?? null;
}

/**
 * Sends the request of a call.
 * @param request with its params, which the call drops if its client is told to retry before the request is sent
 */
function startExchange(
  call: CallData,
  request: EdgeRequest,
  { session, isSilent }: Lease,
  listener: ExchangeListener,
): CallExchange {
  const { headers, params } = upstreamRequestOf(call, request);
  return session.call(request.method, params, listener, headers, isSilent);
}

/**
 * Sends a tool call to a server that may run it as a task.
 * @param demandsTask whether the tool is known to demand one
 */
function startToolCall(
  call: CallData,
  request: EdgeRequest,
  { session, isSilent }: Lease,
  demandsTask: boolean,
  listener: ExchangeListener,
): CallExchange {
  const { headers, params } = upstreamRequestOf(call, request);
  const { clock } = call.services;
  const ttlMs = Math.ceil(timeLeftMs(clock, call.origin.startedAtMs, call.limits.callTtlMs));
  const toolCall = { params, ttlMs, demandsTask, isSilent };
  const taskCall = TaskCall.start({ session, clock, listener }, toolCall, headers);
  taskCall.accepted.catch((error: unknown) => listener.notTaken(asUpstreamFailure(error, true)));
  return taskCall;
}

/** @returns the headers of the request, and what makes its params for a progress token */
function upstreamRequestOf(call: CallData, { params, forwardedMeta }: EdgeRequest) {
  const span = beginWork(call);
  const headers = withContext(call.request.caller.headers, span);
  const meta = withContext(forwardedMeta, span);
  return {
    headers,
    params: (progressToken: string | number) =>
      upstreamParams(params, { progressToken, forwardedMeta: meta }),
  };
}

/** Continues the exchange of another replica. @param open the questions that the server still waits for */
function continueExchange(
  call: CallData,
  session: Session,
  resume: ResumePoint,
  open: readonly ServerRequestId[],
  listener: ExchangeListener,
): CallExchange {
  const headers = withContext(call.request.caller.headers, beginWork(call));
  if (resume.task === null) {
    return session.resumeCall(resume.upstreamId, resume, listener, headers, open);
  }
  const { clock } = call.services;
  return TaskCall.resume({ session, clock, listener }, resume, headers, open);
}
