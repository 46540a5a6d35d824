/**
 * `roots/list` on streams that name no call. The roots are the caller's and not a call's: one of the running calls
 * asks its client, and the answer goes to every such request of the server that is open then. If it does not come soon, another
 * one asks as well.
 */
import type { Clock, Timer } from '../../../lib/clock.ts';
import type { Entries } from '../../../lib/containers.ts';
import type { ServerRequestId, UpstreamRequestId } from '../../../protocol/ids.ts';
import type { JsonObject } from '../../../protocol/json.ts';
import type { SessionCall } from '../session-call.ts';

/** The most requests of a server that wait for one answer. */
const MAX_WAITING = 256;
/**
 * How long one client is asked before another one is as well, in ms. Clients know their roots and ask no person, so one that takes
 * longer may never answer.
 */
const PATIENCE_MS = 2_000;

export class SharedRoots {
  readonly #running: Entries<UpstreamRequestId, SessionCall>;
  readonly #clock: Clock;
  /** The requests of the server that wait for the answer. */
  readonly #waiting = new Set<ServerRequestId>();
  /** The calls that ask their clients, and the request of the server under which each of them asks. The first answer counts. */
  readonly #asking = new Map<SessionCall, ServerRequestId>();
  /** The call whose answer is on its way to the server, and whether the server takes it. */
  #answering: {
    readonly call: SessionCall;
    readonly isTaken: PromiseWithResolvers<boolean>;
  } | null = null;
  #params: JsonObject = {};
  #patience: Timer | null = null;

  constructor(running: Entries<UpstreamRequestId, SessionCall>, clock: Clock) {
    this.#running = running;
    this.#clock = clock;
  }

  has(id: ServerRequestId): boolean {
    return this.#waiting.has(id);
  }

  /**
   * Takes a request of the server.
   * @returns false if too many wait, or no call can ask for it
   */
  receive(id: ServerRequestId, params: JsonObject): boolean {
    if (this.#waiting.size >= MAX_WAITING) return false;
    const isAsked = [...this.#asking.keys()].some((call) => this.#canAsk(call));
    if (!isAsked && this.#nextCarrier() === null) return false;
    this.#waiting.add(id);
    if (!isAsked) this.#askInstead(id, params);
    else if (this.#patience === null) this.#askAnother();
    return true;
  }

  /**
   * Returns the requests to which a call's answer is the reply, without those that the server took back. `null` if the question
   * was not one of these. While the answer of another call is on its way, resolves to whether the server has taken that one.
   */
  answeredBy(
    call: SessionCall,
    id: ServerRequestId,
  ): readonly ServerRequestId[] | Promise<boolean> | null {
    if (this.#asking.get(call) !== id) return null;
    if (this.#answering !== null && this.#answering.call !== call) {
      return this.#answering.isTaken.promise;
    }
    this.#answering ??= { call, isTaken: Promise.withResolvers() };
    return [...this.#waiting];
  }

  /** The answer of a call did not reach the server. */
  notTaken(call: SessionCall): void {
    if (this.#answering?.call === call) this.#answered(false);
  }

  /**
   * The answer of a call has reached the server.
   * @returns requests that came meanwhile, and wait for the same reply
   */
  close(call: SessionCall, answered: readonly ServerRequestId[]): ServerRequestId[] {
    // The answer of another one came first.
    if (this.#answering?.call !== call) return [];
    const later = [...this.#waiting].filter((id) => !answered.includes(id));
    const asking = [...this.#asking];
    this.clear();
    for (const [carrier, askedAs] of asking) carrier.withdraw(askedAs);
    return later;
  }

  /** A call is cancelled. Another one asks in its place, if there is one. */
  cancelled(call: SessionCall): void {
    const askedAs = this.#asking.get(call);
    const [id] = this.#waiting;
    if (askedAs === undefined || id === undefined) return;
    if ([...this.#asking.keys()].some((other) => other !== call && this.#canAsk(other))) {
      this.#asking.delete(call);
      call.passOn(askedAs);
    } else {
      this.#askInstead(id, this.#params);
    }
  }

  /**
   * A call has ended. Another one asks in its place, if there is one.
   * @returns the requests for which nobody asks any more; the call itself replies to the one that it asked
   */
  ended(call: SessionCall): ServerRequestId[] {
    this.cancelled(call);
    const askedAs = this.#asking.get(call);
    if (askedAs === undefined) return [];
    const others = [...this.#waiting].filter((id) => id !== askedAs);
    for (const id of others) this.#waiting.delete(id);
    return others;
  }

  /**
   * The server takes a request back.
   * @returns true if the call that asks may hear of it: nobody else waits for the answer
   */
  withdraw(id: ServerRequestId): boolean {
    if (!this.#waiting.delete(id)) return true;
    if (this.#waiting.size > 0) return false;
    const asking = [...this.#asking];
    this.clear();
    for (const [carrier, askedAs] of asking) if (askedAs !== id) carrier.withdraw(askedAs);
    return true;
  }

  clear(): void {
    this.#waiting.clear();
    this.#asking.clear();
    this.#answered(true);
    this.#patience?.cancel();
    this.#patience = null;
  }

  #answered(isTaken: boolean): void {
    this.#answering?.isTaken.resolve(isTaken);
    this.#answering = null;
  }

  /** Has a call ask in place of those that did. */
  #askInstead(askedAs: ServerRequestId, params: JsonObject): void {
    const carrier = this.#nextCarrier();
    if (carrier === null) return;
    for (const [former, formerId] of this.#asking) former.passOn(formerId);
    this.#asking.clear();
    this.#params = params;
    this.#ask(carrier, askedAs);
  }

  /** Has a further call ask, if more requests wait than calls ask: the others may never get an answer. */
  #askAnother(): void {
    const asked = new Set(this.#asking.values());
    const id = [...this.#waiting].findLast((one) => !asked.has(one));
    const carrier = id === undefined ? null : this.#nextCarrier();
    if (id !== undefined && carrier !== null) this.#ask(carrier, id);
  }

  #ask(carrier: SessionCall, askedAs: ServerRequestId): void {
    this.#asking.set(carrier, askedAs);
    this.#patience?.cancel();
    this.#patience = this.#clock.setTimer(PATIENCE_MS, () => {
      this.#patience = null;
      this.#askAnother();
    });
    carrier.ask(askedAs, 'roots/list', this.#params);
  }

  #canAsk(call: SessionCall): boolean {
    return !call.isCancelled && [...this.#running.values()].includes(call);
  }

  /**
   * The newest call that does not ask yet, if there is one without an open question: its client is connected, and can be asked at
   * once.
   */
  #nextCarrier(): SessionCall | null {
    const calls = [...this.#running.values()]
      .filter((call) => !call.isCancelled && !this.#asking.has(call))
      .toReversed();
    return calls.find((call) => !call.hasOpenQuestions) ?? calls[0] ?? null;
  }
}
