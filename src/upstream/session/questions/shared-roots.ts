/**
 * `roots/list` on streams that name no call. The roots are the caller's and not a call's: one of the running calls
 * asks its client, and the answer goes to every such request of the server that is open then.
 */
import type { Entries } from '../../../lib/containers.ts';
import type { ServerRequestId, UpstreamRequestId } from '../../../protocol/ids.ts';
import type { JsonObject } from '../../../protocol/json.ts';

/** A call that can ask its client. */
export interface RootsCarrier {
  readonly isCancelled: boolean;
  readonly hasOpenQuestions: boolean;
  ask(id: ServerRequestId, method: string, params: JsonObject): void;
  /** Another call asks in its place. The call must not answer the question any more. */
  passOn(id: ServerRequestId): void;
  /** Nobody waits for the answer any more. */
  withdraw(id: ServerRequestId): void;
}

interface OpenRootsRequest<Call> {
  readonly carrier: Call;
  /** The request of the server under which the call asks. */
  readonly askedAs: ServerRequestId;
  readonly params: JsonObject;
}

/** The most requests of a server that wait for one answer. */
const MAX_WAITING = 256;

export class SharedRoots<Call extends RootsCarrier> {
  readonly #running: Entries<UpstreamRequestId, Call>;
  /** The requests of the server that wait for the answer. */
  readonly #waiting = new Set<ServerRequestId>();
  #open: OpenRootsRequest<Call> | null = null;

  constructor(running: Entries<UpstreamRequestId, Call>) {
    this.#running = running;
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
    const isAsked = this.#open !== null && this.#canAsk(this.#open.carrier);
    if (!isAsked && this.#nextCarrier() === null) return false;
    this.#waiting.add(id);
    if (!isAsked) this.#ask(id, params);
    return true;
  }

  /**
   * Returns the requests to which a call's answer is the reply, without those that the server took back;
   * `null` if the question was not one of these.
   */
  answeredBy(call: Call, id: ServerRequestId): readonly ServerRequestId[] | null {
    const open = this.#open;
    return open?.carrier === call && open.askedAs === id ? [...this.#waiting] : null;
  }

  /** The answer has reached the server. @returns requests that came meanwhile, and wait for the same reply */
  close(answered: readonly ServerRequestId[]): ServerRequestId[] {
    const later = [...this.#waiting].filter((id) => !answered.includes(id));
    const open = this.#open;
    this.clear();
    // Another call may have taken its place while the answer was on its way.
    open?.carrier.withdraw(open.askedAs);
    return later;
  }

  /** A call is cancelled. Another one asks in its place, if there is one. */
  cancelled(call: Call): void {
    const open = this.#open;
    const [id] = this.#waiting;
    if (open?.carrier === call && id !== undefined) this.#ask(id, open.params);
  }

  /**
   * A call has ended. Another one asks in its place, if there is one.
   * @returns the requests for which nobody asks any more; the call itself replies to the one that it asked
   */
  ended(call: Call): ServerRequestId[] {
    this.cancelled(call);
    const open = this.#open;
    if (open?.carrier !== call) return [];
    const others = [...this.#waiting].filter((id) => id !== open.askedAs);
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
    const open = this.#open;
    this.#open = null;
    if (open !== null && open.askedAs !== id) open.carrier.withdraw(open.askedAs);
    return true;
  }

  clear(): void {
    this.#waiting.clear();
    this.#open = null;
  }

  #ask(askedAs: ServerRequestId, params: JsonObject): void {
    const carrier = this.#nextCarrier();
    if (carrier === null) return;
    this.#open?.carrier.passOn(this.#open.askedAs);
    this.#open = { carrier, askedAs, params };
    carrier.ask(askedAs, 'roots/list', params);
  }

  #canAsk(call: Call): boolean {
    return !call.isCancelled && [...this.#running.values()].includes(call);
  }

  /** The newest call without an open question: its client is connected, and can be asked at once. */
  #nextCarrier(): Call | null {
    const calls = [...this.#running.values()].filter((call) => !call.isCancelled).toReversed();
    return calls.find((call) => !call.hasOpenQuestions) ?? calls[0] ?? null;
  }
}
