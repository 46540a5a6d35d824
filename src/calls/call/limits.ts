/** The limits of one call: those of its route, and others for a call that is a task or may become one. */
import { wantsNotifications, type EdgeRequest } from '../../model/request.ts';
import type { WaitingTask } from '../../model/waiting-task.ts';
import type { CallLimits } from '../machine/states.ts';
import { loggedTarget } from '../../protocol/target.ts';
import type { CallData, CallServices } from './data.ts';

/** A task has no limit of rounds besides its time: this one is never reached. */
const MAX_TASK_ROUNDS = 1_000_000_000;
/**
 * How often the pointer of a task is renewed, in ms: soon after it became a task, when the server has often sent nothing
 * yet that a stream could be resumed from, and then so that no server has to keep many events for it.
 */
const FIRST_RENEWAL_MS = 1_000;
const RENEWAL_MS = 60_000;

/**
 * Returns the limits of a call that a request begins.
 * @param startedAtMs when the call began, here or elsewhere, in ms since the epoch
 */
export function limitsFor(
  services: CallServices,
  request: EdgeRequest,
  startedAtMs: number,
): CallLimits {
  const { method, params } = request;
  const isNotified = wantsNotifications(request);
  const limits = services.gaps.limitsFor(loggedTarget(method, params), isNotified);
  const ageMs = services.clock.now() - startedAtMs;
  if (request.task !== undefined) {
    return limitsOfTask(services, limits, request.task, ageMs, FIRST_RENEWAL_MS);
  }
  const promotion = services.promotion(request);
  if (promotion === null) return limits;
  const { afterMs, ttlMs } = promotion;
  const { maxHoldMs } = limits;
  return {
    ...limits,
    maxHoldMs: afterMs === null ? maxHoldMs : Math.min(maxHoldMs ?? afterMs, afterMs),
    callTtlMs: Math.max(limits.callTtlMs, (afterMs ?? 0) + ttlMs),
  };
}

/**
 * How much longer than its task a call lives, in ms: in that time the task can take it up again to have the server cancel it.
 */
const STOPPED_WITHIN_MS = 30_000;

/** Lets a task wait for the call from here on. */
export function giveToTask(call: CallData, task: WaitingTask): void {
  const { limits, origin, services, serverTask } = call;
  const renewalMs = call.task === null ? FIRST_RENEWAL_MS : RENEWAL_MS;
  call.limits = limitsOfTask(
    services,
    limits,
    task,
    services.clock.now() - origin.startedAtMs,
    renewalMs,
  );
  if (call.task === task) return;
  call.feed({ type: 'givenToTask', leftMs: lifeOf(task) });
  call.task = task;
  if (serverTask !== null) task.learned(serverTask);
}

/** Returns how long the call of a task lives, in ms. Timers of one length share one of Node.js, so there are few lengths. */
function lifeOf({ leftMs }: WaitingTask): number {
  return Math.ceil((leftMs + STOPPED_WITHIN_MS) / 1_000) * 1_000;
}

/** The life of the whole call is the limit of all that is done in it. */
function limitsOfTask(
  { longestCallMs: longestMs }: CallServices,
  limits: CallLimits,
  task: WaitingTask,
  ageMs: number,
  maxHoldMs: number,
): CallLimits {
  return {
    ...limits,
    ...{
      maxHoldMs,
      callTtlMs: ageMs + lifeOf(task),
      maxDurationMs: longestMs,
      parkTtlMs: longestMs,
    },
    maxRounds: MAX_TASK_ROUNDS,
  };
}
