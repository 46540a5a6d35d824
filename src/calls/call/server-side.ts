/**
 * The conversation of one call with its server: what the server says becomes events of the call, and
 * what the client answers goes to the server.
 */
import { readUrlElicitations } from '../../protocol/translate/error-map.ts';
import type { InputKey, ServerRequestId } from '../../protocol/ids.ts';
import { closeOutReply } from '../../protocol/translate/input-request.ts';
import type { JsonObject } from '../../protocol/json/json.ts';
import {
  ErrorCode,
  LegacyErrorCode,
  type JsonRpcErrorObject,
  type JsonRpcReply,
} from '../../protocol/json-rpc.ts';
import type { ResumePoint } from '../../seal/pointer.ts';
import type { Session } from '../../upstream/session/session.ts';
import { asUpstreamFailure, beforeRequest, type UpstreamFailure } from '../../upstream/failure.ts';
import type { CallState, OpenRequest } from '../machine/states.ts';
import { missingCapability, notAnswerable } from '../../model/failures.ts';
import { failureOfCall, losesCall } from '../../model/upstream-failures.ts';
import type { Failure } from '../../model/outcome.ts';
import type { Questions } from './questions.ts';
import { isBroken, openRequests } from '../machine/selectors.ts';
import type { CallContext } from './context.ts';
import type { CallExchange, CallExchangeListener, CloseOutReply } from './exchange.ts';
import type { GivenAnswers } from './given-answers.ts';
import type { AttachedLeg } from './legs.ts';
import type { CallLog } from './log.ts';
import type { Machine } from './machine.ts';
import { outcomeOfReply } from './outcome-of-reply.ts';

/** What the server is told that asks more at once than a client can be shown. */
const TOO_MANY_QUESTIONS = {
  code: ErrorCode.internalError,
  message: 'Too many questions are open at once',
};

export interface ServerSideParts {
  readonly context: CallContext;
  readonly machine: Machine;
  readonly exchange: CallExchange;
  readonly questions: Questions;
  readonly given: GivenAnswers;
  readonly log: CallLog;
  /** Called with each notification of the server that concerns the call. */
  readonly notified: (method: string, params: JsonObject) => void;
  /** Resolves when the client may take more; `null` while it does, or there is none. */
  readonly backlog: () => Promise<void> | null;
  /** Called when the work begins anew. */
  readonly restarted: () => void;
  /** Whether a client holds a pointer with which the call can be taken up. */
  readonly resumable: () => boolean;
}

export class ServerSide {
  readonly #parts: ServerSideParts;
  readonly #listener: CallExchangeListener;
  #answeredOnce = false;
  #begun = false;
  #madeAnew = false;
  #unauthorized: Failure | null = null;
  #heldElsewhere = false;
  readonly #withdrawn = new Set<ServerRequestId>();
  /** Why a question of the server was refused that may have been one of this call. */
  #unanswerable: Failure | null = null;
  /** The elicitations whose completion is worth waiting for before the call is made again. */
  #visiting: readonly string[] = [];

  constructor(parts: ServerSideParts) {
    const { machine } = parts;
    this.#parts = parts;
    this.#listener = {
      asked: (id, method, params) => this.#onAsked(id, method, params),
      withdrawn: (id) => {
        this.#withdrawn.add(id);
        machine.feed({ type: 'withdrawn', id });
        parts.questions.withdraw(id);
      },
      unanswerable: (method, cause) => {
        this.#begun = true;
        parts.log.questionRefused(method, `the server sends it to every session (${cause})`);
        this.#unanswerable = notAnswerable(cause);
      },
      notified: (method, params) => {
        this.#begun = true;
        parts.notified(method, params);
      },
      replied: (reply) => this.#onReplied(reply),
      interrupted: () => {
        machine.feed({ type: 'interrupted' });
        // Whoever reads a call's stream takes it from those who read it before.
        void this.#giveWay();
      },
      resumed: () => machine.feed({ type: 'resumed' }),
      lost: (failure) => this.#onLost(failure),
      backlog: parts.backlog,
      notTaken: (failure) => this.#onNotTaken(failure),
    };
  }

  /** The server is known to have begun the call: it was heard of in it, here or by another process. */
  get begun(): boolean {
    return this.#begun;
  }

  /** How the server refused the credentials of the last answers, if it did. */
  get unauthorized(): Failure | null {
    return this.#unauthorized;
  }

  /** The server gave the stream of the call to nobody else, since somebody reads it still. */
  get heldElsewhere(): boolean {
    return this.#heldElsewhere;
  }

  /**
   * Sends the request.
   * @param freshSession never in a session that was used before
   * @param again whether the call was made before and lost
   */
  launch(freshSession: boolean, again = false): void {
    this.#begun ||= again;
    void this.#parts.exchange.send(freshSession, this.#listener);
  }

  /** Reads on where another replica stopped, with these questions still open. */
  takeUp(resume: ResumePoint, open: readonly OpenRequest[]): void {
    this.#begun = true;
    const ids = open.flatMap(({ id }) => (id === null ? [] : [id]));
    void this.#parts.exchange.takeUp(resume, ids, this.#listener);
  }

  /** The URLs were visited: the call is made again for this leg, in the same session while it lives. */
  async launchAgain({ request }: AttachedLeg): Promise<void> {
    const { machine, exchange, context } = this.#parts;
    exchange.request = request;
    this.#parts.restarted();
    const { session } = exchange;
    if (session !== null && !session.dead) {
      await session.urlsVisited(this.#visiting, context.urlVisitWaitMs);
    } else {
      exchange.release(false);
    }
    if (!machine.isOver) await exchange.send(false, this.#listener);
  }

  /** Hands the answers that a leg brought to the server, one after the other. */
  async post({ request, replies }: AttachedLeg, requests: readonly OpenRequest[]): Promise<void> {
    const { machine, exchange } = this.#parts;
    const { session } = exchange;
    if (session === null) return;
    exchange.request = request;
    const accepted: ServerRequestId[] = [];
    const isCurrent = exchange.whileThisOne();
    for (const { key, id } of requests) {
      const reply = replies.get(key);
      if (id === null || reply === undefined) continue;
      try {
        await respondTwice(session, id, reply, request.caller.headers);
      } catch (error) {
        if (isCurrent()) this.#onPostRefused(asUpstreamFailure(error, true), accepted);
        return;
      }
      accepted.push(id);
      this.#onAnswered(key, reply);
    }
    if (isCurrent()) machine.feed({ type: 'posted' });
  }

  /** Answers what the server left open in a call that it has ended. */
  closeOut(requests: readonly OpenRequest[]): void {
    this.#parts.exchange.closeOut(() => this.#closeOutReplies(requests));
  }

  /**
   * Tells the server to stop, and answers its open questions when it has taken that: a tool that goes
   * on without an answer must find that it was cancelled.
   */
  cancel(open: readonly OpenRequest[]): void {
    const { machine, exchange } = this.#parts;
    exchange.cancel(
      () => this.#closeOutReplies(open),
      () => machine.feed({ type: 'ended' }),
    );
  }

  #closeOutReplies(requests: readonly OpenRequest[]): CloseOutReply[] {
    const { questions } = this.#parts;
    return requests.flatMap(({ key, id }) =>
      // What the server has taken back meanwhile wants no answer (cancellation, "Behavior Requirements").
      id === null || this.#withdrawn.has(id) ? [] : [[id, closeOutReply(questions.kindOf(key))]],
    );
  }

  #onAsked(id: ServerRequestId, method: string, params: JsonObject): void {
    const { context, machine, exchange, questions, given, log } = this.#parts;
    const { session } = exchange;
    if (session === null) return;
    this.#begun = true;
    if (!session.interactive) {
      // An answer would reach an instance that never asked, and the call would wait for ever.
      log.questionRefused(method, 'the server gave no session id');
      exchange.stop('the server asks, and gave no session in which it could be answered');
      this.#fail(notAnswerable('no_session_id'));
      return;
    }
    const { profile } = exchange.request;
    const revision = session.initializeResult.protocolVersion;
    const asked = questions.ask(id, method, params, profile, revision);
    if (asked.type === 'open') {
      const { request } = asked;
      const before = given.repeats ? given.repeat(questions.digestOf(request.key)) : undefined;
      if (before !== undefined) {
        questions.withdraw(id);
        void exchange.respond(id, before);
      } else if (this.#isRoundFull()) {
        questions.withdraw(id);
        log.questionRefused(method, 'too many questions in one round');
        void exchange.respond(id, { error: TOO_MANY_QUESTIONS });
      } else {
        machine.feed({ type: 'asked', request, atMs: context.clock.now() });
      }
      return;
    }
    log.questionRefused(method, asked.reason);
    void exchange.respond(id, { error: asked.error });
    const required = questions.refusedCapabilities;
    if (context.strictCapabilities && required !== null) {
      exchange.stop('the client lacks a required capability');
      this.#fail(missingCapability(required));
    }
  }

  #isRoundFull(): boolean {
    const { context, machine } = this.#parts;
    return openRequests(machine.state).length >= context.limits.maxInputRequestsPerRound;
  }

  #onReplied(reply: JsonRpcReply): void {
    const { context, machine, exchange, questions } = this.#parts;
    this.#begun = true;
    if ('error' in reply && reply.error.code === LegacyErrorCode.urlElicitationRequired) {
      const requests = this.#urlQuestions(reply.error);
      if (requests.length > 0) {
        this.#visiting = questions.elicitationIds(requests.map(({ key }) => key));
        machine.feed({ type: 'urlsRequired', requests, mayPark: context.hasRoom() });
        return;
      }
    }
    const { method } = exchange.request;
    const failed = 'error' in reply || reply.result['isError'] === true;
    if (failed && this.#unanswerable !== null) return this.#fail(this.#unanswerable);
    const outcome = outcomeOfReply(method, reply, questions.refusedCapabilities);
    machine.feed({ type: 'outcome', outcome });
  }

  #urlQuestions(error: JsonRpcErrorObject): OpenRequest[] {
    const { exchange, questions } = this.#parts;
    const elicitations = readUrlElicitations(error);
    const { profile } = exchange.request;
    const revision = exchange.session?.initializeResult.protocolVersion;
    if (elicitations === null || !profile.elicitationUrl || revision === undefined) return [];
    return questions.askUrls(elicitations, profile, revision);
  }

  #onLost(failure: UpstreamFailure): void {
    const { machine, exchange, log, resumable } = this.#parts;
    const unacted = failure.code === 'session_gone' && !failure.details.mayHaveActed;
    if (unacted && isRunning(machine.state)) {
      this.#onNotTaken(failure);
      return;
    }
    log.upstreamFailed(failure);
    if (failure.code === 'streams_mixed') {
      exchange.stop('the stream of the call brought what belongs to another one');
      this.#fail(failureOfCall(failure, this.#begun));
      return;
    }
    if (failure.code === 'unauthorized' && resumable()) {
      this.#unauthorized = failureOfCall(beforeRequest(failure), true);
      machine.feed({ type: 'shutOut' });
      return;
    }
    this.#heldElsewhere = failure.details.httpStatus === 409;
    // Who reads it needs the session, too.
    if (this.#heldElsewhere) exchange.leave();
    machine.feed({ type: 'lost' });
  }

  /** The request was not taken. A session that the server had forgotten is made anew, once. */
  #onNotTaken(failure: UpstreamFailure): void {
    const { machine, exchange, log } = this.#parts;
    const forgotten = failure.code === 'session_gone' && !failure.details.mayHaveActed;
    if (forgotten && !this.#madeAnew && isRunning(machine.state) && !this.#answeredOnce) {
      this.#madeAnew = true;
      exchange.release(false);
      this.#parts.restarted();
      this.launch(true);
      return;
    }
    log.upstreamFailed(failure);
    exchange.tainted = failure.code !== 'unauthorized';
    if (losesCall(failure)) machine.feed({ type: 'lost' });
    else this.#fail(failureOfCall(failure, this.#begun));
  }

  #fail(failure: Failure): void {
    this.#parts.machine.feed({ type: 'outcome', outcome: { kind: 'failed', failure } });
  }

  #onAnswered(key: InputKey, reply: JsonRpcReply): void {
    const { context, questions, given } = this.#parts;
    this.#answeredOnce = true;
    if (context.mayReplay) given.add({ question: questions.digestOf(key), reply });
  }

  #onPostRefused(failure: UpstreamFailure, accepted: readonly ServerRequestId[]): void {
    const { machine, log } = this.#parts;
    const cause =
      failure.code === 'session_gone'
        ? 'sessionGone'
        : failure.code === 'unauthorized'
          ? 'unauthorized'
          : 'unreachable';
    if (cause === 'unauthorized') this.#unauthorized = failureOfCall(failure, true);
    log.answerRefused(machine.state, cause);
    machine.feed({ type: 'postRefused', cause, accepted });
  }

  /** Leaves a call that another replica has taken up while this process was not to be heard. */
  async #giveWay(): Promise<void> {
    const { context, machine } = this.#parts;
    if (!(await context.isOurs())) machine.feed({ type: 'takenOver' });
  }
}

/** The same message again is harmless: a question is settled by its first answer. */
async function respondTwice(
  session: Session,
  id: ServerRequestId,
  reply: JsonRpcReply,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  await session.respond(id, reply, headers).catch(async (error: unknown) => {
    if (asUpstreamFailure(error, true).code !== 'upstream_unavailable') throw error;
    await session.respond(id, reply, headers);
  });
}

/** A client waits, and the stream on which the server would answer is open. */
function isRunning(state: CallState): boolean {
  return state.name === 'running' && !isBroken(state);
}
