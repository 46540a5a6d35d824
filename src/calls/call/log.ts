/** What the operator sees of one call. No question, no answer and no result is in it. */
import { traceOf } from '../../model/request.ts';
import type { OfRequest } from '../../ops/log.ts';
import type { InputRequestKind } from '../../protocol/translate/input-request.ts';
import type { UpstreamFailure } from '../../upstream/failure.ts';
import type { NotificationLoss } from '../notifications.ts';
import { isOver, isServed } from '../machine/selectors.ts';
import type { CallEvent, CallState, Effect, TimerName } from '../machine/states.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import { logAudit } from './audit.ts';
import { legOf, type CallData } from './data.ts';
import { endName, errorTypeOf } from './work.ts';

/** Logs a move, and the events of the call's life that it stands for. */
export function logMove(
  call: CallData,
  rule: string,
  event: CallEvent,
  from: CallState,
  effects: readonly Effect[],
): void {
  const { log } = call.services;
  const leg = event.type === 'retry' ? legOf(call, event.leg) : undefined;
  const request = leg?.request ?? call.request;
  const of = () => idsOf(call, request);
  const { state: to, method, loggedTarget: target } = call;
  const waitedMs = noteWaiting(call);
  const { rung } = call;
  // A retry that comes for an outcome answers nothing.
  const answeredMs = from.name === 'settled' || leg === undefined ? null : waitedMs;
  if (log.takes('call.moved')) {
    log.event('call.moved', { ...of(), rule, from: from.name, to: to.name });
  }
  if (event.type === 'retry' && leg !== undefined && isServed(event, to, effects)) {
    const answered = answeredMs !== null && { waitedMs: answeredMs };
    log.event('call.resumed', { ...of(), round: to.round, rung, ...answered });
    request.span?.set({ 'mrtr_gateway.rung': rung });
    call.lastRung = rung;
    call.rung = 'here';
  }
  const asked = effects.find(
    (effect) => effect.do === 'reply' && effect.reply.type === 'inputRequired',
  );
  if (asked?.do === 'reply' && asked.reply.type === 'inputRequired') {
    const { round, keys } = asked.reply;
    log.event('call.parked', { ...of(), round, questions: keys.length });
  }
  if (answeredMs !== null && leg !== undefined) {
    const { round } = from;
    const replies = leg.replies.values();
    logAudit(call, request, { round, rung, waitedMs: answeredMs, replies });
  }
  if (to.name === 'settled' && from.name !== 'settled') {
    log.event('call.settled', { ...of(), round: to.round });
  }
  if (isOver(to) && !isOver(from)) {
    // What the server still has to do with a call that was cancelled is no part of it.
    call.overSinceMs = call.services.clock.now();
    if (event.type === 'expired' && endName(to.end) === 'timeout') logTimeout(call, event.timer);
  }
  if (to.name === 'done' && from.name !== 'done') {
    const end = endName(to.end);
    const ms = call.overSinceMs - call.origin.startedAtMs;
    const workMs = call.overSinceMs - call.beganAtMs - call.waitedMs;
    const errorType = errorTypeOf(to.end);
    log.event('call.ended', {
      ...of(),
      method,
      target,
      round: to.round,
      end,
      errorType,
      ms,
      workMs,
    });
  }
}

const WAITS: ReadonlySet<CallState['name']> = new Set(['parked', 'suspended', 'settled']);

/** Notes whether the call waits for its client now. @returns how long it has waited, if that is over; in ms */
function noteWaiting(call: CallData): number | null {
  const since = call.waitsSinceMs;
  if (WAITS.has(call.state.name) === (since !== null)) return null;
  const now = call.services.clock.now();
  call.waitsSinceMs = since === null ? now : null;
  if (since === null) return null;
  call.waitedMs += now - Math.max(since, call.beganAtMs);
  return now - since;
}

export function logNotificationLoss(call: CallData, loss: NotificationLoss): void {
  call.services.log.event('call.thinned', { ...idsOf(call), ...loss });
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
  logAudit(call, call.request, { round, rung: 'ahead', waitedMs: 0, replies: [reply] });
}

/** Logs that the server did not end the call in time. */
function logTimeout(call: CallData, timer: TimerName): void {
  const { callTtlMs, maxDurationMs } = call.limits;
  const limit =
    timer === 'call'
      ? `${callTtlMs} ms (parking.callTtl)`
      : `${maxDurationMs} ms (calls.maxDuration)`;
  const message = `the server did not end the call within ${limit}`;
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
export function idsOf({ services, id, request: newest }: CallData, request = newest): CallIds {
  return { route: services.routeId, call: id, ...traceOf(request) };
}

interface CallIds extends OfRequest {
  readonly route: string;
  readonly call: string;
}
