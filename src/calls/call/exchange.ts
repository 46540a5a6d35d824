/**
 * The upstream's side of one call, as far as this process holds it: the session that is leased for it
 * and the request in flight. Whatever of it is still being opened when the call is over is freed then.
 */
import type { ServerRequestId } from '../../protocol/ids.ts';
import { objectMember, type JsonObject } from '../../protocol/json/json.ts';
import type { JsonRpcReply } from '../../protocol/json-rpc.ts';
import { upstreamParams } from '../../protocol/translate/upstream-params.ts';
import type { ResumePoint } from '../../seal/pointer.ts';
import type { Session } from '../../upstream/session/session.ts';
import type { Exchange, ExchangeListener } from '../../upstream/session/exchange.ts';
import type { Lease } from '../../upstream/pool/session-pool.ts';
import type { CallerHeaders } from '../../upstream/transport/transport.ts';
import { asUpstreamFailure, beforeRequest, type UpstreamFailure } from '../../upstream/failure.ts';
import { type EdgeRequest, sessionOwnerOf } from '../../model/request.ts';
import type { CallContext } from './context.ts';
import { hearWhile } from './hear-while.ts';

/** Its members are called without their object. */
export interface CallExchangeListener extends ExchangeListener {
  /** The request did not reach the server, or the server did not take it. */
  notTaken(failure: UpstreamFailure): void;
}

/** A question that nobody will answer any more, and what the server is told instead. */
export type CloseOutReply = readonly [ServerRequestId, JsonRpcReply];

export class CallExchange {
  /** The request whose declarations and credentials count now: that of the newest leg with answers. */
  request: EdgeRequest;
  /** The server may still be at work on something of ours, so the session is not for reuse. */
  tainted = false;
  readonly #context: CallContext;
  readonly #isOver: () => boolean;
  #lease: Lease | null = null;
  #exchange: Exchange | null = null;
  /** Where the call is to be read on that is being taken up. */
  #takingUp: ResumePoint | null = null;
  /** Grows with each exchange, so that a late word of an earlier one is not heard. */
  #generation = 0;
  /** Whether nothing of the call is left open at the server, once what is told to it has arrived. */
  #closed: Promise<boolean> = Promise.resolve(true);
  #serverInfo: JsonObject | null = null;

  /** @param isOver true when the call wants no exchange any more */
  constructor(context: CallContext, request: EdgeRequest, isOver: () => boolean) {
    this.#context = context;
    this.request = request;
    this.#isOver = isOver;
  }

  /** Lets go of what only making the request takes: whoever comes back brings it again. */
  forgetParams(): void {
    this.request = { ...this.request, params: {}, inputResponses: null, requestState: null };
  }

  get session(): Session | null {
    return this.#lease?.session ?? null;
  }

  /** What the server said last of itself. */
  get serverInfo(): JsonObject | null {
    return this.#serverInfo;
  }

  /** Where another replica could read on now, when the server keeps the call for that. */
  get resumePoint(): ResumePoint | null {
    const exchange = this.#exchange;
    if (exchange === null) return this.#takingUp;
    const point = exchange.resumable();
    return point === null ? null : { ...point, upstreamId: exchange.id };
  }

  /** True from now on until this exchange is freed or replaced. */
  whileThisOne(): () => boolean {
    const generation = this.#generation;
    return () => generation === this.#generation;
  }

  /**
   * Sends the request upstream, in the session of this call or in one from the pool.
   * @param freshSession never one that was used before
   */
  async send(freshSession: boolean, listener: CallExchangeListener): Promise<void> {
    const isCurrent = this.#next();
    const request = this.request;
    const { method, params, forwardedMeta, logLevel, caller } = request;
    let sending = false;
    try {
      this.#lease ??= await this.#context.pool.lease(sessionOwnerOf(request), freshSession);
      if (!isCurrent() || this.#isOver()) return this.release(true);
      const { session } = this.#lease;
      this.#serverInfo = serverInfoOf(session);
      if (logLevel !== null) await session.ensureLogLevel(logLevel, caller.headers);
      if (!isCurrent() || this.#isOver()) return this.release(true);
      sending = true;
      this.#exchange = session.call(
        method,
        (token) => upstreamParams(params, { progressToken: token, forwardedMeta }),
        hearWhile(isCurrent, listener),
        caller.headers,
      );
      await this.#exchange.accepted;
    } catch (error) {
      if (!isCurrent()) return;
      const failure = asUpstreamFailure(error, true);
      // What fails of a handshake is no call.
      listener.notTaken(sending ? failure : beforeRequest(failure));
    }
  }

  /** Reads on where another replica stopped, with these questions still open. */
  async takeUp(
    resume: ResumePoint,
    open: readonly ServerRequestId[],
    listener: ExchangeListener,
  ): Promise<void> {
    const isCurrent = this.#next();
    this.#takingUp = resume;
    const { headers } = this.request.caller;
    try {
      this.#lease = await this.#context.pool.adopt(sessionOwnerOf(this.request), resume.revision);
      const { session } = this.#lease;
      if (!isCurrent() || this.#isOver()) return this.leave();
      this.#serverInfo = serverInfoOf(session);
      const hearing = hearWhile(isCurrent, listener);
      // A question without a relation to its call is dropped while there is no stream for it.
      const resumed = () => void session.openStandaloneStream(headers).then(hearing.resumed);
      const { upstreamId } = resume;
      const heard = { ...hearing, resumed };
      this.#exchange = session.resumeCall(upstreamId, resume, heard, headers, open);
    } catch (error) {
      if (isCurrent()) listener.lost(asUpstreamFailure(error, true));
    }
  }

  /** Answers a question of the server, if it can be reached. Never throws. */
  async respond(id: ServerRequestId, reply: JsonRpcReply): Promise<void> {
    await this.session?.respond(id, reply, this.request.caller.headers).catch(() => {});
  }

  /**
   * Answers what is left open; the session is not given back before that is done.
   * @param replies called when they are to be sent
   */
  closeOut(replies: () => readonly CloseOutReply[]): void {
    const { session } = this;
    const { headers } = this.request.caller;
    this.#closed = this.#closed.then((taken) => taken && answerAll(session, replies(), headers));
  }

  /** Tells the server that its work is not wanted; what it still does is not waited for. */
  stop(reason: string): void {
    const exchange = this.#exchange;
    if (exchange !== null) this.#closed = this.#told(exchange, reason);
    this.tainted = true;
  }

  /**
   * Cancels the request for the client, who is gone, unless another replica has taken it up meanwhile.
   * @param replies what is left open is answered with, when the server has taken the cancellation
   * @param ended called when no end of the exchange will be heard of
   */
  cancel(replies: () => readonly CloseOutReply[], ended: () => void): void {
    const exchange = this.#exchange;
    if (exchange === null) {
      // Not sent yet: whatever is being opened for it is released when it is there.
      ended();
      return;
    }
    const { session } = this;
    const { headers } = this.request.caller;
    const cancel = async () => {
      if (await this.#context.isOurs()) {
        const taken = await this.#told(exchange, 'the client cancelled the call');
        return taken && answerAll(session, replies(), headers);
      }
      this.tainted = true;
      this.leave();
      ended();
      return false;
    };
    this.#closed = cancel();
  }

  /** Cancels the request; whether the server has taken that, which is not waited for very long. */
  #told(exchange: Exchange, reason: string): Promise<boolean> {
    const { clock, limits } = this.#context;
    const late = Promise.withResolvers<boolean>();
    const timer = clock.setTimer(limits.cancelGraceMs, () => late.resolve(false));
    const taken = exchange.cancel(reason, this.request.caller.headers);
    return Promise.race([taken, late.promise]).finally(() => timer.cancel());
  }

  /** Frees what is here; the server keeps the session and the call. */
  leave(): void {
    this.#drop()?.leave();
  }

  /** Frees the exchange and gives the session back. `clean` says that the server had finished with it. */
  release(clean: boolean): void {
    const reusable = clean && !this.tainted;
    const lease = this.#drop();
    void this.#closed.then((closed) => lease?.release(reusable && closed));
  }

  #drop(): Lease | null {
    this.#generation += 1;
    this.#exchange?.abandon();
    this.#exchange = null;
    this.#takingUp = null;
    const lease = this.#lease;
    this.#lease = null;
    return lease;
  }

  #next(): () => boolean {
    this.#generation += 1;
    return this.whileThisOne();
  }
}

/** Whether the server has taken every one of these answers. */
async function answerAll(
  session: Session | null,
  replies: readonly CloseOutReply[],
  headers: CallerHeaders,
): Promise<boolean> {
  const sent = replies.map(([id, reply]) => session?.respond(id, reply, headers));
  const settled = await Promise.allSettled(sent);
  return settled.every(({ status }) => status === 'fulfilled');
}

function serverInfoOf(session: Session): JsonObject | null {
  return objectMember(session.initializeResult.raw, 'serverInfo') ?? null;
}
