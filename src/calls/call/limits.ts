/**
 * The limits of one call: those of its route, and others for a tool that was seen to ask, and for a call that is a task or may
 * become one.
 */
import type { Clock } from '../../lib/clock.ts';
import { LruMap } from '../../lib/containers.ts';
import {
  wantsNotifications,
  type EdgeRequest,
  type Promotion,
  type WaitingTask,
} from '../../model/request.ts';
import { maxStateOnlyOf } from '../../model/known-clients.ts';
import type { CallLimits } from '../machine/states.ts';
import { loggedTarget } from '../../ops/tracing.ts';

/** What decides the limits of a call, besides its request. */
interface LimitSources {
  readonly gaps: QuestionGaps;
  readonly promotion: (request: EdgeRequest) => Promotion | null;
  readonly longestCallMs: number;
  readonly clock: Pick<Clock, 'now'>;
}

/** A task has no limit of rounds besides its time: this one is never reached. */
const MAX_TASK_ROUNDS = 1_000_000_000;
/**
 * How often the pointer of a task is renewed if it is out of date, in ms: soon after it became a task, when the server has often sent nothing
 * yet that a stream could be resumed from, and then so that no server has to keep many events for it.
 */
const FIRST_RENEWAL_MS = 1_000;
const RENEWAL_MS = 60_000;

/**
 * Returns the limits of a call that a request begins.
 * @param startedAtMs when the call began, here or elsewhere, in ms since the epoch
 */
export function limitsFor(
  services: LimitSources,
  request: EdgeRequest,
  startedAtMs: number,
): CallLimits {
  const { method, params } = request;
  const isNotified = wantsNotifications(request);
  const seen = services.gaps.limitsFor(loggedTarget(method, params), isNotified);
  const maxStateOnly = maxStateOnlyOf(request.clientInfo);
  const limits = maxStateOnly === seen.maxStateOnly ? seen : { ...seen, maxStateOnly };
  const ageMs = Math.max(0, services.clock.now() - startedAtMs);
  if (request.task !== undefined) {
    return limitsOfTask(services, limits, request.task, ageMs, true);
  }
  const promotion = services.promotion(request);
  if (promotion === null) return limits;
  const { afterMs, ttlMs } = promotion;
  const { maxHoldMs } = limits;
  return {
    ...limits,
    maxHoldMs: afterMs === null ? maxHoldMs : Math.min(maxHoldMs ?? afterMs, afterMs),
    becomesTask: afterMs !== null,
    callTtlMs: Math.max(limits.callTtlMs, (afterMs ?? 0) + ttlMs),
  };
}

/**
 * How much longer than its task a call lives, in ms: in that time the task can take it up again to have the server cancel it.
 */
const STOPPED_WITHIN_MS = 30_000;

/** Returns how long the call of a task lives from now on, in ms. Timers of one length share one of Node.js, so there are few lengths. */
export function lifeOf({ leftMs }: WaitingTask): number {
  return Math.ceil((leftMs + STOPPED_WITHIN_MS) / 1_000) * 1_000;
}

/**
 * Returns the limits of the call of a task: the life of the whole call is that of all that is done in it.
 * @param ageMs how long ago the call began, in ms
 * @param isNew whether the task has just begun to wait for it
 */
export function limitsOfTask(
  { longestCallMs: longestMs }: Pick<LimitSources, 'longestCallMs'>,
  limits: CallLimits,
  task: WaitingTask,
  ageMs: number,
  isNew: boolean,
): CallLimits {
  return {
    ...limits,
    maxHoldMs: isNew ? FIRST_RENEWAL_MS : RENEWAL_MS,
    callTtlMs: ageMs + lifeOf(task),
    maxDurationMs: longestMs,
    parkTtlMs: longestMs,
    maxRounds: MAX_TASK_ROUNDS,
    maxStateOnly: MAX_TASK_ROUNDS,
    clientRounds: MAX_TASK_ROUNDS,
  };
}

/** Targets are named by clients, so only so many are remembered. */
const MAX_TARGETS = 1_000;
/** How long to wait for the next question of a tool that was seen to ask several apart, in ms. */
const APART_WINDOW_MS = 30;

/**
 * How long to wait for more questions, by what was seen of a tool: not at all if it asked one at a time, longer if it asked
 * several a little apart. A client that wants notifications waits for a moment in any case: what the server sent on another
 * stream just before its question can arrive after it.
 */
export class QuestionGaps {
  readonly #limits: CallLimits;
  readonly #limitsAlone: CallLimits;
  readonly #limitsApart: CallLimits;
  /** By target. Without an entry the tool has not asked yet. */
  readonly #seen = new LruMap<string, CallLimits>(MAX_TARGETS);

  constructor(limits: CallLimits) {
    this.#limits = limits;
    this.#limitsAlone = { ...limits, batchWindowMs: 0 };
    const batchWindowMs = Math.max(limits.batchWindowMs, APART_WINDOW_MS);
    this.#limitsApart = { ...limits, batchWindowMs };
  }

  /**
   * Returns the limits for a call of this target.
   * @param target the tool, prompt or resource, as the log shows it
   * @param isNotified whether the client wants notifications of the call
   */
  limitsFor(target: string, isNotified: boolean): CallLimits {
    const seen = this.#seen.get(target) ?? this.#limits;
    return isNotified && seen === this.#limitsAlone ? this.#limits : seen;
  }

  /** Notes that so many questions are shown to the client in one round. */
  shown(target: string, questions: number): void {
    const seen = this.#seen.get(target);
    if (questions > 1 && seen !== this.#limitsApart) this.#seen.set(target, this.#limits);
    if (questions === 1 && seen === undefined) this.#seen.set(target, this.#limitsAlone);
  }

  /**
   * Notes a question that came while the client already had others.
   * @param gapMs the time since those were sent to the client
   */
  askedAgain(target: string, gapMs: number): void {
    if (gapMs >= this.#limits.batchLimitMs) return;
    // Waiting for a moment is enough, if that was not done.
    const isSoon =
      gapMs <= this.#limits.batchWindowMs && this.#seen.get(target) === this.#limitsAlone;
    this.#seen.set(target, isSoon ? this.#limits : this.#limitsApart);
  }
}
