/** How a call begins in this process (started, reattached or replayed), and how the process releases it. */
import { timeLeftMs } from '../../lib/clock.ts';
import { CALL_CANCELLED, failedCallReply } from '../../model/failures.ts';
import { ELICITATION_DECLINED, illFormedAnswer } from '../../model/question-failures.ts';
import type { CallReply, EdgeRequest, Waiter } from '../../model/request.ts';
import { answersDigest } from '../../seal/digests.ts';
import type { Continuation, ResumePoint } from '../../seal/pointer.ts';
import { isKnownRetry, isWorthReplaying } from '../machine/selectors.ts';
import type { CallLimits, WaiterId } from '../machine/states.ts';
import { adopt, begin } from '../machine/steps.ts';
import { attachWaiter, giveToTask, noticeClosed, retryCall } from './client.ts';
import type { CallData, CallOrigin, CallServices, Retry } from './data.ts';
import type { Questions } from './questions.ts';
import { limitsFor } from './limits.ts';
import { logAudit, idsOf } from './log.ts';
import { createCall } from './machine-runner.ts';
import { failed } from './replies.ts';
import { launch, reattach } from './server.ts';

/** A continuation with which the stream of the call can be resumed. */
export type Resumable = Continuation & { readonly resume: ResumePoint };

const FIRST_WAITER: WaiterId = 1;
/** Of the answers that came with a first request, as JSON. They are kept while the call lasts. */
const MAX_AHEAD_CHARACTERS = 64 * 1024;

/** Starts a call for its first waiter. @returns the reply to that waiter */
export function startCall(
  services: CallServices,
  origin: Pick<CallOrigin, 'id' | 'mayReplay' | 'outcomeKey'>,
  request: EdgeRequest,
  waiter: Waiter,
): Promise<CallReply> {
  const startedAtMs = services.clock.now();
  const limits = limitsFor(services, request, startedAtMs);
  const { state, effects } = begin(FIRST_WAITER, limits);
  const begun = {
    ...origin,
    startedAtMs,
    isContinued: false,
    firstTrace: request.span?.context.traceparent ?? null,
  };
  const call = createCall(services, begun, request, limits, state);
  const { reply } = attachWaiter(call, request, waiter);
  call.ahead = answersAhead(request);
  call.machine.begin(effects);
  launch(call, false);
  if (services.log.takes('call.started')) {
    const { method, loggedTarget: target } = call;
    services.log.event('call.started', { ...idsOf(call), method, target });
  }
  noticeClosed(call, FIRST_WAITER);
  return reply;
}

/** Returns the answers that came with a first request, if they may be used. Too many are not kept. */
function answersAhead({ inputResponses }: EdgeRequest) {
  if (inputResponses === null) return null;
  return JSON.stringify(inputResponses).length > MAX_AHEAD_CHARACTERS ? null : inputResponses;
}

/** Reattaches to a call whose owner is gone, for a retry. @returns the call, and the reply to the retry */
export function reattachCall(
  services: CallServices,
  retry: Retry,
  continuation: Resumable,
): { readonly call: CallData; readonly reply: Promise<CallReply> } {
  const { pointer } = retry;
  const open = continuation.questions.map(({ key, id }) => ({ key, id }));
  const limits = limitsOfContinued(services, retry, continuation);
  const { state, effects } = adopt(
    { round: pointer.round, stateOnly: pointer.stateOnly ?? 0 },
    open,
    limitsLeft(services, limits, continuation),
  );
  const call = createCall(services, originOf(retry, continuation), retry.request, limits, state);
  restore(call, continuation, continuation.keys.asked);
  call.hasPointer = true;
  call.isResumable = services.reattach;
  call.history.recoveredBy = 'reattach';
  if (state.name === 'parked') call.history.waitedBefore(pointer.issuedAtSeconds * 1000);
  call.machine.begin(effects);
  const reply = retryCall(call, retry);
  reattach(call, continuation.resume, open);
  return { call, reply };
}

/**
 * Replays a lost call for a retry: what the server asks again is answered with the answers that it got
 * before, and with those of the retry. Several retries can wait for one lost call: the first replays it.
 * @returns the reply to the retry
 */
export function replayCall(
  services: CallServices,
  retry: Retry,
  continuation: Continuation,
): Promise<CallReply> {
  const { registry } = services;
  const { pointer, request, waiter } = retry;
  const { callId: id, round } = pointer;
  const lost = registry.find(id);
  if (lost !== undefined && !isWorthReplaying(lost.state)) return retryCall(lost, retry);
  // The client may have left while the owner was looked for. The lost call waits for its next retry.
  if (waiter.closed.aborted) return Promise.resolve(failed(CALL_CANCELLED));
  const refusal = registry.refusal(request.caller.principalKey, true);
  if (refusal !== null) return Promise.resolve(failed(refusal));
  const { inputResponses, inputErrors } = request;
  const consumed = { round, answersDigest: answersDigest(inputResponses, inputErrors) };
  const limits = limitsOfContinued(services, retry, continuation);
  const { state, effects } = begin(
    FIRST_WAITER,
    limitsLeft(services, limits, continuation),
    consumed,
    pointer.stateOnly,
  );
  const call = createCall(services, originOf(retry, continuation), request, limits, state);
  // The server asks from the beginning.
  const questions = restore(call, continuation, 0);
  const read = questions.read(continuation.questions, inputResponses, inputErrors);
  if (read.type === 'ill-formed') {
    return Promise.resolve(failed(illFormedAnswer(read.key, read.problem)));
  }
  if (read.declined) {
    return Promise.resolve(failedCallReply(request.method, ELICITATION_DECLINED, null));
  }
  for (const [key, reply] of read.replies) {
    questions.given.add({ question: questions.digestOf(key), reply });
  }
  questions.given.repeatAll();
  const { exchange } = call;
  exchange.roots = questions.rootsIn(read.replies);
  // It was to be made with the roots of its client. Nothing comes before its first round.
  const isUnmade = exchange.roots !== null && round === 1;
  if (isUnmade) exchange.hasBegun = false;
  // Only now, since it starts a timer.
  if (request.task !== undefined) giveToTask(call, request.task);
  call.hasPointer = true;
  call.history.lastRecoveredBy = 'replay';
  services.log.event('call.resumed', { ...idsOf(call), round, recoveredBy: 'replay' });
  request.span?.set({ 'mrtr_gateway.recovered_by': 'replay' });
  const waitedMs = Math.max(0, services.clock.now() - pointer.issuedAtSeconds * 1000);
  logAudit(call, request, {
    round,
    recoveredBy: 'replay',
    waitedMs,
    replies: read.replies.values(),
  });
  const { reply } = attachWaiter(call, request, waiter);
  call.machine.begin(effects);
  // The lost call has lost its place in the registry, and what it still holds is freed.
  if (lost !== undefined) dropCall(lost);
  launch(call, !isUnmade);
  noticeClosed(call, FIRST_WAITER);
  return reply;
}

/** The call is lost, and the retry is one that it waits for or has had. */
export function isRetryOfLostCall(call: CallData, { pointer, request }: Retry): boolean {
  if (!isWorthReplaying(call.state)) return false;
  const { inputResponses, inputErrors } = request;
  return isKnownRetry(call.state, pointer.round, answersDigest(inputResponses, inputErrors));
}

/** Forgets the call now, and frees what it holds. */
export function dropCall(call: CallData): void {
  call.dispatch({ type: 'evict' });
  if (call.state.name === 'done') call.machine.forget();
}

/** Ends a call as well as possible, since the process stops. */
export function drainCall(call: CallData): void {
  call.dispatch({ type: 'drain', outlivesProcess: outlivesProcess(call) });
}

/** @returns true if another process could continue the call: client, store or server has what it needs */
export function outlivesProcess(call: CallData): boolean {
  const { services, state } = call;
  if (!services.othersCanOpenPointers) return false;
  if (state.name === 'resultReady') return call.isOutcomeStored;
  if (state.name === 'suspended') return true;
  // The client of a parked call has a pointer already, which may lack what a reader of the stream needs.
  if (state.name === 'parked' || state.name === 'runningDetached') return call.isResumable;
  return services.reattach && call.exchange.resumePoint() !== null;
}

function originOf(
  { pointer: { callId: id, outcomeKey, firstTrace } }: Retry,
  { startedAtMs, replay }: Continuation,
): CallOrigin {
  // Whether it may be replayed was decided when the call began, and the pointer says what was decided.
  return {
    id,
    startedAtMs,
    mayReplay: replay !== null,
    isContinued: true,
    outcomeKey: outcomeKey ?? null,
    firstTrace: firstTrace ?? null,
  };
}

/**
 * Restores the questions that the client has, and the answers that the server got.
 * @param asked how many questions the server has asked so far: the operator's names for the next ones follow these
 */
function restore(
  call: CallData,
  { questions, keys, replay }: Continuation,
  asked: number,
): Questions {
  const restored = call.exchange.asking();
  restored.restore(questions, { ...keys, asked });
  restored.given.add(...(replay ?? []));
  return restored;
}

/**
 * @returns the limits of a call that goes on, from its beginning: the record keeps these. It can have begun with others, and
 *   was to live at least as long as its pointer
 */
function limitsOfContinued(
  services: CallServices,
  { request, pointer }: Retry,
  { startedAtMs }: Continuation,
): CallLimits {
  const limits = limitsFor(services, request, startedAtMs);
  const promisedMs = Math.floor(pointer.expiresAtSeconds * 1000 - startedAtMs);
  return { ...limits, callTtlMs: Math.max(limits.callTtlMs, promisedMs) };
}

/** @returns the limits of a call whose timers start now, when part of its time is over. Its life ends in whole seconds: see `lifeOf` */
function limitsLeft(
  { clock }: CallServices,
  limits: CallLimits,
  { startedAtMs }: Continuation,
): CallLimits {
  const leftMs = timeLeftMs(clock, startedAtMs, limits.callTtlMs);
  return { ...limits, callTtlMs: Math.ceil(leftMs / 1_000) * 1_000 };
}

export function isResumable(continuation: Continuation): continuation is Resumable {
  return continuation.resume !== null && !isSuspended(continuation);
}

/**
 * The server has no call: it ended it with its questions (error -32042), or was to get it after them. It is made by whoever has
 * the answers, and not by the rules of the operator for replays.
 */
export function isSuspended({ questions }: Continuation): boolean {
  return questions.some(({ id }) => id === null);
}
