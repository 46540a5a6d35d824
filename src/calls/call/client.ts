/** The client's side of a call: waiters come, wait, get notifications, and get their reply. */
import { CALL_CANCELLED, TOO_MANY_RETRIES } from '../../model/failures.ts';
import { maxStateOnlyOf } from '../../model/known-clients.ts';
import { illFormedAnswer } from '../../model/question-failures.ts';
import type { CallReply, EdgeRequest, Waiter, WaitingTask } from '../../model/request.ts';
import { answersDigest } from '../../seal/digests.ts';
import { keysOf, openRequests } from '../machine/selectors.ts';
import type { CallState, WaiterId, WaiterReply, RetryEvent } from '../machine/states.ts';
import type { CallData, Retry } from './data.ts';
import { lifeOf, limitsOfTask } from './limits.ts';
import { logNotificationLoss } from './log.ts';
import type { ReadAnswers } from './questions.ts';
import { continuationOf, failed, replyToWaiter } from './replies.ts';
import type { UpstreamReplies, WaitingWaiter } from './waiters.ts';

/** The most waiters that wait at one call: a client needs one, and a second one if it repeats its retry. */
const MAX_WAITERS = 16;
const NO_REPLIES: UpstreamReplies = new Map();
const NO_ANSWERS: ReadAnswers = { type: 'read', replies: NO_REPLIES, declined: false };

/** Lets a waiter wait. @returns its id, and its reply */
export function attachWaiter(
  call: CallData,
  request: EdgeRequest,
  waiter: Waiter,
  replies = NO_REPLIES,
): { readonly id: WaiterId; readonly reply: Promise<CallReply> } {
  const id = call.waiters.nextId();
  const { promise, resolve } = Promise.withResolvers<CallReply>();
  const onClosed = () => {
    if (detachWaiter(call, id) === undefined) return;
    // The client is gone, but whoever waits for the reply here must go on.
    resolve(failed(CALL_CANCELLED));
    call.dispatch({ type: 'waiterClosed', waiter: id });
  };
  call.waiters.add({ id, waiter, lossy: null, request, replies, reply: resolve, onClosed });
  return { id, reply: promise };
}

/** Detaches a waiter whose client left before the waiter was attached: no event reports that. */
export function noticeClosed(call: CallData, id: WaiterId): void {
  const waiting = call.waiters.find(id);
  if (waiting?.waiter.closed.aborted === true) waiting.onClosed();
}

/** Serves a retry of a call that is here. @returns the reply to the retry */
export function retryCall(call: CallData, { pointer, request, waiter }: Retry): Promise<CallReply> {
  if (call.waiters.all.length >= MAX_WAITERS) return Promise.resolve(failed(TOO_MANY_RETRIES));
  const { round } = pointer;
  const open = round === openRound(call.state) ? openRequests(call.state) : [];
  const read =
    call.exchange.questions?.read(open, request.inputResponses, request.inputErrors) ?? NO_ANSWERS;
  if (read.type === 'ill-formed') {
    return Promise.resolve(failed(illFormedAnswer(read.key, read.problem)));
  }
  if (request.task !== undefined) giveToTask(call, request.task);
  const { id, reply } = attachWaiter(call, request, waiter, read.replies);
  call.dispatch({
    type: 'retry',
    waiter: id,
    round,
    answersDigest: answersDigest(request.inputResponses, request.inputErrors),
    answered: [...read.replies.keys()],
    uncovered: call.exchange.questions?.uncovered(keysOf(open), request.profile) ?? [],
    declined: read.declined,
  });
  call.waiters.catchUp(id);
  noticeClosed(call, id);
  return reply;
}

/** Lets a task wait for the call from here on. */
export function giveToTask(call: CallData, task: WaitingTask): void {
  const { limits, origin, services, exchange } = call;
  const ageMs = Math.max(0, services.clock.now() - origin.startedAtMs);
  call.limits = limitsOfTask(services, limits, task, ageMs, call.task === null);
  if (call.task === task) return;
  call.dispatch({ type: 'givenToTask', leftMs: lifeOf(task) });
  call.task = task;
  if (exchange.task !== null) task.learned(exchange.task);
}

/** Makes the request of an accepted retry the one that counts: what the server asks now is for its client. */
export function acceptRetry(call: CallData, { waiter }: RetryEvent): void {
  const waiting = call.waiters.find(waiter);
  if (waiting === undefined) return;
  call.request = waiting.request;
  call.exchange.session?.useHeaders(waiting.request.caller.headers);
}

/** Feeds retries once more whose waiters still wait. */
export function repeatRetries(call: CallData, retries: readonly RetryEvent[]): void {
  for (const retry of retries)
    if (call.waiters.find(retry.waiter) !== undefined) call.dispatch(retry);
}

/** Detaches those of the waiters that still wait, and replies to them. */
export function replyToWaiters(
  call: CallData,
  waiters: readonly WaiterId[],
  reply: WaiterReply,
): void {
  for (const id of waiters) {
    const waiting = detachWaiter(call, id);
    waiting?.reply(replyToWaiter(call, reply, waiting.request.profile));
  }
}

function detachWaiter(call: CallData, id: WaiterId): WaitingWaiter | undefined {
  const waiting = call.waiters.remove(id);
  const loss = waiting?.lossy?.end() ?? null;
  if (loss !== null) logNotificationLoss(call, loss);
  return waiting;
}

/** @returns the round that a pointer must name for its answers to count, or 0 */
function openRound(state: CallState): number {
  return state.name === 'parked' || state.name === 'suspended' ? state.round : 0;
}

/** Has the client retry, if one more call may be parked, and a task if that is of use. */
export function endHold(call: CallData): void {
  const hasRoom = call.services.registry.hasRoomToPark(call);
  const mayPark = hasRoom && !isUpToDate(call) && !isToldTooOften(call);
  call.dispatch({ type: 'holdOver', mayPark });
}

/** Tells whether a task, and nobody else, waits for the call, to which a retry would bring nothing new: no pointer, and no credentials. */
function isUpToDate(call: CallData): boolean {
  const isWaiting = call.waiters.all.every(
    ({ request: { task, caller, inputResponses } }) =>
      inputResponses === null && task?.credentialsKey === caller.credentialsKey,
  );
  return isWaiting && call.lastContinuation === JSON.stringify(continuationOf(call, []));
}

/**
 * Tells whether a client would be told to retry more often than it stands: one that waits beside a task, whose rounds without a
 * question have no limit. Two retries that come together do so, if only one of them becomes the task.
 */
function isToldTooOften({ task, state, waiters }: CallData): boolean {
  const rounds = 'stateOnly' in state ? state.stateOnly : 0;
  return (
    task !== null &&
    waiters.all.some(
      ({ request }) => request.task === undefined && rounds >= maxStateOnlyOf(request.clientInfo),
    )
  );
}

/** Tells a client that knows tasks to retry: its call becomes a task then. While the stream is broken, that stays due. */
export function offerTask(call: CallData): void {
  const { task, request, services } = call;
  call.isTaskDue = task === null && services.promotion(request) !== null;
  if (call.isTaskDue) endHold(call);
}

/**
 * Has a task retry that waits no more, since it goes on at another replica or is to stop the call: to close its waiter would cancel the
 * call. While the call cannot be left, that stays due.
 */
export function sendTaskBack(call: CallData): void {
  const isOver = ({ request: { task } }: WaitingWaiter) => task?.credentialsKey === null;
  if (call.state.name !== 'running' || !call.waiters.all.some(isOver)) return;
  call.dispatch({ type: 'requesterStops' });
}
