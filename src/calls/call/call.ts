/**
 * One call while it lives: the table that decides, and the parts that carry out what it asks for. The
 * client's side is its legs and what they are told, the server's side its exchange and what is said in
 * it; they meet in the questions of the call. Nothing is decided here.
 */
import { answersDigest } from '../../seal/digests.ts';
import type { Continuation, ResumePoint } from '../../seal/pointer.ts';
import { ClientSide } from './client-side.ts';
import type { CallContext } from './context.ts';
import { CallExchange } from './exchange.ts';
import { isKnownTo, isLost } from './retry-selectors.ts';
import { GivenAnswers } from './given-answers.ts';
import { CallLog } from './log.ts';
import { Machine, type Transition } from './machine.ts';
import { Replies } from './replies.ts';
import { Rounds } from './rounds.ts';
import { ServerSide } from './server-side.ts';
import { CallTimers } from './timers.ts';
import {
  type CallLimits,
  type CallState,
  type Effect,
  type Step,
  type TimerName,
} from '../machine/states.ts';
import { failedCallReply, ELICITATION_DECLINED, illFormedAnswer } from '../../model/failures.ts';
import type { CallReply, EdgeRequest, Leg } from '../../model/request.ts';
import { Questions } from './questions.ts';
import { isBroken, isDetached, timersOf } from '../machine/selectors.ts';
import { adopt, begin } from '../machine/steps.ts';

/** A call, and the answer to the request that brought it here. */
export interface CallStart<Made = Call> {
  readonly call: Made;
  readonly answer: Promise<CallReply>;
}

export class Call {
  readonly #context: CallContext;
  readonly #log: CallLog;
  readonly #machine: Machine;
  readonly #timers: CallTimers;
  readonly #questions: Questions;
  readonly #given = new GivenAnswers();
  readonly #exchange: CallExchange;
  readonly #server: ServerSide;
  readonly #rounds: Rounds;
  readonly #replies: Replies;
  readonly #client: ClientSide;

  private constructor(context: CallContext, request: EdgeRequest, startedAtMs: number) {
    const { clock, limits } = context;
    const log = new CallLog(context, request.method, startedAtMs);
    const machine = new Machine(begin(0, limits).state, limits, (transition) =>
      this.#onMoved(transition),
    );
    const exchange = new CallExchange(context, request, () => machine.isOver);
    const questions = new Questions({
      names: context.keyNames,
      fromStringIds: context.keysFromStringIds,
      revealsSession: (text) => exchange.session?.reveals(text) ?? false,
    });
    const parts = { context, log, machine, exchange, questions, given: this.#given, startedAtMs };
    const server = new ServerSide({
      ...parts,
      notified: (method, params) => this.#client.notify(method, params),
      backlog: () => this.#client.backlog(),
      restarted: () => this.#client.forgetProgress(),
      resumable: () => rounds.resumable,
    });
    const rounds = new Rounds(parts);
    const replies = new Replies({
      ...parts,
      rounds,
      unauthorized: () => server.unauthorized,
      begun: () => server.begun,
      heldElsewhere: () => server.heldElsewhere,
    });
    this.#context = context;
    this.#log = log;
    this.#machine = machine;
    this.#timers = new CallTimers(clock, (timer) => this.#onTimer(timer));
    this.#questions = questions;
    this.#exchange = exchange;
    this.#server = server;
    this.#rounds = rounds;
    this.#replies = replies;
    this.#client = new ClientSide({ ...parts, replies });
  }

  /** Starts a call for its first leg; the promise is that leg's answer. */
  static start(context: CallContext, request: EdgeRequest, leg: Leg): CallStart {
    const call = new Call(context, request, context.clock.now());
    const { id, answer } = call.#client.first(request, leg);
    call.#begin(begin(id, context.limits));
    call.#server.launch(false);
    call.#client.begun(id);
    return { call, answer };
  }

  /**
   * Takes up a call whose owner is gone, for the retry that its client sent; the promise is the answer
   * to that retry.
   */
  static adopt(
    context: CallContext,
    round: number,
    continuation: Continuation & { readonly resume: ResumePoint },
    request: EdgeRequest,
    leg: Leg,
  ): CallStart {
    const call = new Call(context, request, continuation.startedAtMs);
    const open = call.#questions.restore(continuation.questions, continuation.keys);
    call.#given.add(...(continuation.replay ?? []));
    call.#log.reattached();
    call.#rounds.pointed = true;
    call.#rounds.resumable = context.reattach;
    call.#begin(adopt(round, open, limitsLeft(context, continuation)));
    const answer = call.retry(round, request, leg);
    call.#server.takeUp(continuation.resume, open);
    return { call, answer };
  }

  /**
   * Makes a call anew that was lost, for the retry that its client sent: what the server asks again is
   * answered from what it was answered before, and from this retry. `null` instead of a call when the
   * retry itself settles it.
   * @param begins called when it will be made, before anything is done for it
   */
  static replay(
    context: CallContext,
    round: number,
    continuation: Continuation,
    request: EdgeRequest,
    leg: Leg,
    begins: () => void,
  ): CallStart<Call | null> {
    const call = new Call(context, request, continuation.startedAtMs);
    const open = call.#questions.restore(continuation.questions, {
      // The server asks from the beginning again.
      asked: 0,
      counts: continuation.keys.counts,
    });
    const read = call.#questions.read(open, request.inputResponses);
    if (read.type === 'ill-formed') {
      const failure = illFormedAnswer(read.key, read.problem);
      return { call: null, answer: Promise.resolve({ kind: 'failed', failure }) };
    }
    if (read.declined) {
      const answer = failedCallReply(request.method, ELICITATION_DECLINED, null);
      return { call: null, answer: Promise.resolve(answer) };
    }
    begins();
    call.#given.add(...(continuation.replay ?? []));
    for (const [key, reply] of read.replies) {
      call.#given.add({ question: call.#questions.digestOf(key), reply });
    }
    call.#given.repeatAll();
    call.#rounds.pointed = true;
    const { id, answer } = call.#client.first(request, leg);
    const limits = limitsLeft(context, continuation);
    call.#begin(begin(id, limits, { round, answersDigest: digestOf(request) }));
    call.#server.launch(true, true);
    call.#client.begun(id);
    return { call, answer };
  }

  get state(): CallState {
    return this.#machine.state;
  }

  /** Forgets the call here and now; what it holds is freed. */
  drop(): void {
    this.#machine.feed({ type: 'evict' });
    if (this.state.name === 'done') this.#forget();
  }

  /**
   * True when the retry is one that this call is waiting for, or has had, and the call is lost: making
   * it anew is all that could help.
   */
  isLostFor(round: number, request: EdgeRequest): boolean {
    return this.isLost && isKnownTo(this.state, round, digestOf(request));
  }

  /** The exchange is gone, or the server gave up waiting for the client: only a new call could help. */
  get isLost(): boolean {
    return isLost(this.state) && !this.isHeldElsewhere;
  }

  /** The call could not be taken up only because its owner, frozen or cut off, still reads its stream. */
  get isHeldElsewhere(): boolean {
    return this.#server.heldElsewhere;
  }

  /** A retry of this call with an opened pointer to `round`. */
  retry(round: number, request: EdgeRequest, leg: Leg): Promise<CallReply> {
    return this.#client.retry(round, request, leg);
  }

  /** Lets whoever waits come again with state alone, where the call is in a state for that. */
  letClientsCome(): void {
    this.#machine.feed({ type: 'held' });
  }

  /** True while the stream of a call that was taken up is not had yet, or was lost again. */
  get isBroken(): boolean {
    return isBroken(this.state);
  }

  /** Leaves the call to whichever replica has it. */
  leave(): void {
    this.#machine.feed({ type: 'takenOver' });
  }

  /**
   * The process stops: end the call as well as that can be done.
   * @param hasHeirs whether there will be another process that can take it up
   */
  drain(hasHeirs: boolean): void {
    this.#machine.feed({ type: 'drain', resumable: this.outlives(hasHeirs) });
  }

  /**
   * Whether the call can go on when this process has stopped.
   * @param hasHeirs whether there will be another process that can take it up
   */
  outlives(hasHeirs: boolean): boolean {
    return hasHeirs && this.#isKeptElsewhere;
  }

  /** What another process would need to go on with the call, the client or a store or the server has. */
  get #isKeptElsewhere(): boolean {
    switch (this.state.name) {
      case 'settled':
        return this.#context.keepsOutcomes;
      case 'suspended':
        return true;
      default:
        return this.#exchange.resumePoint !== null;
    }
  }

  #begin({ state, effects }: Step): void {
    this.#machine.begin(state);
    this.#context.moved(state);
    this.#carryOut(effects);
  }

  #onMoved(transition: Transition): void {
    const { event, to } = transition;
    this.#log.moved(transition);
    this.#timers.keepOnly(timersOf(to));
    this.#exchange.session?.keepAlive(isBroken(to) || WAITS_FOR_CLIENT.has(to.name));
    // Nothing is sent before the client comes back.
    if (isDetached(to)) this.#exchange.forgetParams();
    this.#context.moved(to);
    this.#carryOut(transition.effects);
    if (event.type === 'retry') this.#client.retried(event);
    this.#keepOutcome(to);
    if (to.name !== 'done') return;
    // Without a pointer in the client's hands nobody can come back for it.
    if (!this.#rounds.pointed || to.end.type === 'left') this.#forget();
  }

  #keepOutcome(state: CallState): void {
    if (state.name === 'done' && state.end.type === 'outcome' && state.consumed !== null) {
      this.#context.keep({ ...state.consumed, answer: this.#replies.answerOf(state.end) });
    }
    // A server that gave up waiting is better asked anew, where that is allowed.
    if (state.name === 'settled' && !(isLost(state) && this.#context.mayReplay)) {
      const { round, outcome } = state;
      const answer = this.#replies.answerOf({ type: 'outcome', outcome });
      this.#context.keep({ round, answersDigest: null, answer });
    }
  }

  #carryOut(effects: readonly Effect[]): void {
    for (const effect of effects) this.#carryOutOne(effect);
  }

  #carryOutOne(effect: Effect): void {
    switch (effect.do) {
      case 'reply':
        return this.#client.reply(effect);
      case 'post': {
        const leg = this.#client.leg(effect.leg);
        if (leg !== undefined) void this.#server.post(leg, effect.requests);
        return;
      }
      case 'callAgain': {
        const leg = this.#client.leg(effect.leg);
        if (leg !== undefined) void this.#server.launchAgain(leg);
        return;
      }
      case 'closeOut':
        return this.#server.closeOut(effect.requests);
      case 'cancelUpstream':
        return this.#server.cancel(effect.open);
      case 'release':
        return this.#exchange.release(effect.clean);
      case 'leave':
        return this.#exchange.leave();
      case 'retryWaiting':
        return this.#client.retryAgain(effect.retries);
      case 'arm':
        return this.#timers.arm(effect.timer, effect.afterMs);
    }
  }

  #onTimer(timer: TimerName): void {
    switch (timer) {
      case 'gather':
        return this.#machine.feed({ type: 'gathered', mayPark: this.#context.hasRoom() });
      case 'grace':
        return this.#machine.feed({ type: 'ended' });
      case 'redeliver':
        return this.#forget();
      case 'hold':
        return this.#machine.feed({ type: 'held' });
      default:
        return this.#machine.feed({ type: 'expired', timer });
    }
  }

  #forget(): void {
    this.#timers.keepOnly([]);
    this.#context.moved(null);
  }
}

const WAITS_FOR_CLIENT: ReadonlySet<CallState['name']> = new Set(['parked', 'idle', 'suspended']);

/** The limits of a call that is taken up, a part of whose time is over. */
function limitsLeft({ limits, clock }: CallContext, { startedAtMs }: Continuation): CallLimits {
  return { ...limits, callTtlMs: Math.max(0, startedAtMs + limits.callTtlMs - clock.now()) };
}

function digestOf(request: EdgeRequest): string {
  return answersDigest(request.inputResponses ?? {});
}
