/**
 * How a retry is served whose call is not here, rung by rung: by the replica that holds the call
 * (relay), from the outcome that it left behind, by reading on where it stopped (reattach), by making
 * the call anew where the operator allows that (replay). When no rung holds, the client is told so.
 */
import { DirectoryUnavailable, type Directory } from '../lot/directory.ts';
import type { Log } from '../ops/log.ts';
import type { CallId } from '../protocol/ids.ts';
import { answersDigest } from '../seal/answers-digest.ts';
import type {
  AnsweredQuestion,
  Continuation,
  Pointer,
  PointerOwner,
  ResumePoint,
} from '../seal/pointer.ts';
import { openOutcome } from '../lot/sealed-outcome.ts';
import type { Call } from './call.ts';
import { failedCallAnswer } from './failed-call-answer.ts';
import { CALL_LOST, COORDINATION_UNAVAILABLE } from './failures.ts';
import type { CallAnswer, EdgeRequest, Leg } from './leg.ts';
import type { Relay } from './relay.ts';

export type Resumable = Continuation & { readonly resume: ResumePoint };
export type Replayable = Continuation & { readonly replay: readonly AnsweredQuestion[] };

/** The calls of this replica, as the ladder needs them. */
export interface Calls {
  find(id: CallId): Call | undefined;
  /** This replica holds the call in the shared store from here on, under this epoch. */
  claimed(id: CallId, epoch: number): void;
  adopt(
    pointer: Pointer,
    continuation: Resumable,
    request: EdgeRequest,
    leg: Leg,
  ): { call: Call; answer: Promise<CallAnswer> };
  replay(
    pointer: Pointer,
    continuation: Replayable,
    request: EdgeRequest,
    leg: Leg,
  ): Promise<CallAnswer>;
}

export interface LadderOptions {
  readonly route: string;
  /** This process, as pointers name it. */
  readonly boot: string;
  readonly calls: Calls;
  /** `null` where replicas do not reach each other. */
  readonly relay: Relay | null;
  /** `null` where replicas share no store; then nobody keeps two of them from taking up one call. */
  readonly directory: Directory | null;
  /** For how long a call that was taken up is ours, in ms; it covers the rest of the call's life. */
  readonly claimMs: number;
  readonly reattach: boolean;
  readonly log: Log;
}

export class Ladder {
  readonly #options: LadderOptions;

  constructor(options: LadderOptions) {
    this.#options = options;
  }

  /** Serves a retry whose pointer is good and whose call is not here. */
  async climb(pointer: Pointer, request: EdgeRequest, leg: Leg): Promise<CallAnswer> {
    try {
      return (
        (await this.#relay(pointer, pointer.owner, request, leg)) ??
        (await this.#keptOutcome(pointer, request)) ??
        (await this.#takeUp(pointer, request, leg)) ??
        this.#lost(pointer, request)
      );
    } catch (error) {
      if (!(error instanceof DirectoryUnavailable)) throw error;
      return this.#unavailable(pointer, error.message);
    }
  }

  /** Makes a call anew that turned out to be lost while it was here; `null` where that is not allowed. */
  async replay(pointer: Pointer, request: EdgeRequest, leg: Leg): Promise<CallAnswer | null> {
    const { continuation } = pointer;
    if (continuation === undefined || !isReplayable(continuation)) return null;
    this.#resumed(pointer, 'replay');
    return this.#options.calls.replay(pointer, continuation, request, leg);
  }

  async #relay(
    pointer: Pointer,
    owner: PointerOwner,
    request: EdgeRequest,
    leg: Leg,
  ): Promise<CallAnswer | null> {
    const { relay, boot, log, route } = this.#options;
    if (relay === null || owner.boot === boot) return null;
    const relayed = await relay.relay(owner, request, leg);
    if (relayed.type === 'answered') {
      this.#resumed(pointer, 'relay');
      return relayed.answer;
    }
    const { type: state, problem } = relayed;
    log.event('relay.failed', { route, call: pointer.callId, owner: owner.id, state, problem });
    return null;
  }

  async #keptOutcome(pointer: Pointer, request: EdgeRequest): Promise<CallAnswer | null> {
    const { directory } = this.#options;
    const { callId, outcomeKey, round } = pointer;
    if (directory === null || outcomeKey === undefined) return null;
    const sealed = await directory.outcomeOf(callId);
    if (sealed === null) return null;
    const record = openOutcome(Buffer.from(outcomeKey, 'base64url'), callId, sealed);
    const isSame =
      record?.round === round &&
      record.answersDigest === answersDigest(request.inputResponses ?? {});
    if (!isSame) return null;
    this.#resumed(pointer, 'outcome');
    return record.answer;
  }

  async #takeUp(pointer: Pointer, request: EdgeRequest, leg: Leg): Promise<CallAnswer | null> {
    const { directory, calls, claimMs, reattach } = this.#options;
    const { callId, continuation } = pointer;
    if (continuation === undefined) return null;
    const claim = await directory?.claim(callId, claimMs);
    if (claim?.type === 'held') {
      const answer = await this.#relay(pointer, claim.by, request, leg);
      return answer ?? this.#unavailable(pointer, `replica ${claim.by.id} has taken it up`);
    }
    if (claim !== undefined) calls.claimed(callId, claim.epoch);
    // Another retry may have taken it up here while this one waited for the claim.
    const here = calls.find(callId);
    if (here !== undefined) return here.retry(pointer.round, request, leg);
    if (reattach && isResumable(continuation)) {
      const { call, answer } = calls.adopt(pointer, continuation, request, leg);
      const answered = await answer;
      if (!call.isLost || continuation.replay === null) return answered;
    }
    return this.replay(pointer, request, leg);
  }

  #lost(pointer: Pointer, request: EdgeRequest): CallAnswer {
    const { log, route } = this.#options;
    log.event('pointer.refused', { route, reason: 'unknown-call', call: pointer.callId });
    return failedCallAnswer(request.method, CALL_LOST, null);
  }

  #unavailable(pointer: Pointer, problem: string): CallAnswer {
    const { log, route } = this.#options;
    log.event('call.not_taken_up', { route, call: pointer.callId, problem });
    return { kind: 'failed', failure: COORDINATION_UNAVAILABLE };
  }

  #resumed(pointer: Pointer, rung: 'relay' | 'outcome' | 'replay'): void {
    const { log, route } = this.#options;
    const { callId: call, round } = pointer;
    log.event('call.resumed', { route, call, round, rung });
  }
}

/** Nothing more comes of a call that the server ended with its questions (error -32042). */
function isResumable(continuation: Continuation): continuation is Resumable {
  return continuation.resume !== null && continuation.questions.every(({ id }) => id !== null);
}

function isReplayable(continuation: Continuation): continuation is Replayable {
  return continuation.replay !== null;
}
