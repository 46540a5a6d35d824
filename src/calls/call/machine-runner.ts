/**
 * Runs the machine of a call: feeds its events to the table, one after the other, and has the client's and the
 * server's side carry out the effects. Nothing is decided here.
 */
import type { Timer } from '../../lib/clock.ts';
import type { EdgeRequest } from '../../model/request.ts';
import type { CallPhase } from '../../sessions/lease.ts';
import {
  isBroken,
  isDetached,
  isWorthReplaying,
  isOver,
  openRequests,
  timersOf,
} from '../machine/selectors.ts';
import type { CallEvent, CallLimits, CallState, Effect, TimerName } from '../machine/states.ts';
import { step } from '../machine/table.ts';
import { sealOutcome, type OutcomeRecord } from '../sealed-outcome.ts';
import {
  acceptRetry,
  endHold,
  offerTask,
  repeatRetries,
  replyToWaiters,
  sendTaskBack,
} from './client.ts';
import { CallData, type CallMachine, type CallOrigin, type CallServices } from './data.ts';
import { workFor } from './defects.ts';
import { endWork, logMove } from './log.ts';
import { boundRequest, replyOfEnd } from './replies.ts';
import { callAgain, postAnswers } from './server.ts';

/** Creates a call in its first state. */
export function createCall(
  services: CallServices,
  origin: CallOrigin,
  request: EdgeRequest,
  limits: CallLimits,
  state: CallState,
): CallData {
  return new Machine(services, origin, request, limits, state).call;
}

interface RunningTimer {
  readonly name: TimerName;
  readonly timer: Timer;
}

class Machine implements CallMachine {
  readonly call: CallData;
  /** Those that run: few, of one each. */
  readonly #timers: RunningTimer[] = [];
  /** Events that wait until the effects of an earlier one are carried out. */
  readonly #events: CallEvent[] = [];
  #isMoving = false;

  constructor(...[services, origin, request, limits, state]: Parameters<typeof createCall>) {
    this.call = new CallData(services, origin, request, limits, state, this);
  }

  /** Registers the call, and carries out the first effects. */
  begin(effects: readonly Effect[]): void {
    const { call } = this;
    call.services.registry.add(call);
    call.services.registry.moved(call);
    for (const effect of effects) this.#carryOut(effect);
  }

  forget(): void {
    this.#stopTimers(() => true);
    this.call.services.registry.remove(this.call);
  }

  /** Runs each event to completion: one that comes out of the effects of another waits for them. */
  dispatch(event: CallEvent): void {
    // Questions that are not shown yet came before this event, so theirs come first.
    this.call.exchange.showEarly();
    this.#events.push(event);
    if (this.#isMoving) return;
    this.#isMoving = true;
    try {
      for (let next = this.#events.shift(); next !== undefined; next = this.#events.shift()) {
        this.#move(next);
      }
    } finally {
      this.#isMoving = false;
    }
  }

  /** Moves the call if the table has a row for the event, and leaves it as it is if not. */
  #move(event: CallEvent): void {
    const { call } = this;
    const from = call.state;
    const { state, effects, row } = step(from, event, call.limits);
    if (row === null) return;
    call.state = state;
    logMove(call, { rule: row.rule, event, from, effects });
    if (call.exchange.works) endWork(call);
    this.#freeUnneeded();
    call.exchange.lease?.moved(phaseOf(state));
    call.services.registry.moved(call);
    for (const effect of effects) this.#carryOut(effect);
    if (event.type === 'retry') acceptRetry(call, event);
    keepTaskOffer(call, event);
    // A retry that is repeated or refused leaves all as it is.
    if (state !== from) keepOutcome(call);
    // Without a pointer no client can come back.
    if (isLeft(state) || (state.name === 'done' && !call.hasPointer)) this.forget();
    else if (state.name === 'done') keepForRepeats(call);
    // A task that waits for no reply looks at what is to be shown now, unless the call goes on elsewhere: an effect can have left it.
    const isNews = event.type !== 'retry' && isToBeShown(from, state);
    if (isDetached(from) && isNews && !isLeft(call.state))
      call.task?.moved(state.name === 'runningDetached');
  }

  /** Stops and drops what the new state does not need. */
  #freeUnneeded(): void {
    const { call } = this;
    const { state } = call;
    const kept = timersOf(state);
    this.#stopTimers((name) => !kept.includes(name));
    // A call that waits for a session is sent after this.
    if (isDetached(state) && call.exchange.request !== null) dropParams(call);
    if (isOver(state)) call.ahead = null;
  }

  #carryOut(effect: Effect): void {
    if (effect.do === 'arm') this.#arm(effect.timer, effect.afterMs);
    else carryOut(this.call, effect);
  }

  /** Starts a timer. If it runs already, it starts again. */
  #arm(timer: TimerName, afterMs: number): void {
    const { call } = this;
    // Without a pointer no client can repeat its retry.
    if (timer === 'redeliver' && !call.hasPointer) return;
    this.#stopTimers((name) => name === timer);
    const fire = () => {
      this.#stopTimers((name) => name === timer);
      this.#expire(timer);
    };
    this.#timers.push({ name: timer, timer: call.services.clock.setTimer(afterMs, fire) });
  }

  #stopTimers(isStopped: (name: TimerName) => boolean): void {
    for (let at = this.#timers.length - 1; at >= 0; at -= 1) {
      const { name, timer } = this.#timers[at]!;
      if (!isStopped(name)) continue;
      timer.cancel();
      this.#timers.splice(at, 1);
    }
  }

  #expire(timer: TimerName): void {
    const { call } = this;
    switch (timer) {
      case 'batch':
        return this.dispatch({
          type: 'batched',
          mayPark: call.services.registry.hasRoomToPark(call),
        });
      case 'grace':
        return this.dispatch({ type: 'ended' });
      case 'redeliver':
        return this.forget();
      case 'hold':
        return endHold(call);
      default:
        return this.dispatch({ type: 'expired', timer });
    }
  }
}

function isToBeShown(from: CallState, to: CallState): boolean {
  return from.name !== to.name || openRequests(from) !== openRequests(to);
}

function isLeft(state: CallState): boolean {
  return state.name === 'done' && state.end.type === 'left';
}

/** Offers a task that is due as soon as there is a waiter to be told, and sends one back that waits no more. While there is no place for it, a timer says when to try again. */
function keepTaskOffer(call: CallData, { type }: CallEvent): void {
  if (call.task !== null) sendTaskBack(call);
  if (!call.isTaskDue) return;
  if (type !== 'holdOver' && call.state.name === 'running') offerTask(call);
  else if (type === 'holdOver' && call.state.name === 'runningDetached') call.isTaskDue = false;
}

function phaseOf(state: CallState): CallPhase {
  // The server has ended a settled call, which is about to give its session back.
  if (isDetached(state) && state.name !== 'resultReady') return 'parked';
  return isBroken(state) ? 'interrupted' : 'running';
}

function carryOut(call: CallData, effect: Exclude<Effect, { do: 'arm' }>): void {
  switch (effect.do) {
    case 'reply':
      return replyToWaiters(call, effect.waiters, effect.reply);
    case 'post':
      return workFor(call, postAnswers(call, effect.waiter, effect.requests));
    case 'callAgain':
      return workFor(call, callAgain(call, effect.waiter));
    case 'cancelOpenQuestions':
      return call.exchange.cancelOpenQuestions(effect.requests);
    case 'cancelUpstream':
      return call.exchange.cancel(effect.open);
    case 'free':
      return call.exchange.free(effect.clean);
    case 'leave':
      return call.exchange.leave();
    case 'retryWaiting':
      return repeatRetries(call, effect.retries);
  }
}

/** Drops what only sending the request takes, and its span. Nothing is sent before the client retries, with its params. */
function dropParams(call: CallData): void {
  boundRequest(call);
  const { span: _ended, ...request } = call.request;
  call.request = { ...request, params: {}, inputResponses: null, requestState: null };
}

/**
 * Keeps of a call that is over what the reply to a repeated retry takes, and what its log lines name: all outcomes of the
 * last two minutes are in memory.
 */
function keepForRepeats(call: CallData): void {
  dropParams(call);
  call.exchange.questions = null;
  call.waiters.forgetProgress();
  call.lastRound = null;
}

/** Stores an outcome for a client that retries elsewhere, because it lost the reply or has not had it yet. */
function keepOutcome(call: CallData): void {
  const { state, origin } = call;
  if (state.name === 'done' && state.end.type === 'outcome' && state.consumed !== null) {
    store(call, { ...state.consumed, reply: replyOfEnd(call, state.end) });
  }
  // A call that should rather be replayed has no outcome to keep.
  if (state.name === 'resultReady' && !(isWorthReplaying(state) && origin.mayReplay)) {
    const { round, outcome } = state;
    const reply = replyOfEnd(call, { type: 'outcome', outcome });
    store(call, { round, answersDigest: null, reply });
  }
}

/** Without the stored outcome the client can still ask this replica. */
function store(call: CallData, outcome: OutcomeRecord): void {
  const { origin, services, limits } = call;
  const { id, outcomeKey } = origin;
  const { directory } = services;
  if (directory === null || outcomeKey === null) return;
  const sealed = sealOutcome(Buffer.from(outcomeKey, 'base64url'), id, outcome);
  // An outcome that no client has had can be fetched until its pointer expires.
  const ttlMs = outcome.answersDigest === null ? limits.parkTtlMs : limits.redeliverMs;
  directory.end(id, 'outcome', sealed, ttlMs).then(
    () => {
      call.isOutcomeStored = true;
    },
    () => {},
  );
}
