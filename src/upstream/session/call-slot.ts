/**
 * The one interactive call that a session carries at a time: who listens to it, and the questions that
 * the server asked in it and waits for.
 */
import type { ServerRequestId, UpstreamRequestId } from '../../protocol/ids.ts';
import type { JsonObject } from '../../protocol/json/json.ts';
import type { Patience } from './progress-heartbeat.ts';
import type { CrossTalk, Party } from '../cross-talk.ts';
import type { ExchangeListener } from './exchange.ts';

export class SessionCall {
  /** The stream of the call was taken up, and has not named the call yet. */
  onTrial = false;
  /** The stream of the call was taken up: what names a request there must name the call, to its end. */
  takenUp = false;
  readonly #patience: Patience;
  readonly #crossTalk: CrossTalk;
  readonly #party: Party;
  readonly #askedOf = new Map<ServerRequestId, ExchangeListener>();
  /** Every question of the call so far: a stream that is read on may bring one once more. */
  readonly #heard = new Set<ServerRequestId>();
  #carriedOne = false;
  #mayBeUnknown = false;
  #current: { readonly id: UpstreamRequestId; readonly listener: ExchangeListener } | null = null;

  /** @param party the session, as `CrossTalk` knows it */
  constructor(patience: Patience, crossTalk: CrossTalk, party: Party) {
    this.#patience = patience;
    this.#crossTalk = crossTalk;
    this.#party = party;
  }

  /** The id of the call's request; `null` while there is no call. */
  get id(): UpstreamRequestId | null {
    return this.#current?.id ?? null;
  }

  get listener(): ExchangeListener | null {
    return this.#current?.listener ?? null;
  }

  /** Who listens to the call with this id, if it is the one that the session carries. */
  listenerOf(id: UpstreamRequestId): ExchangeListener | null {
    return this.#current?.id === id ? this.#current.listener : null;
  }

  /** True from the first call on that the session carries. */
  get carriedOne(): boolean {
    return this.#carriedOne;
  }

  /**
   * True while an error in answer to the call may mean that the server knows the session no more: a
   * session that was opened for the call is known, and one that the server spoke in, too.
   */
  get mayBeUnknown(): boolean {
    return this.#mayBeUnknown;
  }

  /** @param open questions that the server asked before, and waits for */
  begin(
    id: UpstreamRequestId,
    listener: ExchangeListener,
    open: readonly ServerRequestId[] = [],
  ): void {
    this.#current = { id, listener };
    this.onTrial = false;
    this.takenUp = false;
    this.#crossTalk.began(id, this.#party);
    this.#mayBeUnknown = this.#carriedOne;
    this.#carriedOne = true;
    for (const question of open) {
      this.#askedOf.set(question, listener);
      this.#heard.add(question);
    }
  }

  /**
   * Ends the call with this id, if it is the one that the session carries.
   * @param replied true when the server has answered the call
   * @returns who listened to it
   */
  end(id: UpstreamRequestId, replied = false): ExchangeListener | null {
    const listener = this.listenerOf(id);
    if (listener === null) return null;
    this.#crossTalk.ended(id, replied);
    this.onTrial = false;
    this.takenUp = false;
    this.#current = null;
    this.#askedOf.clear();
    this.#heard.clear();
    this.#patience.stop();
    return listener;
  }

  /** The server asks a question of the call. */
  asked(listener: ExchangeListener, id: ServerRequestId, method: string, params: JsonObject): void {
    this.#mayBeUnknown = false;
    // No id comes twice in a session (basic, "Requests"): it is the question that we have.
    if (this.#heard.has(id)) return;
    this.#heard.add(id);
    this.#askedOf.set(id, listener);
    this.#patience.asked(id, params);
    listener.asked(id, method, params);
  }

  /** The server says something that concerns the call, and waits for nothing. */
  notified(method: string, params: JsonObject): void {
    this.#mayBeUnknown = false;
    this.#current?.listener.notified(method, params);
  }

  /** The stream of the call is read on by `Last-Event-ID`. */
  streamTakenUp(): void {
    this.onTrial = true;
    this.takenUp = true;
  }

  /** Whether the server asked this question in the call. */
  hasHeard(id: ServerRequestId): boolean {
    return this.#heard.has(id);
  }

  /** The server has the answer. */
  answered(id: ServerRequestId): void {
    this.#askedOf.delete(id);
    this.#patience.settled(id);
  }

  /** The server waits no more for an answer. */
  withdrawn(id: ServerRequestId): void {
    const listener = this.#askedOf.get(id);
    this.answered(id);
    listener?.withdrawn(id);
  }
}
