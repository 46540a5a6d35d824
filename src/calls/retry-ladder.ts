/**
 * How a retry is served whose call is not here, rung by rung: by the replica that holds the call
 * (relay), from the outcome that it left behind, by reading on where it stopped (reattach), by making
 * the call anew where the operator allows that (replay). When no rung holds, the client is told so.
 */
import { sleep, type Clock } from '../lib/clock.ts';
import { once } from '../lib/once.ts';
import { DirectoryUnavailable, type Directory } from '../model/directory.ts';
import type { Log } from '../ops/log.ts';
import type { CallId } from '../protocol/ids.ts';
import { answersDigest } from '../seal/digests.ts';
import type { OutOfTime } from '../seal/invalid-request-state.ts';
import type { Continuation, Pointer, PointerOwner, ResumePoint } from '../seal/pointer.ts';
import type { Call } from './call/call.ts';
import {
  failedCallReply,
  CALL_CANCELLED,
  callLost,
  COORDINATION_UNAVAILABLE,
  RELAY_STOPPING,
} from '../model/failures.ts';
import type { CallReply, EdgeRequest, Leg } from '../model/request.ts';
import type { Relay, RelayOutcome } from '../model/relay.ts';
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
  ): { call: Call; answer: Promise<CallReply> };
  /** @param begins called when the call is really made anew */
  replay(
    pointer: Pointer,
    continuation: Continuation,
    request: EdgeRequest,
    leg: Leg,
    begins: () => void,
  ): Promise<CallReply>;
  /** Serves a retry of a call that is here. */
  retry(call: Call, pointer: Pointer, request: EdgeRequest, leg: Leg): Promise<CallReply>;
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
  readonly clock: Clock;
  readonly log: Log;
}

/** What is asked, and by whom. */
interface Climb {
  readonly pointer: Pointer;
  readonly request: EdgeRequest;
  readonly leg: Leg;
  /**
   * Whether the owner may have the call still, although it did not answer. Then nothing final is said of
   * the call, and it is not made anew. Throws `DirectoryUnavailable`.
   */
  readonly ownerMayLive: () => Promise<boolean>;
  /** Whether the owner may be frozen, with its connections open, whether it counts as alive or not. */
  readonly ownerIsSilent: boolean;
}

/** For how long an owner that may live keeps a retry waiting for the stream that it may read still, in ms. */
const MAY_LIVE_PATIENCE_MS = 1_000;
/** A replica that lives has renewed its lease within this time. */
const RENEWED_WITHIN_MS = 2_000;
const LOOK_EVERY_MS = 250;
const OWNER_MAY_LIVE = 'its owner does not answer, and may live';

/** A call that was taken up, or `null` where it is made anew, and what comes of that. */
interface Taken {
  readonly call: Call | null;
  readonly answer: Promise<CallReply>;
}

export class Ladder {
  readonly #options: LadderOptions;
  /** Calls that are being taken up just now. */
  readonly #takingUp = new Map<CallId, Promise<void>>();

  constructor(options: LadderOptions) {
    this.#options = options;
  }

  /** Serves a retry whose pointer is good and whose call is not here. */
  async climb(pointer: Pointer, request: EdgeRequest, leg: Leg): Promise<CallReply> {
    try {
      return await this.#climb(pointer, request, leg);
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
  async askOwner(late: OutOfTime, request: EdgeRequest, leg: Leg): Promise<CallReply | null> {
    const { log, route } = this.#options;
    const { pointer, reason, offByMs } = late;
    const { callId: call, owner } = pointer;
    const relayed = await this.#relay(pointer, owner, request, leg);
    const answer = this.#answerOf(pointer, relayed);
    if (answer !== null) return answer;
    const mayLive = await this.#mayLive(owner, relayed).catch(() => true);
    if (reason === 'expired' && !mayLive) return null;
    const aheadSeconds = (reason === 'expired' ? 1 : -1) * Math.round(offByMs / 1000);
    const refusal = { route, call, of: 'pointer', replica: owner.id, aheadSeconds } as const;
    log.event('clock.refused', refusal);
    const problem = `${reason} by ${Math.abs(aheadSeconds)} s, by the clock here`;
    return this.#unavailable(pointer, problem);
  }

  /** Makes a call anew that turned out to be lost while it was here; `null` where that is not allowed. */
  async replay(pointer: Pointer, request: EdgeRequest, leg: Leg): Promise<CallReply | null> {
    const { continuation } = pointer;
    if (continuation === undefined || continuation.replay === null) return null;
    return this.#callAgain(pointer, continuation, request, leg);
  }

  #callAgain(
    pointer: Pointer,
    continuation: Continuation,
    request: EdgeRequest,
    leg: Leg,
  ): Promise<CallReply> {
    const begins = () => this.#resumed(pointer, 'replay');
    return this.#options.calls.replay(pointer, continuation, request, leg, begins);
  }

  async #climb(pointer: Pointer, request: EdgeRequest, leg: Leg): Promise<CallReply> {
    const relayed = await this.#relay(pointer, pointer.owner, request, leg);
    const mayLive = once(() => this.#mayLive(pointer.owner, relayed));
    const ownerIsSilent = relayed?.type === 'silent';
    const climb: Climb = { pointer, request, leg, ownerMayLive: mayLive, ownerIsSilent };
    const rungs = [
      async () => this.#answerOf(pointer, relayed),
      () => this.#keptOutcome(pointer, request),
      () => this.#takeUp(climb),
    ];
    for (const rung of rungs) {
      const answer = await rung();
      if (answer !== null) return answer;
      // The client has gone: nobody wants the call to go on, least of all here.
      if (leg.closed.aborted) return { kind: 'failed', failure: CALL_CANCELLED };
    }
    if (await mayLive()) return this.#unavailable(pointer, OWNER_MAY_LIVE);
    return this.#lost(pointer, request);
  }

  /** What a relay settles; `null` where the next rung is to serve. */
  #answerOf(pointer: Pointer, relayed: RelayOutcome | null): CallReply | null {
    switch (relayed?.type) {
      case 'answered':
        return relayed.answer;
      case 'left':
        return { kind: 'failed', failure: CALL_CANCELLED };
      case 'released':
        return { kind: 'failed', failure: RELAY_STOPPING };
      case 'unreachable':
        return this.#unavailable(pointer, relayed.problem);
      default:
        return null;
    }
  }

  /** Whether the owner may have the call, for all that its silence shows. */
  async #mayLive(owner: PointerOwner, relayed: RelayOutcome | null): Promise<boolean> {
    const { directory, boot } = this.#options;
    if (owner.boot === boot || relayed?.type === 'unknown') return false;
    if (directory === null) return relayed?.type === 'silent';
    if (relayed?.type === 'gone') return this.#renewsItsLease(owner.boot);
    return directory.isAlive(owner.boot);
  }

  /**
   * A process whose port is closed is dead although its lease has not run out, unless it goes on to renew
   * it: then only its address is wrong.
   */
  async #renewsItsLease(boot: string): Promise<boolean> {
    const { directory, clock } = this.#options;
    let beforeMs = 0;
    for (;;) {
      const agoMs = (await directory?.renewedAgoMs(boot)) ?? null;
      if (agoMs === null || agoMs > RENEWED_WITHIN_MS) return false;
      if (agoMs < beforeMs) return true;
      beforeMs = agoMs;
      await sleep(clock, LOOK_EVERY_MS);
    }
  }

  /** A call that another replica has taken up is that one's alone, for as long as it lives. */
  async #byHolder(
    pointer: Pointer,
    holder: PointerOwner,
    request: EdgeRequest,
    leg: Leg,
  ): Promise<CallReply> {
    const relayed = await this.#relay(pointer, holder, request, leg);
    const problem = `replica ${holder.id} has taken it up`;
    return this.#answerOf(pointer, relayed) ?? this.#unavailable(pointer, problem);
  }

  /** Asks the replica that should have the call; `null` where there is no way to it. */
  async #relay(
    pointer: Pointer,
    owner: PointerOwner,
    request: EdgeRequest,
    leg: Leg,
  ): Promise<RelayOutcome | null> {
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
      const { type: state, problem } = relayed;
      log.event('relay.failed', { route, call: pointer.callId, owner: owner.id, state, problem });
    }
    return relayed;
  }

  async #keptOutcome(pointer: Pointer, request: EdgeRequest): Promise<CallReply | null> {
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

  async #takeUp(climb: Climb): Promise<CallReply | null> {
    const { pointer, request, leg, ownerMayLive } = climb;
    const { directory, calls, claimMs, reattach } = this.#options;
    const { callId, continuation } = pointer;
    if (continuation === undefined) return null;
    const mayReadOn = reattach && isResumable(continuation);
    const mayCallAgain = continuation.replay !== null || wantsUrlsVisited(continuation);
    if (!mayReadOn && !(mayCallAgain && !(await ownerMayLive()))) return null;
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
    if (call === null) return answer;
    const answered = await this.#unlessOwnerReads(call, answer, climb);
    if (call.isHeldElsewhere) {
      call.drop();
      return this.#unavailable(pointer, 'the server has another reader for it still');
    }
    if (!call.isLost) return answered;
    if (await ownerMayLive()) {
      call.drop();
      return this.#unavailable(pointer, OWNER_MAY_LIVE);
    }
    if (continuation.replay === null) return answered;
    return this.#callAgain(pointer, continuation, request, leg);
  }

  /**
   * A server that has a reader for the stream of a call may refuse the next one for as long as that is
   * connected: where it may be the owner, the call is left to it soon.
   */
  async #unlessOwnerReads(
    call: Call,
    answer: Promise<CallReply>,
    { ownerMayLive, ownerIsSilent }: Climb,
  ): Promise<CallReply> {
    const { clock } = this.#options;
    const answered = new AbortController();
    const patience = sleep(clock, MAY_LIVE_PATIENCE_MS, answered.signal).then(async () => {
      if (answered.signal.aborted || !call.isBroken) return;
      const mayRead = ownerIsSilent || (await ownerMayLive().catch(() => true));
      if (mayRead && call.isBroken) call.leave();
    });
    try {
      return await answer;
    } finally {
      answered.abort();
      await patience;
    }
  }

  #lost(pointer: Pointer, request: EdgeRequest): CallReply {
    const { log, route } = this.#options;
    log.event('pointer.refused', { route, reason: 'unknown-call', call: pointer.callId });
    return failedCallReply(request.method, callLost(true), null);
  }

  #unavailable(pointer: Pointer, problem: string): CallReply {
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
