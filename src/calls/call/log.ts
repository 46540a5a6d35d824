/** What the operator sees of one call: in the log, on the live page, and as a span. No question, no answer and no result is in it. */
import { traceOf, type Caller, type EdgeRequest } from '../../model/request.ts';
import { shownName, type LiveCall } from '../../ops/live/snapshot.ts';
import type { Recovery } from '../../ops/request-events.ts';
import type { InputRequestKind } from '../../protocol/translate/input-request.ts';
import { failureReasonOf, type FailureReason } from '../../model/failures.ts';
import type { UpstreamFailure } from '../../model/upstream-failure.ts';
import type { NotificationLoss } from '../notifications.ts';
import { isAttached, isDetached, isOver, isServed, openRequests } from '../machine/selectors.ts';
import type {
  CallEnd,
  CallEvent,
  CallState,
  Effect,
  RetryEvent,
  StateNamed,
  TimerName,
} from '../machine/states.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { CallData, CallServices } from './data.ts';
import type { WaitingWaiter } from './waiters.ts';

/** A step of the machine that changed the call. */
export interface Move {
  readonly rule: string;
  readonly event: CallEvent;
  readonly from: CallState;
  readonly effects: readonly Effect[];
}

/** Logs a move, and the events of the call's life that it stands for. Notes what later lines and the live page say. */
export function logMove(call: CallData, move: Move): void {
  const { rule, event, from, effects } = move;
  const { log, clock } = call.services;
  const { state: to } = call;
  const waiter = event.type === 'retry' ? call.waiters.find(event.waiter) : undefined;
  const request = waiter?.request ?? call.request;
  // While a call is idle the server works on it.
  const waits = isDetached(to) && to.name !== 'runningDetached';
  const waitedMs = call.history.noteWaiting(waits, () => clock.now());
  if (log.takes('call.moved')) {
    log.event('call.moved', { ...idsOf(call, request), rule, from: from.name, to: to.name });
  }
  if (event.type === 'retry' && waiter !== undefined) logRetry(call, waiter, event, move, waitedMs);
  logQuestions(call, request, effects);
  if (to.name === 'resultReady' && from.name !== 'resultReady') {
    log.event('call.result_ready', { ...idsOf(call, request), round: to.round });
  }
  if (isOver(to) && !isOver(from)) {
    // What the server still has to do with a call that was cancelled is not part of it.
    call.history.overSinceMs = clock.now();
    if (event.type === 'expired' && endName(to.end) === 'timeout') logTimeout(call, event.timer);
  }
  if (to.name === 'done' && from.name !== 'done') logEnd(call, request, to);
}

/** @param waitedMs how long the call had waited for its client; `null` if it did not, or still does */
function logRetry(
  call: CallData,
  { request, replies }: WaitingWaiter,
  event: RetryEvent,
  { from, effects }: Move,
  waitedMs: number | null,
): void {
  const { history, state: to } = call;
  const { recoveredBy } = history;
  // A retry that comes for an outcome answers nothing.
  const answeredMs = from.name === 'resultReady' ? null : waitedMs;
  if (isServed(event, to, effects)) {
    const answered = answeredMs !== null && { waitedMs: answeredMs };
    const ids = idsOf(call, request);
    call.services.log.event('call.resumed', { ...ids, round: to.round, recoveredBy, ...answered });
    request.span?.set({ 'mrtr_gateway.recovered_by': recoveredBy });
    history.continued();
  }
  if (answeredMs !== null) {
    logAudit(call, request, {
      round: from.round,
      recoveredBy,
      waitedMs: answeredMs,
      replies: replies.values(),
    });
  }
}

/** Logs that the client is asked. */
function logQuestions(call: CallData, request: EdgeRequest, effects: readonly Effect[]): void {
  for (const effect of effects) {
    if (effect.do !== 'reply' || effect.reply.type !== 'inputRequired') continue;
    const { round, keys } = effect.reply;
    const ids = idsOf(call, request);
    return call.services.log.event('call.parked', { ...ids, round, questions: keys.length });
  }
}

function logEnd(call: CallData, request: EdgeRequest, { end, round }: StateNamed<'done'>): void {
  const { method, loggedTarget: target, origin, history } = call;
  const reason = reasonOf(end);
  call.services.log.event('call.ended', {
    ...idsOf(call, request),
    method,
    target,
    round,
    end: endName(end),
    errorType: errorTypeOf(end),
    ...(reason === null ? {} : { reason }),
    ...(end.type === 'refused' && end.reason === 'too_many_rounds'
      ? { limit: 'parking.maxRounds' }
      : {}),
    ms: history.overSinceMs - origin.startedAtMs,
    workMs: history.workMs,
  });
}

export function logNotificationLoss(call: CallData, loss: NotificationLoss): void {
  call.services.log.event('notifications.dropped', { ...idsOf(call), ...loss });
}

export function logRefusedQuestion(call: CallData, method: string, reason: string): void {
  call.services.log.event('call.question_refused', { ...idsOf(call), method, reason });
}

export function logAnsweredAhead(
  call: CallData,
  kind: InputRequestKind,
  reply: JsonRpcReply,
): void {
  call.services.log.event('call.answered_ahead', { ...idsOf(call), kind });
  const { round } = call.state;
  logAudit(call, call.request, { round, recoveredBy: 'ahead', waitedMs: 0, replies: [reply] });
}

/** Logs that the server did not end the call in time, or that its stream did not come back. */
function logTimeout(call: CallData, timer: TimerName): void {
  const { callTtlMs, maxDurationMs, parkTtlMs } = call.limits;
  const ended = 'the server did not end the call within';
  const messages: Partial<Record<TimerName, string>> = {
    call: `${ended} ${callTtlMs} ms (parking.callTtl)`,
    park: `the client retried, and the stream could not be resumed within ${parkTtlMs} ms (parking.ttl)`,
  };
  const message = messages[timer] ?? `${ended} ${maxDurationMs} ms (calls.maxDuration)`;
  logUpstreamFailure(call, { code: 'upstream_timeout', message });
}

export function logUpstreamFailure(
  call: CallData,
  { code, message }: Pick<UpstreamFailure, 'code' | 'message'>,
): void {
  const { method } = call;
  call.services.log.event('upstream.failed', { ...idsOf(call), method, code, problem: message });
}

/** @returns the fields that name the call, and the trace of a request of it, in the log */
export function idsOf({ services, id, request: newest }: CallData, request = newest) {
  return { route: services.routeId, call: id, ...traceOf(request) };
}

/** Ends the span if no waiter waits any more. */
export function endWork({ exchange, state }: CallData): void {
  if (isAttached(state)) return;
  const end: CallEnd | null =
    state.name === 'resultReady'
      ? { type: 'outcome', outcome: state.outcome }
      : isOver(state)
        ? state.end
        : null;
  exchange.endWork(state.round, end === null ? null : errorTypeOf(end));
}

/** Says in one word how a call ended, for the log and the metrics. */
function endName(end: CallEnd): string {
  if (end.type === 'outcome') return end.outcome.kind;
  if (end.type !== 'refused') return end.type;
  if (end.reason === 'timeout') return end.reason;
  // No other process can go on with a call that a drain cancelled.
  return end.reason === 'draining' ? 'lost' : end.type;
}

/** Says in one word how a call failed. @returns `null` if it did not */
function errorTypeOf(end: CallEnd): string | null {
  if (end.type === 'outcome') {
    const { outcome } = end;
    if (outcome.kind === 'failed') return String(outcome.failure.error.code);
    return outcome.result['isError'] === true ? 'tool_error' : null;
  }
  return end.type === 'declined' || end.type === 'left' ? null : endName(end);
}

/** Says which of the gateway's own errors the client gets for it. @returns `null` if it gets none */
function reasonOf(end: CallEnd): FailureReason | null {
  switch (end.type) {
    case 'outcome':
      return end.outcome.kind === 'failed' ? failureReasonOf(end.outcome) : null;
    case 'declined':
      return 'elicitation_declined';
    case 'lost':
      return end.isElsewhere ? 'coordination_unavailable' : 'call_lost';
    case 'stopped':
      return 'cancelled_by_operator';
    case 'refused':
      return end.reason === 'timeout' ? 'upstream_timeout' : end.reason;
    case 'cancelled':
    case 'left':
    case 'expired':
      return null;
  }
}

type Detached = StateNamed<'parked' | 'runningDetached' | 'resultReady' | 'suspended'>;

/** Shows a call in this state. No question, no answer and no argument is in it. */
export function liveCallOf(call: CallData, state: Detached): Omit<LiveCall, 'owner'> {
  const { id, services, method, loggedTarget, origin, request, exchange, history } = call;
  const kinds = openRequests(state).flatMap(({ key }) => exchange.questions?.kindOf(key) ?? []);
  return {
    id,
    route: shownName(services.routeId),
    method: shownName(method),
    target: shownName(loggedTarget),
    who: shownName(whoIs(services, request.caller)),
    client: shownName(nameOfClient(request) ?? ''),
    kinds: [...new Set(kinds)],
    state: state.name,
    round: state.round,
    startedAtMs: origin.startedAtMs,
    sinceMs: history.waitsSinceMs ?? call.lastRound?.atMs ?? history.beganAtMs,
    recoveredBy: history.lastRecoveredBy,
    isTask: call.task !== null,
  };
}

/** Returns what the client says that it is. */
function nameOfClient({ clientInfo }: EdgeRequest): string | null {
  const name = clientInfo?.['name'];
  return typeof name === 'string' ? name : null;
}

/** How a round was answered. */
interface Answered {
  readonly round: number;
  /** `ahead`: by what the first request of the call brought. */
  readonly recoveredBy: Recovery | 'ahead';
  readonly waitedMs: number;
  readonly replies: Iterable<JsonRpcReply>;
}

/**
 * Logs the answers of one round for the audit: who answered which tool, and yes or no. Never what.
 * @param request the one that brought them
 */
export function logAudit(
  { services, id: call, method, loggedTarget: target }: CallData,
  request: EdgeRequest,
  { round, recoveredBy, waitedMs, replies }: Answered,
): void {
  const { routeId: route, log } = services;
  const { caller } = request;
  const counts = { accepted: 0, declined: 0, cancelled: 0, failed: 0 };
  for (const reply of replies) counts[answerOf(reply)] += 1;
  log.event('audit', {
    ...{ route, call, round, ...traceOf(request) },
    who: whoIs(services, caller),
    client: nameOfClient(request),
    address: caller.address ?? null,
    ...{ method, target, recoveredBy, waitedMs, ...counts },
  });
}

/** Logs that the operator cancelled the call. @param by the address of the operator */
export function logStopped(call: CallData, by: string | null): void {
  const { services, id, method, loggedTarget: target, state, request } = call;
  const who = whoIs(services, request.caller);
  const of = { route: services.routeId, call: id, round: state.round, who, method, target };
  services.log.event('audit.stopped', { ...of, by });
}

/** Names a caller as the operator sees it: by the start of a keyed digest of its principal. */
function whoIs({ nameOf }: CallServices, { principal, principalKey }: Caller): string {
  return typeof principal === 'string' ? nameOf(principal) : principalKey;
}

/** Only an elicitation can be answered with no. */
function answerOf(reply: JsonRpcReply): 'accepted' | 'declined' | 'cancelled' | 'failed' {
  if ('error' in reply) return 'failed';
  const { action } = reply.result;
  return action === 'decline' ? 'declined' : action === 'cancel' ? 'cancelled' : 'accepted';
}
