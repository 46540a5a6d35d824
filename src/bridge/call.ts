/**
 * One call while it lives: carries out what the parked-call table asks for. It holds the call's
 * exchange, its session, its waiting legs and its timers, and frees them all when the call is over.
 */
import type { Clock, Timer } from '../clock.ts';
import type { Log } from '../ops/log.ts';
import { completeResult, inputRequiredResult, type CacheFields } from '../protocol/edge-result.ts';
import { edgeError, readUrlElicitations } from '../protocol/error-map.ts';
import type { CallId, InputKey, ServerRequestId } from '../protocol/ids.ts';
import { closeOutReply } from '../protocol/input-request.ts';
import { objectMember, type JsonObject } from '../protocol/json.ts';
import { LegacyErrorCode, type JsonRpcReply } from '../protocol/json-rpc.ts';
import { upstreamParams } from '../protocol/upstream-params.ts';
import { answersDigest } from '../seal/answers-digest.ts';
import type { AnsweredQuestion, Continuation, ResumePoint } from '../seal/pointer.ts';
import type { Exchange, ExchangeListener } from '../upstream/session.ts';
import type { Lease, SessionPool } from '../upstream/session-pool.ts';
import { asUpstreamFailure, type UpstreamFailure } from '../upstream/upstream-failure.ts';
import {
  TIMERS,
  type CallEnd,
  type CallEvent,
  type CallLimits,
  type CallState,
  type ConsumedRetry,
  type Effect,
  type LegId,
  type LegReply,
  type OpenRequest,
  type RetryEvent,
  type TimerName,
} from './call-state.ts';
import {
  ANSWERS_NOT_TAKEN,
  CALL_CANCELLED,
  CALL_LOST,
  COORDINATION_UNAVAILABLE,
  ELICITATION_DECLINED,
  failureOfUpstream,
  illFormedAnswer,
  INVALID_STATE,
  missingCapability,
  refusal,
} from './failures.ts';
import { failedCallAnswer } from './failed-call-answer.ts';
import type { CallAnswer, EdgeRequest, Leg } from './leg.ts';
import { Notifications, type Listener } from './notifications.ts';
import type { CallOutcome, Failure } from './outcome.ts';
import { Questions } from './questions.ts';
import { sessionOwnerOf } from './session-owner.ts';
import { step } from './transitions.ts';
import { adopt, begin } from './transitions/beginning.ts';
import { openRequests } from './transitions/open-requests.ts';

/** What a call needs of its surroundings. */
export interface CallContext {
  readonly id: CallId;
  readonly route: string;
  readonly pool: SessionPool;
  readonly limits: CallLimits;
  readonly clock: Clock;
  readonly log: Log;
  /** The operator's keys for this tool's questions. */
  readonly keyNames: readonly string[];
  readonly keysFromStringIds: boolean;
  /** Ends a call at once when the server asks for what the client did not declare. */
  readonly strictCapabilities: boolean;
  /** How long to wait for the server's word that its URLs were visited. */
  readonly urlVisitWaitMs: number;
  /** How long who may keep the outcome, where it is one that may be kept. */
  readonly caching: CacheFields;
  hasRoom(): boolean;
  /** Called after each move; the last time with `done`, and once more with `null` when forgotten. */
  moved(state: CallState | null): void;
  /** Whether the operator allows this call to be made anew when it is lost. */
  readonly mayReplay: boolean;
  /** Whether a parked call is let go at once when the server keeps it. */
  readonly leaveWhenParked: boolean;
  /**
   * Seals a pointer to the given round of this call.
   * @param continuation what another replica needs to go on with the call, when one could
   */
  point(round: number, expiresAtMs: number, continuation: Continuation | null): Promise<Pointed>;
  /** Keeps what the accepted retry came to, for a client that lost the answer and asks elsewhere. */
  keep(retry: ConsumedRetry, answer: CallAnswer): void;
  /** False when another replica has taken the call up meanwhile: then it is not ours to end. */
  isOurs(): Promise<boolean>;
}

/** A sealed pointer, and whether what was given for its continuation found room in it. */
export interface Pointed {
  readonly requestState: string;
  readonly continues: boolean;
}

interface AttachedLeg extends Listener {
  readonly request: EdgeRequest;
  readonly replies: ReadonlyMap<InputKey, JsonRpcReply>;
  readonly answer: (answer: CallAnswer | Promise<CallAnswer>) => void;
  readonly detach: () => void;
}

export class Call {
  readonly #context: CallContext;
  readonly #first: EdgeRequest;
  readonly #questions: Questions;
  readonly #notifications = new Notifications();
  readonly #legs = new Map<LegId, AttachedLeg>();
  readonly #timers = new Map<TimerName, Timer>();
  readonly #startedAtMs: number;
  #state: CallState;
  /** The request whose declarations and credentials count now: the newest leg's. */
  #newest: EdgeRequest;
  #nextLeg: LegId = 1;
  #lease: Lease | null = null;
  #exchange: Exchange | null = null;
  /** Grows with each exchange, so that a late word of an earlier one is not heard. */
  #generation = 0;
  #answeredOnce = false;
  #lastRound: Promise<CallAnswer> | null = null;
  /** A client holds a pointer to this call and may come back with it. */
  #pointed = false;
  /** How the next retry that goes on reached its call. */
  #rung: 'here' | 'reattach' = 'here';
  #closingOut: Promise<unknown> = Promise.resolve();
  #unauthorized: Failure | null = null;
  #serverInfo: JsonObject | null = null;
  #madeAnew = false;
  /** The server may still be at work on something of ours, so the session is not for reuse. */
  #tainted = false;
  /** The elicitations whose completion is worth waiting for before the call is made again. */
  #visiting: readonly string[] = [];
  /** What the server was answered, while the call may be made anew. */
  #answered: AnsweredQuestion[] = [];
  /** Of these, what the server has not asked again yet since the call was made anew. */
  #toRepeat: AnsweredQuestion[] = [];

  private constructor(context: CallContext, request: EdgeRequest) {
    this.#context = context;
    this.#first = request;
    this.#newest = request;
    this.#startedAtMs = context.clock.now();
    this.#state = begin(0, context.limits).state;
    this.#questions = new Questions({
      names: context.keyNames,
      fromStringIds: context.keysFromStringIds,
      revealsSession: (text) => this.#lease?.session.reveals(text) ?? false,
    });
  }

  /** Starts a call for its first leg; the promise is that leg's answer. */
  static start(
    context: CallContext,
    request: EdgeRequest,
    leg: Leg,
  ): { call: Call; answer: Promise<CallAnswer> } {
    const call = new Call(context, request);
    const { id, answer } = call.#attach(request, leg, new Map());
    const first = begin(id, context.limits);
    call.#state = first.state;
    context.moved(first.state);
    call.#carryOut(first.effects);
    void call.#launch(false);
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
  ): { call: Call; answer: Promise<CallAnswer> } {
    const call = new Call(context, request);
    const open = call.#questions.restore(continuation.questions);
    call.#answered = [...(continuation.replay ?? [])];
    const first = adopt(round, open, context.limits);
    call.#rung = 'reattach';
    call.#pointed = true;
    call.#state = first.state;
    context.moved(first.state);
    call.#carryOut(first.effects);
    const answer = call.retry(round, request, leg);
    void call.#takeUp(continuation.resume);
    return { call, answer };
  }

  /**
   * Makes a call anew that was lost, for the retry that its client sent: what the server asks again is
   * answered from what it was answered before, and from this retry. `null` instead of a call when the
   * retry itself settles it.
   */
  static replay(
    context: CallContext,
    round: number,
    continuation: Continuation & { readonly replay: readonly AnsweredQuestion[] },
    request: EdgeRequest,
    leg: Leg,
  ): { call: Call | null; answer: Promise<CallAnswer> } {
    const call = new Call(context, request);
    const open = call.#questions.restore(continuation.questions);
    const read = call.#questions.read(open, request.inputResponses);
    if (read.type === 'ill-formed') {
      const failure = illFormedAnswer(read.key, read.problem);
      return { call: null, answer: Promise.resolve({ kind: 'failed', failure }) };
    }
    if (read.declined) {
      const answer = failedCallAnswer(request.method, ELICITATION_DECLINED, null);
      return { call: null, answer: Promise.resolve(answer) };
    }
    call.#answered = [...continuation.replay];
    for (const [key, reply] of read.replies) {
      call.#answered.push({ question: call.#questions.digestOf(key), reply });
    }
    call.#toRepeat = [...call.#answered];
    const { id, answer } = call.#attach(request, leg, new Map());
    const digest = answersDigest(request.inputResponses ?? {});
    const first = begin(id, context.limits, { round, answersDigest: digest });
    call.#pointed = true;
    call.#state = first.state;
    context.moved(first.state);
    call.#carryOut(first.effects);
    void call.#launch(true);
    return { call, answer };
  }

  get state(): CallState {
    return this.#state;
  }

  /** Forgets the call here and now; what it holds is freed. */
  drop(): void {
    this.#feed({ type: 'evict' });
    if (this.#state.name === 'done') this.#forget();
  }

  /**
   * True when the retry is one that this call is waiting for, or has had, and the call is lost: making
   * it anew is all that could help.
   */
  isLostFor(round: number, request: EdgeRequest): boolean {
    const state = this.#state;
    if (!this.isLost || (state.name !== 'done' && state.name !== 'settled')) return false;
    const { consumed } = state;
    const digest = answersDigest(request.inputResponses ?? {});
    const isRepeated = consumed?.round === round && consumed.answersDigest === digest;
    return round === state.round || isRepeated;
  }

  /** The exchange is gone, or the server gave up waiting for the client: only a new call could help. */
  get isLost(): boolean {
    const state = this.#state;
    if (state.name === 'done') return state.end.type === 'lost';
    return state.name === 'settled' && isFailure(state.outcome);
  }

  /** A retry of this call with an opened pointer to `round`. */
  retry(round: number, request: EdgeRequest, leg: Leg): Promise<CallAnswer> {
    const open = round === this.#currentRound() ? openRequests(this.#state) : [];
    const read = this.#questions.read(open, request.inputResponses);
    if (read.type === 'ill-formed') {
      return Promise.resolve({ kind: 'failed', failure: illFormedAnswer(read.key, read.problem) });
    }
    const { id, answer, attached } = this.#attach(request, leg, read.replies);
    this.#feed({
      type: 'retry',
      leg: id,
      round,
      answersDigest: answersDigest(request.inputResponses ?? {}),
      answered: [...read.replies.keys()],
      uncovered: this.#questions.uncovered(
        open.map((question) => question.key),
        request.profile,
      ),
      declined: read.declined,
    });
    if (this.#legs.has(id)) this.#notifications.catchUp(attached);
    return answer;
  }

  /** The process stops: end the call as well as that can be done. */
  drain(): void {
    this.#feed({ type: 'drain', resumable: this.#resumePoint() !== null });
  }

  /** The round that a pointer must name to be answered now, or 0. */
  #currentRound(): number {
    const state = this.#state.name === 'broken' ? this.#state.interrupted : this.#state;
    return state.name === 'parked' || state.name === 'suspended' ? state.round : 0;
  }

  // Legs.

  #attach(request: EdgeRequest, leg: Leg, replies: ReadonlyMap<InputKey, JsonRpcReply>) {
    const id = this.#nextLeg;
    this.#nextLeg += 1;
    const { promise: answer, resolve } = Promise.withResolvers<CallAnswer>();
    const onClosed = () => {
      if (this.#legs.delete(id)) this.#feed({ type: 'legClosed', leg: id });
    };
    const attached: AttachedLeg = {
      leg,
      request,
      replies,
      progressToken: request.progressToken,
      logLevel: request.logLevel,
      answer: resolve,
      detach: () => leg.closed.removeEventListener('abort', onClosed),
    };
    this.#legs.set(id, attached);
    leg.closed.addEventListener('abort', onClosed);
    if (leg.closed.aborted) queueMicrotask(onClosed);
    return { id, answer, attached };
  }

  #reply(legs: readonly LegId[], reply: LegReply): void {
    for (const id of legs) {
      const attached = this.#legs.get(id);
      if (attached === undefined) continue;
      this.#legs.delete(id);
      attached.detach();
      attached.answer(this.#answerTo(reply));
    }
  }

  #answerTo(reply: LegReply): CallAnswer | Promise<CallAnswer> {
    switch (reply.type) {
      case 'end':
        return this.#answerOfEnd(reply.end);
      case 'inputRequired':
        this.#lastRound = this.#inputRequired(reply.round, reply.keys);
        return this.#lastRound;
      case 'sameInputRequired':
        return this.#lastRound ?? { kind: 'failed', failure: INVALID_STATE };
      case 'invalidRequestState':
        this.#context.log.event('pointer.refused', {
          route: this.#context.route,
          call: this.#context.id,
          reason: reply.reason,
        });
        return { kind: 'failed', failure: INVALID_STATE };
      case 'missingCapability':
        return {
          kind: 'failed',
          failure: missingCapability(this.#questions.requiredFor(reply.keys)),
        };
      case 'unauthorized':
        return { kind: 'failed', failure: this.#unauthorized ?? CALL_LOST };
      case 'unreachable':
        return { kind: 'failed', failure: ANSWERS_NOT_TAKEN };
    }
  }

  #answerOfEnd(end: CallEnd): CallAnswer {
    switch (end.type) {
      case 'outcome':
        return this.#answerOfOutcome(end.outcome);
      case 'declined':
        return failedCallAnswer(this.#first.method, ELICITATION_DECLINED, this.#serverInfo);
      case 'lost':
        return failedCallAnswer(this.#first.method, CALL_LOST, this.#serverInfo);
      case 'cancelled':
        return { kind: 'failed', failure: CALL_CANCELLED };
      case 'left':
        return { kind: 'failed', failure: COORDINATION_UNAVAILABLE };
      case 'expired':
        return { kind: 'failed', failure: INVALID_STATE };
      case 'refused':
        return { kind: 'failed', failure: refusal(end.reason) };
    }
  }

  #answerOfOutcome(outcome: CallOutcome): CallAnswer {
    if (outcome.kind === 'failed') return { kind: 'failed', failure: outcome.failure };
    return {
      kind: 'result',
      result: completeResult(this.#first.method, outcome.result, {
        serverInfo: this.#serverInfo,
        // Once the client had a pointer, the outcome belongs to what it sent with it.
        cacheable: !this.#pointed,
        caching: this.#context.caching,
      }),
    };
  }

  async #inputRequired(round: number, keys: readonly InputKey[]): Promise<CallAnswer> {
    const { clock, limits } = this.#context;
    const expiresAtMs = Math.min(
      clock.now() + limits.parkTtlMs,
      this.#startedAtMs + limits.callTtlMs,
    );
    const inputRequests = this.#questions.inputRequests(keys);
    this.#pointed = true;
    const continuation = this.#continuation(keys);
    const pointed = await this.#context.point(round, expiresAtMs, continuation);
    const leaves = this.#context.leaveWhenParked && pointed.continues && continuation?.resume;
    if (leaves && this.#state.name === 'parked') this.#feed({ type: 'drain', resumable: true });
    return {
      kind: 'result',
      result: inputRequiredResult(inputRequests, pointed.requestState, this.#serverInfo),
    };
  }

  /** What another replica would need to go on with the call, when it could. */
  #continuation(keys: readonly InputKey[]): Continuation | null {
    const resume = this.#resumePoint();
    // A call that the server ended with URLs to visit (-32042) is made anew in any case.
    const again = this.#context.mayReplay || this.#state.name === 'suspended';
    if (resume === null && !again) return null;
    const questions = this.#questions.sealed(keys);
    return { questions, resume, replay: again ? this.#answered : null };
  }

  /** Where another replica could read on now, when the server keeps the call for that. */
  #resumePoint(): ResumePoint | null {
    const exchange = this.#exchange;
    const point = exchange?.resumable() ?? null;
    return exchange === null || point === null ? null : { ...point, upstreamId: exchange.id };
  }

  // The machine.

  #feed(event: CallEvent): void {
    const from = this.#state;
    const { state, effects, row } = step(from, event, this.#context.limits);
    if (row === null) return;
    this.#state = state;
    const { log, route, id } = this.#context;
    log.event('call.moved', { route, call: id, rule: row.rule, from: from.name, to: state.name });
    this.#logMove(from, state, effects);
    this.#stopTimers();
    this.#lease?.session.keepAlive(WAITS_FOR_CLIENT.has(state.name));
    this.#context.moved(state);
    this.#carryOut(effects);
    if (state.name === 'done' && state.end.type === 'outcome' && state.consumed !== null) {
      this.#context.keep(state.consumed, this.#answerOfOutcome(state.end.outcome));
    }
    // Without a pointer in the client's hands nobody can come back for it.
    if (state.name === 'done' && (!this.#pointed || state.end.type === 'left')) this.#forget();
  }

  #forget(): void {
    for (const timer of this.#timers.values()) timer.cancel();
    this.#timers.clear();
    this.#context.moved(null);
  }

  #carryOut(effects: readonly Effect[]): void {
    for (const effect of effects) {
      switch (effect.do) {
        case 'reply':
          this.#reply(effect.legs, effect.reply);
          break;
        case 'post':
          void this.#post(effect.leg, effect.requests);
          break;
        case 'callAgain':
          void this.#callAgain();
          break;
        case 'closeOut':
          this.#closeOut(effect.requests);
          break;
        case 'cancelUpstream':
          this.#cancelUpstream();
          break;
        case 'release':
          this.#release(effect.clean);
          break;
        case 'leave':
          this.#leave();
          break;
        case 'retryWaiting':
          this.#retryWaiting(effect.retries);
          break;
        case 'arm':
          this.#arm(effect.timer, effect.afterMs);
          break;
      }
    }
  }

  #arm(timer: TimerName, afterMs: number): void {
    this.#timers.get(timer)?.cancel();
    this.#timers.set(
      timer,
      this.#context.clock.setTimer(afterMs, () => {
        this.#timers.delete(timer);
        this.#onTimer(timer);
      }),
    );
  }

  #onTimer(timer: TimerName): void {
    switch (timer) {
      case 'gather':
        return this.#feed({ type: 'gathered', mayPark: this.#context.hasRoom() });
      case 'grace':
        return this.#feed({ type: 'ended' });
      case 'redeliver':
        return this.#forget();
      case 'hold':
        return this.#feed({ type: 'held' });
      default:
        return this.#feed({ type: 'expired', timer });
    }
  }

  #stopTimers(): void {
    for (const [name, timer] of this.#timers) {
      if (TIMERS[this.#state.name].includes(name)) continue;
      timer.cancel();
      this.#timers.delete(name);
    }
  }

  // The exchange.

  /** Sends the request upstream. */
  async #launch(freshSession: boolean): Promise<void> {
    const generation = (this.#generation += 1);
    const request = this.#newest;
    const { method, params, forwardedMeta, logLevel, caller } = request;
    try {
      this.#lease ??= await this.#context.pool.lease(sessionOwnerOf(request), freshSession);
      if (generation !== this.#generation || this.#isOver()) return this.#release(true);
      const { session } = this.#lease;
      this.#serverInfo = objectMember(session.initializeResult.raw, 'serverInfo') ?? null;
      if (logLevel !== null) await session.ensureLogLevel(logLevel, caller.headers);
      if (generation !== this.#generation || this.#isOver()) return this.#release(true);
      this.#exchange = session.call(
        method,
        (token) => upstreamParams(params, { progressToken: token, forwardedMeta }),
        this.#listener(generation),
        caller.headers,
      );
      await this.#exchange.accepted;
    } catch (error) {
      if (generation === this.#generation) this.#onNotTaken(asUpstreamFailure(error, true));
    }
  }

  /** Reads on where another replica stopped. */
  async #takeUp(resume: ResumePoint): Promise<void> {
    const generation = (this.#generation += 1);
    const { headers } = this.#newest.caller;
    try {
      this.#lease = await this.#context.pool.adopt(sessionOwnerOf(this.#newest), resume.revision);
      const { session } = this.#lease;
      if (generation !== this.#generation || this.#isOver()) return this.#leave();
      this.#serverInfo = objectMember(session.initializeResult.raw, 'serverInfo') ?? null;
      const listener = this.#listener(generation);
      this.#exchange = session.resumeCall(
        resume.upstreamId,
        resume,
        // A question without a relation to its call is dropped while there is no stream for it.
        {
          ...listener,
          resumed: () => void session.openStandaloneStream(headers).then(listener.resumed),
        },
        headers,
      );
    } catch (error) {
      if (generation !== this.#generation) return;
      this.#logFailure(asUpstreamFailure(error, true));
      this.#feed({ type: 'lost' });
    }
  }

  /** The request was not taken. A session that the server had forgotten is made anew, once. */
  #onNotTaken(failure: UpstreamFailure): void {
    const forgotten = failure.code === 'session_gone' && !failure.details.mayHaveActed;
    if (forgotten && !this.#madeAnew && this.#state.name === 'running' && !this.#answeredOnce) {
      this.#madeAnew = true;
      this.#release(false);
      void this.#launch(true);
      return;
    }
    this.#logFailure(failure);
    this.#tainted = failure.code !== 'unauthorized';
    this.#feed({
      type: 'outcome',
      outcome: { kind: 'failed', failure: failureOfUpstream(failure) },
    });
  }

  /** The URLs were visited: the call is made again, in the same session while it lives. */
  async #callAgain(): Promise<void> {
    const session = this.#lease?.session;
    const ids = this.#visiting;
    if (session !== undefined && !session.dead) {
      await session.urlsVisited(ids, this.#context.urlVisitWaitMs);
    } else {
      this.#release(false);
    }
    if (!this.#isOver()) await this.#launch(false);
  }
  #listener(generation: number): ExchangeListener {
    const current = () => generation === this.#generation;
    return {
      asked: (id, method, params) => current() && this.#onAsked(id, method, params),
      withdrawn: (id) => current() && this.#feed({ type: 'withdrawn', id }),
      notified: (method, params) => {
        if (current()) this.#notifications.deliver(method, params, this.#legs.values());
      },
      replied: (reply) => current() && this.#onReplied(reply),
      interrupted: () => {
        if (!current()) return;
        this.#feed({ type: 'interrupted' });
        // Whoever reads a call's stream takes it from those who read it before.
        void this.#giveWay();
      },
      resumed: () => current() && this.#feed({ type: 'resumed' }),
      lost: (failure) => {
        if (!current()) return;
        if (failure.code === 'session_gone' && this.#state.name === 'running') {
          this.#onNotTaken(failure);
          return;
        }
        this.#logFailure(failure);
        this.#feed({ type: 'lost' });
      },
    };
  }

  #onAsked(id: ServerRequestId, method: string, params: JsonObject): void {
    const { clock, log, route, strictCapabilities } = this.#context;
    const session = this.#lease?.session;
    if (session === undefined) return;
    const { profile } = this.#newest;
    const revision = session.initializeResult.protocolVersion;
    const asked = this.#questions.ask(id, method, params, profile, revision);
    if (asked.type === 'open') {
      if (this.#repeatAnswer(id, asked.request.key)) return;
      this.#feed({ type: 'asked', request: asked.request, atMs: clock.now() });
      return;
    }
    log.event('call.question_refused', {
      route,
      call: this.#context.id,
      method,
      reason: asked.reason,
    });
    this.#respond(id, { error: asked.error });
    const required = this.#questions.refusedCapabilities;
    if (strictCapabilities && required !== null) {
      const exchange = this.#exchange;
      void exchange?.cancel('the client lacks a required capability', this.#newest.caller.headers);
      this.#tainted = true;
      this.#feed({
        type: 'outcome',
        outcome: { kind: 'failed', failure: missingCapability(required) },
      });
    }
  }

  /** Answers a question of a call that was made anew as it was answered before; false if it never was. */
  #repeatAnswer(id: ServerRequestId, key: InputKey): boolean {
    if (this.#toRepeat.length === 0) return false;
    const digest = this.#questions.digestOf(key);
    const at = this.#toRepeat.findIndex(({ question }) => question === digest);
    const [answered] = at < 0 ? [] : this.#toRepeat.splice(at, 1);
    if (answered === undefined) return false;
    void this.#respond(id, answered.reply);
    return true;
  }

  #onReplied(reply: JsonRpcReply): void {
    if ('error' in reply && reply.error.code === LegacyErrorCode.urlElicitationRequired) {
      const open = this.#urlQuestions(reply);
      if (open.length > 0) {
        this.#visiting = this.#questions.elicitationIds(open.map((question) => question.key));
        this.#feed({ type: 'urlsRequired', requests: open, mayPark: this.#context.hasRoom() });
        return;
      }
    }
    this.#feed({ type: 'outcome', outcome: this.#outcomeOf(reply) });
  }

  #urlQuestions(reply: { error: Parameters<typeof readUrlElicitations>[0] }): OpenRequest[] {
    const elicitations = readUrlElicitations(reply.error);
    const { profile } = this.#newest;
    const revision = this.#lease?.session.initializeResult.protocolVersion;
    if (elicitations === null || !profile.elicitationUrl || revision === undefined) return [];
    return this.#questions.askUrls(elicitations, profile, revision);
  }

  /**
   * A failure that follows a question which the client could not have been asked is reported as the
   * missing capability; a success shows that the question was not required after all.
   */
  #outcomeOf(reply: JsonRpcReply): CallOutcome {
    const required = this.#questions.refusedCapabilities;
    if ('result' in reply) {
      if (reply.result['isError'] === true && required !== null) {
        return { kind: 'failed', failure: missingCapability(required) };
      }
      return { kind: 'complete', result: reply.result };
    }
    if (required !== null) {
      return { kind: 'failed', failure: missingCapability(required, reply.error) };
    }
    return { kind: 'failed', failure: edgeError(this.#first.method, reply.error) };
  }

  async #post(leg: LegId, requests: readonly OpenRequest[]): Promise<void> {
    const attached = this.#legs.get(leg);
    const session = this.#lease?.session;
    if (attached === undefined || session === undefined) return;
    this.#newest = attached.request;
    const { headers } = attached.request.caller;
    const accepted: ServerRequestId[] = [];
    const generation = this.#generation;
    for (const { key, id } of requests) {
      const reply = attached.replies.get(key);
      if (id === null || reply === undefined) continue;
      try {
        await session.respond(id, reply, headers).catch(async (error: unknown) => {
          // The same message again is harmless: a question is settled by its first answer.
          if (asUpstreamFailure(error, true).code !== 'upstream_unavailable') throw error;
          await session.respond(id, reply, headers);
        });
        accepted.push(id);
        this.#answeredOnce = true;
        if (this.#context.mayReplay) {
          this.#answered.push({ question: this.#questions.digestOf(key), reply });
        }
      } catch (error) {
        if (generation !== this.#generation) return;
        this.#onPostRefused(asUpstreamFailure(error, true), accepted);
        return;
      }
    }
    if (generation === this.#generation) this.#feed({ type: 'posted' });
  }

  #onPostRefused(failure: UpstreamFailure, accepted: readonly ServerRequestId[]): void {
    const { log, route, id } = this.#context;
    const cause =
      failure.code === 'session_gone'
        ? 'sessionGone'
        : failure.code === 'unauthorized'
          ? 'unauthorized'
          : 'unreachable';
    if (cause === 'unauthorized') this.#unauthorized = failureOfUpstream(failure);
    log.event('call.answer_refused', { route, call: id, round: this.#round(), cause });
    this.#feed({ type: 'postRefused', cause, accepted });
  }

  #closeOut(requests: readonly OpenRequest[]): void {
    const replies = requests.map(({ key, id }) => {
      if (id === null) return Promise.resolve();
      return this.#respond(id, closeOutReply(this.#questions.kindOf(key)));
    });
    this.#closingOut = Promise.all(replies);
  }

  #respond(id: ServerRequestId, reply: JsonRpcReply): Promise<void> {
    const session = this.#lease?.session;
    if (session === undefined) return Promise.resolve();
    return session.respond(id, reply, this.#newest.caller.headers).catch(() => {});
  }

  #cancelUpstream(): void {
    const exchange = this.#exchange;
    const { headers } = this.#newest.caller;
    if (exchange === null) {
      // Not sent yet: whatever is being opened for it is released when it is there.
      queueMicrotask(() => this.#feed({ type: 'ended' }));
      return;
    }
    const cancel = async () => {
      await this.#closingOut;
      if (await this.#context.isOurs()) {
        await exchange.cancel('the client cancelled the call', headers);
      } else {
        this.#tainted = true;
        this.#leave();
        this.#feed({ type: 'ended' });
      }
    };
    void cancel();
  }

  /** Leaves a call that another replica has taken up while this process was not to be heard. */
  async #giveWay(): Promise<void> {
    if (!(await this.#context.isOurs())) this.#feed({ type: 'takenOver' });
  }

  /** Frees what is here; the server keeps the session and the call. */
  #leave(): void {
    this.#generation += 1;
    this.#exchange?.abandon();
    this.#exchange = null;
    this.#lease?.leave();
    this.#lease = null;
  }

  #release(clean: boolean): void {
    this.#generation += 1;
    this.#exchange?.abandon();
    this.#exchange = null;
    const lease = this.#lease;
    const reusable = clean && !this.#tainted;
    this.#lease = null;
    void this.#closingOut.finally(() => lease?.release(reusable));
  }

  #retryWaiting(retries: readonly RetryEvent[]): void {
    for (const retry of retries) {
      if (this.#legs.has(retry.leg)) this.#feed(retry);
    }
  }

  #isOver(): boolean {
    return this.#state.name === 'cancelling' || this.#state.name === 'done';
  }

  #round(): number {
    return this.#state.name === 'broken' ? this.#state.interrupted.round : this.#state.round;
  }

  // What the operator sees.

  #logMove(from: CallState, to: CallState, effects: readonly Effect[]): void {
    const { log, route, id, clock } = this.#context;
    const asked = effects.find(
      (effect) => effect.do === 'reply' && effect.reply.type === 'inputRequired',
    );
    if (asked?.do === 'reply' && asked.reply.type === 'inputRequired') {
      const { round, keys } = asked.reply;
      log.event('call.parked', { route, call: id, round, questions: keys.length });
    } else if (from.name !== to.name && (to.name === 'resuming' || from.name === 'suspended')) {
      log.event('call.resumed', { route, call: id, round: this.#round(), rung: this.#rung });
      this.#rung = 'here';
    }
    if (to.name === 'settled' && from.name !== 'settled') {
      log.event('call.settled', { route, call: id, round: to.round });
    }
    if (to.name === 'done' && from.name !== 'done') {
      const end = to.end.type === 'outcome' ? to.end.outcome.kind : to.end.type;
      const ms = clock.now() - this.#startedAtMs;
      log.event('call.ended', { route, call: id, round: to.round, end, ms });
    }
  }

  #logFailure(failure: UpstreamFailure): void {
    const { log, route, id } = this.#context;
    log.event('upstream.failed', {
      route,
      call: id,
      method: this.#first.method,
      code: failure.code,
      problem: failure.message,
    });
  }
}

const WAITS_FOR_CLIENT: ReadonlySet<CallState['name']> = new Set([
  'parked',
  'idle',
  'suspended',
  'broken',
]);

function isFailure(outcome: CallOutcome): boolean {
  return outcome.kind === 'failed' || outcome.result['isError'] === true;
}
