/**
 * How a retry is served whose call is not here, rung by rung: by the replica that holds the call
 * (relay), from the outcome that it left behind, by reading on where it stopped (reattach), by making
 * the call anew where the operator allows that (replay). When no rung holds, the client is told so.
 */
import { DirectoryUnavailable, type Directory } from '../model/directory.ts';
import type { Log } from '../ops/log.ts';
import type { CallId } from '../protocol/ids.ts';
import { answersDigest } from '../seal/digests.ts';
import type { OutOfTime } from '../seal/invalid-request-state.ts';
import type { Continuation, Pointer, PointerOwner, ResumePoint } from '../seal/pointer.ts';
import type { Call } from './call/call.ts';
import {
  failedCallAnswer,
  CALL_CANCELLED,
  callLost,
  COORDINATION_UNAVAILABLE,
} from '../model/failures.ts';
import type { CallAnswer, EdgeRequest, Leg } from '../model/request.ts';
import type { Relay, Relayed } from '../model/relay.ts';
import { openOutcome } from './sealed-outcome.ts';
import { ThinnedLeg } from './thinned-leg.ts';

export type Resumable = Continuation & { readonly resume: ResumePoint };

/** The calls of this replica, as the ladder needs them. */
export interface Calls {
  find(id: CallId): Call | undefined;
  /** This replica holds the call in the shared store from here on, under this epoch. */
  claimed(id: CallId, epoch: number): void;
  /** Nothing came of taking the call up: others may try. */
  unclaim(id: CallId): void;
  adopt(
    pointer: Pointer,
    continuation: Resumable,
    request: EdgeRequest,
    leg: Leg,
  ): { call: Call; answer: Promise<CallAnswer> };
  /** @param begins called when the call is really made anew */
  replay(
    pointer: Pointer,
    continuation: Continuation,
    request: EdgeRequest,
    leg: Leg,
    begins: () => void,
  ): Promise<CallAnswer>;
  /** Serves a retry of a call that is here. */
  retry(call: Call, pointer: Pointer, request: EdgeRequest, leg: Leg): Promise<CallAnswer>;
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

/** A call that was taken up, or `null` where it is made anew, and what comes of that. */
interface Taken {
  readonly call: Call | null;
  readonly answer: Promise<CallAnswer>;
}

export class Ladder {
  readonly #options: LadderOptions;
  /** Calls that are being taken up just now. */
  readonly #takingUp = new Map<CallId, Promise<void>>();

  constructor(options: LadderOptions) {
    this.#options = options;
  }

  /** Serves a retry whose pointer is good and whose call is not here. */
  async climb(pointer: Pointer, request: EdgeRequest, leg: Leg): Promise<CallAnswer> {
    const rungs = [
      () => this.#byOwner(pointer, request, leg),
      () => this.#keptOutcome(pointer, request),
      () => this.#takeUp(pointer, request, leg),
    ];
    try {
      for (const rung of rungs) {
        const answer = await rung();
        if (answer !== null) return answer;
        // The client has gone: nobody wants the call to go on, least of all here.
        if (leg.closed.aborted) return { kind: 'failed', failure: CALL_CANCELLED };
      }
      return this.#lost(pointer, request);
    } catch (error) {
      if (!(error instanceof DirectoryUnavailable)) throw error;
      return this.#unavailable(pointer, error.message);
    }
  }

  /**
   * Has the owner serve a retry whose time is wrong by the clock of this replica; `null` when it has
   * expired and nobody says otherwise. One from the future only shows that the clocks differ: another
   * replica can serve it, and this one when its clock has come so far.
   */
  async askOwner(late: OutOfTime, request: EdgeRequest, leg: Leg): Promise<CallAnswer | null> {
    const { log, route } = this.#options;
    const { pointer, reason, offByMs } = late;
    const { callId: call, owner } = pointer;
    const answer = await this.#byOwner(pointer, request, leg);
    if (answer !== null || reason === 'expired') return answer;
    const aheadSeconds = -Math.round(offByMs / 1000);
    const refusal = { route, call, of: 'pointer', replica: owner.id, aheadSeconds } as const;
    log.event('clock.refused', refusal);
    return this.#unavailable(pointer, `sealed ${-aheadSeconds} s from now by the clock here`);
  }

  /** Makes a call anew that turned out to be lost while it was here; `null` where that is not allowed. */
  async replay(pointer: Pointer, request: EdgeRequest, leg: Leg): Promise<CallAnswer | null> {
    const { continuation } = pointer;
    if (continuation === undefined || continuation.replay === null) return null;
    return this.#callAgain(pointer, continuation, request, leg);
  }

  #callAgain(
    pointer: Pointer,
    continuation: Continuation,
    request: EdgeRequest,
    leg: Leg,
  ): Promise<CallAnswer> {
    const begins = () => this.#resumed(pointer, 'replay');
    return this.#options.calls.replay(pointer, continuation, request, leg, begins);
  }

  async #byOwner(pointer: Pointer, request: EdgeRequest, leg: Leg): Promise<CallAnswer | null> {
    const relayed = await this.#relay(pointer, pointer.owner, request, leg);
    switch (relayed?.type) {
      case 'answered':
        return relayed.answer;
      case 'unreachable':
        return this.#unavailable(pointer, relayed.problem);
      default:
        return null;
    }
  }

  /** A call that another replica has taken up is that one's alone, for as long as it lives. */
  async #byHolder(
    pointer: Pointer,
    holder: PointerOwner,
    request: EdgeRequest,
    leg: Leg,
  ): Promise<CallAnswer> {
    const relayed = await this.#relay(pointer, holder, request, leg);
    switch (relayed?.type) {
      case 'answered':
        return relayed.answer;
      case 'left':
        return { kind: 'failed', failure: CALL_CANCELLED };
      default:
        return this.#unavailable(pointer, `replica ${holder.id} has taken it up`);
    }
  }

  /** Asks the replica that should have the call; `null` where there is no way to it. */
  async #relay(
    pointer: Pointer,
    owner: PointerOwner,
    request: EdgeRequest,
    leg: Leg,
  ): Promise<Relayed | null> {
    const { relay, boot, log, route } = this.#options;
    if (relay === null || owner.boot === boot) return null;
    // What comes through a mailbox cannot wait, since others wait behind it.
    const thinned = new ThinnedLeg(leg, request.logLevel);
    const relayed = await relay.relay(owner, request, thinned);
    const missed = thinned.end();
    if (missed !== null) log.event('call.thinned', { route, call: pointer.callId, ...missed });
    if (relayed.type === 'answered') {
      this.#resumed(pointer, 'relay');
    } else {
      const { type: state, problem, aheadSeconds } = relayed;
      if (aheadSeconds !== undefined) {
        const { callId: call } = pointer;
        log.event('clock.refused', { route, call, of: 'letter', replica: owner.id, aheadSeconds });
      }
      log.event('relay.failed', { route, call: pointer.callId, owner: owner.id, state, problem });
    }
    return relayed;
  }

  async #keptOutcome(pointer: Pointer, request: EdgeRequest): Promise<CallAnswer | null> {
    const { directory } = this.#options;
    const { callId, outcomeKey, round } = pointer;
    if (directory === null || outcomeKey === undefined) return null;
    const sealed = await directory.outcomeOf(callId);
    if (sealed === null) return null;
    const record = openOutcome(Buffer.from(outcomeKey, 'base64url'), callId, sealed);
    if (record?.round !== round) return null;
    const isForAll = record.answersDigest === null;
    if (!isForAll && record.answersDigest !== answersDigest(request.inputResponses ?? {})) {
      return null;
    }
    this.#resumed(pointer, 'outcome');
    return record.answer;
  }

  async #takeUp(pointer: Pointer, request: EdgeRequest, leg: Leg): Promise<CallAnswer | null> {
    const { directory, calls, claimMs, reattach } = this.#options;
    const { callId, continuation } = pointer;
    if (continuation === undefined) return null;
    const mayReadOn = reattach && isResumable(continuation);
    const mayCallAgain = continuation.replay !== null || wantsUrlsVisited(continuation);
    if (!mayReadOn && !mayCallAgain) return null;
    // One after the other, so that none gives a claim back that another one has just been granted.
    while (this.#takingUp.has(callId)) await this.#takingUp.get(callId);
    const here = calls.find(callId);
    if (here !== undefined) return calls.retry(here, pointer, request, leg);
    const turn = Promise.withResolvers<void>();
    this.#takingUp.set(callId, turn.promise);
    let taken: Taken;
    try {
      const claim = await directory?.claim(callId, claimMs);
      if (claim?.type === 'held') return this.#byHolder(pointer, claim.by, request, leg);
      if (claim !== undefined) calls.claimed(callId, claim.epoch);
      if (leg.closed.aborted) {
        calls.unclaim(callId);
        return null;
      }
      taken = mayReadOn
        ? calls.adopt(pointer, continuation, request, leg)
        : { call: null, answer: this.#callAgain(pointer, continuation, request, leg) };
      // The retry itself settled it.
      if (calls.find(callId) === undefined) calls.unclaim(callId);
    } finally {
      this.#takingUp.delete(callId);
      turn.resolve();
    }
    const { call, answer } = taken;
    const answered = await answer;
    if (call === null) return answered;
    if (call.isHeldElsewhere) {
      call.drop();
      return this.#unavailable(pointer, 'the server has another reader for it still');
    }
    if (!call.isLost || continuation.replay === null) return answered;
    return this.#callAgain(pointer, continuation, request, leg);
  }

  #lost(pointer: Pointer, request: EdgeRequest): CallAnswer {
    const { log, route } = this.#options;
    log.event('pointer.refused', { route, reason: 'unknown-call', call: pointer.callId });
    return failedCallAnswer(request.method, callLost(true), null);
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

function isResumable(continuation: Continuation): continuation is Resumable {
  return continuation.resume !== null && !wantsUrlsVisited(continuation);
}

/**
 * The server ended the call with its questions (error -32042). Nothing more comes of it, and it is to be
 * made again, by the rules of that error and not by those of the operator.
 */
function wantsUrlsVisited({ questions }: Continuation): boolean {
  return questions.some(({ id }) => id === null);
}
