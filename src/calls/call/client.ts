/** The client's side of a call: legs come, wait, get notifications, and get their reply. */
import { inBackground } from '../../lib/background.ts';
import { CALL_CANCELLED, TOO_MANY_RETRIES } from '../../model/failures.ts';
import { illFormedAnswer } from '../../model/question-failures.ts';
import type { CallReply, EdgeRequest, Leg, WaitingTask } from '../../model/request.ts';
import type { JsonObject } from '../../protocol/json.ts';
import { answersDigest } from '../../seal/digests.ts';
import { keysOf, openRequests } from '../machine/selectors.ts';
import type { CallState, LegId, LegReply, RetryEvent } from '../machine/states.ts';
import { LossyLeg, Notifications, type ListeningLeg } from '../notifications.ts';
import { legOf, type CallData, type Retry, type UpstreamReplies, type WaitingLeg } from './data.ts';
import { lifeOf, limitsOfTask } from './limits.ts';
import { logNotificationLoss } from './log.ts';
import type { ReadAnswers } from './questions.ts';
import { failed, replyToLeg } from './replies.ts';

/** The most legs that wait at one call: a client needs one, and a second one if it repeats its retry. */
const MAX_LEGS = 16;
const NO_REPLIES: UpstreamReplies = new Map();
const NO_ANSWERS: ReadAnswers = { type: 'read', replies: NO_REPLIES, declined: false };

/** Lets a leg wait. @returns its id, and its reply */
export function attachLeg(
  call: CallData,
  request: EdgeRequest,
  leg: Leg,
  replies = NO_REPLIES,
): { readonly id: LegId; readonly reply: Promise<CallReply> } {
  const id = (call.lastLegId += 1);
  const { promise, resolve } = Promise.withResolvers<CallReply>();
  const onClosed = () => {
    if (detachLeg(call, id) === null) return;
    // The client is gone, but whoever waits for the reply here must go on.
    resolve(failed(CALL_CANCELLED));
    call.feed({ type: 'legClosed', leg: id });
  };
  call.legs.push({ id, leg, lossy: null, request, replies, reply: resolve, onClosed });
  leg.closed.addEventListener('abort', onClosed);
  tellLegListeners(call);
  return { id, reply: promise };
}

/** Detaches a leg whose client left before the leg was attached: no event reports that. */
export function noticeClosed(call: CallData, id: LegId): void {
  const waiting = legOf(call, id);
  if (waiting?.leg.closed.aborted === true) waiting.onClosed();
}

/** Serves a retry of a call that is here. @returns the reply to the retry */
export function retryCall(call: CallData, { pointer, request, leg }: Retry): Promise<CallReply> {
  if (call.legs.length >= MAX_LEGS) return Promise.resolve(failed(TOO_MANY_RETRIES));
  const { round } = pointer;
  const open = round === openRound(call.state) ? openRequests(call.state) : [];
  const read =
    call.questions?.read(open, request.inputResponses, request.inputErrors) ?? NO_ANSWERS;
  if (read.type === 'ill-formed') {
    return Promise.resolve(failed(illFormedAnswer(read.key, read.problem)));
  }
  if (request.task !== undefined) giveToTask(call, request.task);
  const { id, reply } = attachLeg(call, request, leg, read.replies);
  call.feed({
    type: 'retry',
    leg: id,
    round,
    answersDigest: answersDigest(request.inputResponses, request.inputErrors),
    answered: [...read.replies.keys()],
    uncovered: call.questions?.uncovered(keysOf(open), request.profile) ?? [],
    declined: read.declined,
  });
  const waiting = legOf(call, id);
  if (waiting !== undefined) call.notifications?.catchUp(listening(waiting));
  noticeClosed(call, id);
  return reply;
}

/** Lets a task wait for the call from here on. */
export function giveToTask(call: CallData, task: WaitingTask): void {
  const { limits, origin, services, serverTask } = call;
  const ageMs = Math.max(0, services.clock.now() - origin.startedAtMs);
  call.limits = limitsOfTask(services, limits, task, ageMs, call.task === null);
  if (call.task === task) return;
  call.feed({ type: 'givenToTask', leftMs: lifeOf(task) });
  call.task = task;
  if (serverTask !== null) task.learned(serverTask);
}

/** Makes the request of an accepted retry the one that counts: what the server asks now is for its client. */
export function acceptRetry(call: CallData, { leg }: RetryEvent): void {
  const waiting = legOf(call, leg);
  if (waiting !== undefined) call.request = waiting.request;
}

/** Feeds retries once more whose legs still wait. */
export function repeatRetries(call: CallData, retries: readonly RetryEvent[]): void {
  for (const retry of retries) if (legOf(call, retry.leg) !== undefined) call.feed(retry);
}

/** Passes a notification of the server to the legs that want it. */
export function notifyLegs(call: CallData, method: string, params: JsonObject): void {
  call.notifications ??= new Notifications();
  // A leg can leave meanwhile.
  call.notifications.deliver(method, params, call.legs.map(listening));
}

function listening(waiting: WaitingLeg): ListeningLeg {
  const { leg, request } = waiting;
  waiting.lossy ??= new LossyLeg(leg, request.logLevel);
  return { leg: waiting.lossy, request };
}

/** Detaches those of the legs that still wait, and replies to them. */
export function replyToLegs(call: CallData, legs: readonly LegId[], reply: LegReply): void {
  for (const id of legs) {
    const waiting = detachLeg(call, id);
    waiting?.reply(replyToLeg(call, reply, waiting.request.profile));
  }
}

/**
 * Tells whether the clients of a call are behind.
 * @returns a promise that resolves when one of them catches up or leaves; `null` while one keeps up, since
 *   those that are behind miss notifications then, and while no client waits
 */
export function backlogOf(call: CallData): Promise<void> | null {
  const backlogs: Promise<void>[] = [];
  for (const { leg } of call.legs) {
    const { backlog } = leg;
    if (backlog === null) return null;
    backlogs.push(backlog);
  }
  if (backlogs.length === 0) return null;
  const listeners = (call.legListeners ??= new Set());
  return new Promise((resolve) => {
    const go = () => {
      listeners.delete(go);
      resolve();
    };
    listeners.add(go);
    for (const backlog of backlogs) inBackground(backlog.then(go));
  });
}

function detachLeg(call: CallData, id: LegId): WaitingLeg | null {
  const waiting = legOf(call, id);
  if (waiting === undefined) return null;
  call.legs.splice(call.legs.indexOf(waiting), 1);
  waiting.leg.closed.removeEventListener('abort', waiting.onClosed);
  const loss = waiting.lossy?.end() ?? null;
  if (loss !== null) logNotificationLoss(call, loss);
  tellLegListeners(call);
  return waiting;
}

function tellLegListeners({ legListeners }: CallData): void {
  if (legListeners !== null) for (const tell of [...legListeners]) tell();
}

/** @returns the round that a pointer must name for its answers to count, or 0 */
function openRound(state: CallState): number {
  return state.name === 'parked' || state.name === 'suspended' ? state.round : 0;
}

/** Has the client retry, if one more call may be parked. */
export function endHold(call: CallData): void {
  call.feed({ type: 'holdOver', mayPark: call.services.registry.hasRoomToPark(call) });
}

/** Tells a client that knows tasks to retry: its call becomes a task then. While the stream is broken, that stays due. */
export function offerTask(call: CallData): void {
  const { task, request, services } = call;
  call.isTaskDue = task === null && services.promotion(request) !== null;
  if (call.isTaskDue) endHold(call);
}
