/**
 * How a retry finds its call, one way after the other: in this process (here), at the replica that holds it (relay), by
 * the outcome that was kept, by resuming its stream (reattach), by calling the tool again where the operator
 * allows that (replay). If no recovery serves it, the client gets an error.
 */
import { sleep } from '../lib/clock.ts';
import { once } from '../lib/once.ts';
import { DirectoryUnavailable } from '../model/store.ts';
import {
  CALL_CANCELLED,
  callLost,
  COORDINATION_UNAVAILABLE,
  failedCallReply,
  RELAY_STOPPING,
  STOPPING_FOR_RETRY,
} from '../model/failures.ts';
import type { RelayOutcome } from '../model/relay.ts';
import { traceOf, type CallReply } from '../model/request.ts';
import { homeBornWith } from '../protocol/ids.ts';
import { sessionOwnerOf } from '../sessions/session-owner.ts';
import type { OutOfTime } from '../seal/invalid-request-state.ts';
import type { Continuation, Pointer, PointerOwner } from '../seal/pointer.ts';
import {
  dropCall,
  isResumable,
  isRetryOfLostCall,
  isSuspended,
  reattachCall,
  replayCall,
} from './call/lifecycle.ts';
import { retryCall } from './call/client.ts';
import type { CallData, CallServices, Retry } from './call/data.ts';
import { failed } from './call/replies.ts';
import { isBroken, isElsewhere, isWorthReplaying } from './machine/selectors.ts';
import { mayOwnerLive, relayRequest, serveAtHolder } from './elsewhere.ts';
import { fetchOutcome } from './sealed-outcome.ts';

/** What the relay found out about the owner of a call. */
interface OwnerReport {
  /** Whether the owner may have the call, although it did not reply. Throws `DirectoryUnavailable`. */
  readonly mayLive: () => Promise<boolean>;
  /** Whether the owner may be frozen with its connections open. */
  readonly isSilent: boolean;
}

/** What became of a retry whose call was to go on here. */
type Resumption =
  /** The stream of the call is being resumed. */
  | { readonly type: 'reattached'; readonly call: CallData; readonly reply: Promise<CallReply> }
  /** The retry is served in another way: its call is here by now, or is replayed, or its client has left, or the process stops. */
  | { readonly type: 'served'; readonly reply: Promise<CallReply> };

/** How long a retry waits for a stream that an owner which may live may still read, in ms. */
const STREAM_WAIT_MS = 1_000;
const OWNER_MAY_LIVE = 'its owner does not respond, and may still be running';

export class CallRecovery {
  readonly #services: CallServices;

  constructor(services: CallServices) {
    this.#services = services;
  }

  /** Serves a retry whose call is here. @returns `null` if it is not */
  serveHere(retry: Retry): Promise<CallReply> | null {
    const call = this.#services.registry.find(retry.pointer.callId);
    return call === undefined ? null : this.#here(call, retry);
  }

  /**
   * Serves a retry whose call is not here.
   * @param asked what came of asking its owner, if it was asked
   */
  async recover(retry: Retry, asked?: RelayOutcome | null): Promise<CallReply> {
    try {
      const relayed = asked ?? (await this.#relayTo(retry.pointer.owner, retry));
      return await this.#recover(retry, relayed);
    } catch (error) {
      if (!(error instanceof DirectoryUnavailable)) throw error;
      return this.#unavailable(retry, error.message);
    } finally {
      this.#giveUpUnused(retry);
    }
  }

  /**
   * Has the owner serve a retry whose time is wrong by the clock of this replica. A pointer from the future
   * only shows that the clocks differ, or that a clock was set back. If its owner has gone, this replica serves it, unless without a
   * store its own clock may be the wrong one: then another replica can, and this one when its clock has come so far.
   * @returns `null` if the pointer has expired, and no owner says otherwise
   */
  async askOwner({ reason, offByMs }: OutOfTime, retry: Retry): Promise<CallReply | null> {
    const { pointer } = retry;
    const { callId: call, owner } = pointer;
    const { log, routeId: route, directory, replica } = this.#services;
    const relayed = await this.#relayTo(owner, retry);
    const reply = this.#replyOf(relayed, retry);
    if (reply !== null) return reply;
    const mayLive = await this.#mayLive(owner, relayed).catch(() => true);
    if (reason === 'expired' && !mayLive) return null;
    const isOwn = owner.instance === replica.instance;
    if (!mayLive && (directory !== null || isOwn)) return this.recover(retry, relayed);
    const aheadSeconds = (reason === 'expired' ? 1 : -1) * Math.round(offByMs / 1000);
    const of = { route, call, ...traceOf(retry.request) };
    log.event('clock.refused', { ...of, of: 'pointer', replica: owner.id, aheadSeconds });
    const problem = `${reason} by ${Math.abs(aheadSeconds)} s, by the clock of this replica`;
    return this.#unavailable(retry, problem);
  }

  /** Whether this replica resumes the call for others: it has the home, or gets it. */
  async isResumedHere(retry: Retry): Promise<boolean> {
    const { pool, registry } = this.#services;
    const home = this.#sharedHome(retry.pointer);
    if (home !== null && registry.phase !== 'closed' && pool.hasHome(home)) return true;
    if (registry.phase !== 'open') return false;
    // It can have the home without knowing it: the reply of its claim was lost. Without the store, the retry fails here.
    const isHere = (await this.#holderOfHome(retry).catch(() => null)) === null;
    if (retry.waiter.closed.aborted) this.#giveUpUnused(retry);
    else retry.waiter.closed.addEventListener('abort', () => this.#giveUpUnused(retry));
    return isHere;
  }

  /** Gives up the home that was claimed for a retry which has not begun the call: nobody else would. */
  #giveUpUnused({ pointer: { callId } }: Retry): void {
    const { registry } = this.#services;
    if (registry.find(callId) === undefined) registry.giveUpHome(callId);
  }

  /** Serves the retry, and replays the call if it is lost. */
  async #here(call: CallData, retry: Retry): Promise<CallReply> {
    if (!isRetryOfLostCall(call, retry)) {
      const reply = await retryCall(call, retry);
      if (!isRetryOfLostCall(call, retry)) return reply;
      return this.#replay(retry) ?? reply;
    }
    return this.#replay(retry) ?? retryCall(call, retry);
  }

  /** @returns `null` if the operator does not allow that the call is replayed */
  #replay(retry: Retry): Promise<CallReply> | null {
    const { continuation } = retry.pointer;
    if (continuation === undefined || continuation.replay === null) return null;
    return replayCall(this.#services, retry, continuation);
  }

  async #recover(retry: Retry, relayed: RelayOutcome | null): Promise<CallReply> {
    const { pointer, request, waiter } = retry;
    const mayLive = once(() => this.#mayLive(pointer.owner, relayed));
    const owner = { mayLive, isSilent: relayed?.type === 'silent' };
    const known = this.#replyOf(relayed, retry) ?? (await this.#keptOutcome(retry));
    if (known !== null) return known;
    const resumed = waiter.closed.aborted ? null : await this.#resume(retry, owner);
    if (resumed !== null) return resumed;
    // No call is continued for a client that has left.
    if (waiter.closed.aborted) return failed(CALL_CANCELLED);
    if (await mayLive()) return this.#unavailable(retry, OWNER_MAY_LIVE);
    const { log, routeId: route } = this.#services;
    const of = { route, call: pointer.callId, ...traceOf(request) };
    log.event('pointer.refused', { ...of, reason: 'unknown-call' });
    return failedCallReply(request.method, callLost(true), null);
  }

  /** Relays a retry to the replica that should hold its call. @returns `null` if it cannot be reached */
  async #relayTo(owner: PointerOwner, retry: Retry): Promise<RelayOutcome | null> {
    const { pointer, request, waiter } = retry;
    const { relay, replica } = this.#services;
    if (relay === null || owner.instance === replica.instance) return null;
    const toRelay = { request, waiter, call: pointer.callId };
    const relayed = await relayRequest(this.#services, relay, owner, toRelay);
    if (relayed.type === 'replied') this.#logResumed(retry, 'relay');
    return relayed;
  }

  /** @returns the reply that a relay settles; `null` if the next recovery is to serve the retry */
  #replyOf(relayed: RelayOutcome | null, retry: Retry): CallReply | null {
    switch (relayed?.type) {
      case 'replied':
        return relayed.reply;
      case 'left':
        return failed(CALL_CANCELLED);
      case 'released':
        return failed(RELAY_STOPPING);
      case 'unreachable':
        return this.#unavailable(retry, relayed.problem);
      default:
        return null;
    }
  }

  async #keptOutcome(retry: Retry): Promise<CallReply | null> {
    const { pointer, request } = retry;
    const { directory } = this.#services;
    if (directory === null) return null;
    const reply = await fetchOutcome(directory, pointer, request);
    if (reply !== null) this.#logResumed(retry, 'outcome');
    return reply;
  }

  /** Reattaches to the call, or replays it. @returns `null` if neither is possible */
  async #resume(retry: Retry, owner: OwnerReport): Promise<CallReply | null> {
    const { pointer } = retry;
    const { continuation } = pointer;
    if (continuation === undefined) return null;
    const mayReattach = this.#services.reattach && isResumable(continuation);
    const mayReplay = continuation.replay !== null || isSuspended(continuation);
    if (!mayReattach && !(mayReplay && !(await owner.mayLive()))) return null;
    let resumption: Resumption | null = null;
    while (resumption === null) {
      const atHome = await this.#atHome(retry);
      if (atHome !== null) return atHome;
      resumption = this.#begin(retry, continuation);
    }
    if (resumption.type === 'served') return resumption.reply;
    const { call } = resumption;
    const reply = await this.#unlessOwnerReads(call, resumption.reply, owner);
    if (isElsewhere(call.state)) {
      dropCall(call);
      return this.#unavailable(retry, 'another replica still has the stream or the session');
    }
    if (!isWorthReplaying(call.state)) return reply;
    if (await owner.mayLive()) {
      dropCall(call);
      return this.#unavailable(retry, OWNER_MAY_LIVE);
    }
    return this.#replay(retry) ?? reply;
  }

  /** Begins the call here. @returns `null` if another retry has just given its home up, whose client has left */
  #begin(retry: Retry, continuation: Continuation): Resumption | null {
    const { registry, ownership, reattach } = this.#services;
    const { callId } = retry.pointer;
    const here = this.serveHere(retry);
    if (here !== null) return { type: 'served', reply: here };
    const isClosed = registry.phase === 'closed';
    if (isClosed || retry.waiter.closed.aborted) {
      registry.giveUpHome(callId);
      const failure = isClosed ? STOPPING_FOR_RETRY : CALL_CANCELLED;
      return { type: 'served', reply: Promise.resolve(failed(failure)) };
    }
    const isHere = () => ownership?.isHere(homeBornWith(callId)) !== false;
    if (this.#sharedHome(retry.pointer) === null && !isHere()) return null;
    return reattach && isResumable(continuation)
      ? { type: 'reattached', ...reattachCall(this.#services, retry, continuation) }
      : { type: 'served', reply: replayCall(this.#services, retry, continuation) };
  }

  /** A call goes on where its home is. @returns `null` if that is here */
  #atHome(retry: Retry): Promise<CallReply | null> {
    const { clock } = this.#services;
    const { pointer, waiter, isRelayed } = retry;
    let asked = pointer.owner;
    return serveAtHolder(clock, waiter, {
      find: (isLast) =>
        this.#holderOfHome(retry).catch((error: unknown) => {
          const passes = error instanceof DirectoryUnavailable && error.failure === 'incomplete';
          if (isLast || !passes) throw error;
          return asked;
        }),
      relay: async (holder) => {
        if (isRelayed || holder.instance === asked.instance) return null;
        asked = holder;
        return this.#replyOf(await this.#relayTo(holder, retry), retry);
      },
      tooLate: ({ id }) => this.#unavailable(retry, `replica ${id} has the home of the call`),
      mayWait: !isRelayed,
    });
  }

  /** Claims the home of a call: that of its session, or that which was born with it. @returns `null` if it is here */
  async #holderOfHome({ pointer, request }: Retry): Promise<PointerOwner | null> {
    const { pool, ownership } = this.#services;
    const home = this.#sharedHome(pointer);
    if (home !== null) return pool.holderOfHome(sessionOwnerOf(request), home);
    // Whether it was taken over is asked when the call acts again: see `Exchange.isOurs`.
    const claim = await ownership?.claim(homeBornWith(pointer.callId), {});
    return claim?.type === 'elsewhere' ? claim.holder : null;
  }

  /** @returns the home of a session that the pointer names, if it is to be resumed; `null` for a call in a home of its own */
  #sharedHome({ continuation }: Pointer): string | null {
    const { pool, reattach } = this.#services;
    if (!reattach || continuation === undefined || !isResumable(continuation)) return null;
    const { home } = continuation.resume;
    return home !== undefined && pool.claims(home) ? home : null;
  }

  /**
   * Waits for the reply of a reattached call. A server can refuse a second reader for as long as the first one
   * is connected: if that may be the owner, the call is soon left to it.
   */
  async #unlessOwnerReads(
    call: CallData,
    reply: Promise<CallReply>,
    { mayLive, isSilent }: OwnerReport,
  ): Promise<CallReply> {
    const { clock } = this.#services;
    const replied = new AbortController();
    const wait = sleep(clock, STREAM_WAIT_MS, replied.signal).then(async () => {
      if (replied.signal.aborted || !isBroken(call.state)) return;
      const mayRead = isSilent || (await mayLive().catch(() => true));
      if (mayRead && isBroken(call.state)) call.dispatch({ type: 'ownerReads' });
    });
    try {
      return await reply;
    } finally {
      replied.abort();
      await wait;
    }
  }

  #mayLive(owner: PointerOwner, relayed: RelayOutcome | null): Promise<boolean> {
    const { replica, directory, clock } = this.#services;
    return mayOwnerLive(owner, relayed, replica.instance, directory, clock);
  }

  #unavailable({ pointer, request }: Retry, problem: string): CallReply {
    const { log, routeId: route } = this.#services;
    const of = { route, call: pointer.callId, ...traceOf(request) };
    log.event('call.claim_failed', { ...of, problem });
    return failed(COORDINATION_UNAVAILABLE);
  }

  #logResumed({ pointer, request }: Retry, recoveredBy: 'relay' | 'outcome'): void {
    const { log, routeId: route } = this.#services;
    const { callId: call, round } = pointer;
    log.event('call.resumed', { route, call, ...traceOf(request), round, recoveredBy });
    request.span?.set({ 'mrtr_gateway.recovered_by': recoveredBy });
  }
}
