/**
 * What each waiter is told, as the reply that its client gets; and the pointer in each `InputRequiredResult`. With that pointer a
 * parked call is released (`parking.release`), since only then is it known whether the pointer has all that a resumption takes.
 */
import {
  CALL_CANCELLED,
  callLost,
  COORDINATION_UNAVAILABLE,
  failedCallReply,
  INVALID_STATE,
  refusal,
  stoppedByOperator,
} from '../../model/failures.ts';
import { ELICITATION_DECLINED, missingCapability } from '../../model/question-failures.ts';
import type { CallOutcome, Failure, CallReply } from '../../model/request.ts';
import type { InputKey } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { ErrorCode, type JsonRpcReply } from '../../protocol/json-rpc.ts';
import type { ClientProfile } from '../../protocol/translate/client-profile.ts';
import { completeResult, inputRequiredResult } from '../../protocol/translate/edge-result.ts';
import { edgeError } from '../../protocol/translate/error-map.ts';
import { errorFromServer, fromServer } from '../../protocol/translate/cleaning.ts';
import type { Continuation } from '../../seal/pointer.ts';
import { UnsealablePointer, type ExpectedRequest } from '../../seal/seal.ts';
import type { CallEnd, RoundsSoFar, WaiterReply } from '../machine/states.ts';
import { expectedRequest, type CallData } from './data.ts';
import { idsOf } from './log.ts';

/**
 * Turns what the machine tells a waiter into its reply.
 * @param profile what the client of the waiter declares: nothing else is asked of it (MRTR, server requirement 7)
 */
export function replyToWaiter(
  call: CallData,
  reply: WaiterReply,
  profile: ClientProfile,
): CallReply {
  switch (reply.type) {
    case 'end':
      return replyOfEnd(call, reply.end);
    case 'inputRequired':
      return uncoveredFailure(call, reply.keys, profile) ?? askRound(call, reply);
    case 'sameInputRequired': {
      const { lastRound } = call;
      if (lastRound === null) return failed(INVALID_STATE);
      return uncoveredFailure(call, lastRound.keys, profile) ?? lastRound.reply;
    }
    case 'invalidRequestState':
      call.services.log.event('pointer.refused', { ...idsOf(call), reason: reply.reason });
      return failed(INVALID_STATE);
    case 'missingCapability':
      return missing(call, reply.keys);
    case 'failed':
      return failed(reply.failure);
  }
}

/**
 * Reads the reply of the server to a call. A failure that follows a refused question is reported as the
 * missing capability (basic/index, "Per-request protocol fields"), with what the server said of it: SDKs report as a result
 * what a tool throws, so that a result does not tell whether the question was required. A success shows that it was not.
 * @param required the capabilities that refused questions would have needed; `null` if none was refused
 */
export function outcomeOfReply(
  method: string,
  reply: JsonRpcReply,
  required: JsonObject | null,
): CallOutcome {
  if ('result' in reply) {
    if (reply.result['isError'] === true && required !== null) {
      return failed(missingCapability(required, fromServer(reply.result)));
    }
    return { kind: 'complete', result: reply.result };
  }
  if (required !== null) {
    return failed(missingCapability(required, errorFromServer(reply.error)));
  }
  const failure = edgeError(method, reply.error);
  // The one error of the server that is replaced by one of ours (-32042, URL mode).
  const isOurs = failure.error.code === ErrorCode.missingRequiredClientCapability;
  return failed(isOurs ? missingCapability({ elicitation: { url: {} } }) : failure);
}

/** Builds the reply for the end of a call. */
export function replyOfEnd(call: CallData, end: CallEnd): CallReply {
  const { method, exchange } = call;
  const { hasBegun, serverInfo } = exchange;
  switch (end.type) {
    case 'outcome':
      return end.outcome.kind === 'failed' ? end.outcome : resultOf(call, end.outcome.result);
    case 'declined':
      return failedCallReply(method, ELICITATION_DECLINED, serverInfo);
    case 'lost':
      if (end.isElsewhere) return failed(COORDINATION_UNAVAILABLE);
      return failedCallReply(method, callLost(hasBegun, end.exceeds), serverInfo);
    case 'cancelled':
      return failed(CALL_CANCELLED);
    case 'left':
      return failed(COORDINATION_UNAVAILABLE);
    case 'expired':
      return failed(INVALID_STATE);
    case 'stopped':
      return failedCallReply(method, stoppedByOperator(hasBegun), serverInfo);
    case 'refused':
      return failed(refusal(end.reason, hasBegun, call.loggedTarget, call.limits.maxRounds));
  }
}

function resultOf({ method, exchange, hasPointer, services }: CallData, result: JsonObject) {
  const { serverInfo } = exchange;
  // Once the client had a pointer, the outcome belongs to what it sent with it.
  const context = { serverInfo, cacheable: !hasPointer, caching: services.caching };
  return { kind: 'result', result: completeResult(method, result, context) } as const;
}

/** @returns what the pointers of the call are bound to */
export function boundRequest(call: CallData): ExpectedRequest {
  const { routeId: route, audience } = call.services;
  call.expected ??= expectedRequest(call.request, route, audience);
  return call.expected;
}

export function failed(failure: Failure) {
  return { kind: 'failed', failure } as const;
}

/** Ends a call with a failure. @param clean whether the server has done with the call */
export function failCall(call: CallData, failure: Failure, clean = false): void {
  call.dispatch({ type: 'outcome', outcome: failed(failure), clean });
}

function missing({ exchange }: CallData, keys: readonly InputKey[]): CallReply {
  return failed(missingCapability(exchange.questions?.requiredFor(keys) ?? {}));
}

function uncoveredFailure(
  call: CallData,
  keys: readonly InputKey[],
  profile: ClientProfile,
): CallReply | null {
  const uncovered = call.exchange.questions?.uncovered(keys, profile) ?? [];
  return uncovered.length === 0 ? null : missing(call, uncovered);
}

type AskedRound = Omit<Extract<WaiterReply, { type: 'inputRequired' }>, 'type'>;

/**
 * Asks the client the first of these questions in the round with this number, as many as it is shown together. What it does
 * not answer is asked again in the next round, and so are the others.
 */
function askRound(call: CallData, { keys, ...rounds }: AskedRound): CallReply {
  const { reattach, leaveWhenParked } = call.services;
  const shown = keys.slice(0, call.limits.maxShownQuestions);
  const inputRequests = call.exchange.questions?.inputRequests(shown) ?? {};
  call.hasPointer = true;
  const continuation = continuationOf(call, keys);
  if (call.task !== null) call.lastContinuation = JSON.stringify(continuation);
  const { requestState, continues } = sealPointer(call, rounds, continuation);
  const isKept = continues && continuation !== null && continuation.resume !== null;
  call.isResumable = isKept && reattach;
  // A client that did not get this reply comes again with the pointer before it, if it has one.
  const isAskedAgain = rounds.round === 1 || call.exchange.request?.asksBeside !== true;
  const mayLeave = call.isResumable && isAskedAgain && call.task?.isStopping !== true;
  if (mayLeave && call.state.name === 'parked' && leaveWhenParked()) {
    call.dispatch({ type: 'released' });
    call.services.registry.wasReleased(call);
  }
  const result = inputRequiredResult(inputRequests, requestState, call.exchange.serverInfo);
  const reply: CallReply = { kind: 'result', result };
  call.lastRound = { keys, reply, atMs: call.services.clock.now() };
  call.services.gaps.shown(call.loggedTarget, shown.length);
  return reply;
}

/** @returns what another replica needs to continue the call, or `null` if none could */
export function continuationOf(call: CallData, keys: readonly InputKey[]): Continuation | null {
  const { questions } = call.exchange;
  const { mayReplay, startedAtMs } = call.origin;
  const resume = call.exchange.resumePoint();
  // A call that the server does not have is made by whoever continues it.
  if (resume === null && !mayReplay && call.state.name !== 'suspended') return null;
  return {
    startedAtMs,
    questions: questions?.sealed(keys) ?? [],
    keys: questions?.keysGiven ?? { asked: 0, counts: {} },
    resume,
    replay: mayReplay ? (questions?.given.all ?? []) : null,
  };
}

/**
 * Seals a pointer to a round of the call.
 * @returns the pointer, and whether the continuation fits into it
 */
function sealPointer(
  call: CallData,
  { round, stateOnly }: RoundsSoFar,
  continuation: Continuation | null,
): { readonly requestState: string; readonly continues: boolean } {
  const { sealer, replica: owner, clock, log } = call.services;
  const { id: callId, outcomeKey, firstTrace } = call.origin;
  const { limits } = call;
  const endsAtMs = call.origin.startedAtMs + limits.callTtlMs;
  const pointer = {
    callId,
    round,
    // No client is shown the rounds of a task.
    ...(stateOnly === 0 || call.task !== null ? {} : { stateOnly }),
    owner,
    expiresAtSeconds: Math.min(clock.now() + limits.parkTtlMs, endsAtMs) / 1000,
    ...boundRequest(call),
    ...(outcomeKey === null ? {} : { outcomeKey }),
    ...(firstTrace === null ? {} : { firstTrace }),
  } as const;
  if (continuation !== null) {
    try {
      return { requestState: sealer.seal({ ...pointer, continuation }), continues: true };
    } catch (error) {
      if (!(error instanceof UnsealablePointer)) throw error;
      log.event('pointer.continuation_dropped', { ...idsOf(call), problem: error.message });
    }
  }
  return { requestState: sealer.seal(pointer), continues: false };
}
